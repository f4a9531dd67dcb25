// A reduction that is unrolled for its block size, down to the last warp, which uses __syncwarp.
// launch: grid 2, block 128
// kernel: reduce<128>
// arg x: float[1000] = random
// arg sums: float[2] = zeros
// arg n: 1000
template <unsigned int BLOCK>
__device__ void reduce_warp(volatile float *s, unsigned int t)
{
    float sum = s[t];
#pragma unroll
    for (unsigned int stride = 32; stride > 0; stride /= 2) {
        if (BLOCK >= 2 * stride)
            sum += s[t + stride];
        __syncwarp();
        s[t] = sum;
        __syncwarp();
    }
}

template <unsigned int BLOCK>
__global__ void reduce(const float *x, float *sums, unsigned int n)
{
    __shared__ float s[BLOCK < 64 ? 64 : BLOCK];
    const unsigned int t = threadIdx.x;
    float sum = 0;

    for (unsigned int i = blockIdx.x * BLOCK + t; i < n; i += BLOCK * gridDim.x)
        sum += x[i];
    s[t] = sum;
    __syncthreads();
    if (BLOCK >= 256) {
        if (t < 128)
            s[t] += s[t + 128];
        __syncthreads();
    }
    if (BLOCK >= 128) {
        if (t < 64)
            s[t] += s[t + 64];
        __syncthreads();
    }
    if (t < 32)
        reduce_warp<BLOCK>(s, t);
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
