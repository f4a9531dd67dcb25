// A tree reduction with interleaved addressing: divergent, slow and correct.
// launch: grid 3, block 64, shared 256
// arg x: float[192] = random
// arg sums: float[3] = zeros
__global__ void reduce(const float *x, float *sums)
{
    extern __shared__ float s[];
    unsigned int t = threadIdx.x;

    s[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        if (t % (2 * stride) == 0)
            s[t] += s[t + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
