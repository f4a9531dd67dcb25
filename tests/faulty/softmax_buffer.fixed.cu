// All threads have read the maximum before the exponentials are stored in the buffer.
// topic: buffer reuse
// launch: grid 2, block 64
// arg x: float[2, 64] = random
// arg y: float[2, 64] = zeros
__global__ void softmax(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    const float value = x[blockIdx.x * 64 + t];

    s[t] = value;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] = fmaxf(s[t], s[t + stride]);
        __syncthreads();
    }
    const float e = expf(value - s[0]);
    __syncthreads();

    s[t] = e;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    y[blockIdx.x * 64 + t] = e / s[0];
}
