// A tree reduction with sequential addressing, whose threads add two elements while loading.
// launch: grid 2, block 128
// arg x: float[500] = random
// arg sums: float[2] = zeros
// arg n: 500
__global__ void reduce(const float *x, float *sums, unsigned int n)
{
    __shared__ float s[128];
    unsigned int t = threadIdx.x, i = blockIdx.x * 256 + t;

    s[t] = (i < n ? x[i] : 0.0f) + (i + 128 < n ? x[i + 128] : 0.0f);
    __syncthreads();
    for (unsigned int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
