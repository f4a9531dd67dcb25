__device__ float warp_sum(float sum)
{
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    return sum; // of the warp, in lane 0
}

__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float s[8];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float sum = warp_sum(i < n ? x[i] : 0);

    if (t % 32 == 0)
        s[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warp_sum(t < 8 ? s[t] : 0);
        if (t == 0)
            sums[blockIdx.x] = sum;
    }
}
