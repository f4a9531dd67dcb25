// 16 bytes at a time through shared memory and back, and the last elements one by one.
// launch: grid 2, block 32
// arg x: float[259] = iota
// arg y: float[259] = zeros
// arg n: 259
__global__ void copy(const float *x, float *y, int n)
{
    __shared__ float4 s[32];
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (i < n / 4)
        s[t] = reinterpret_cast<const float4 *>(x)[i];
    __syncthreads();
    if (i < n / 4) {
        float4 v = s[t];
        v.x += 1.0f;
        reinterpret_cast<float4 *>(y)[i] = v;
    }
    if (i < n % 4)
        y[n / 4 * 4 + i] = x[n / 4 * 4 + i];
}
