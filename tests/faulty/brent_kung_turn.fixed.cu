// Every step of the scan begins with a barrier.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: float[128] = random
__global__ void scan(float *x)
{
    __shared__ float s[128];
    const int t = threadIdx.x;

    s[t] = x[t];
    s[t + 64] = x[t + 64];
    for (int stride = 1; stride <= 64; stride *= 2) {
        __syncthreads();
        const int i = (t + 1) * 2 * stride - 1;
        if (i < 128)
            s[i] += s[i - stride];
    }
    for (int stride = 32; stride > 0; stride /= 2) {
        __syncthreads();
        const int i = (t + 1) * 2 * stride - 1;
        if (i + stride < 128)
            s[i + stride] += s[i];
    }
    __syncthreads();
    x[t] = s[t];
    x[t + 64] = s[t + 64];
}
