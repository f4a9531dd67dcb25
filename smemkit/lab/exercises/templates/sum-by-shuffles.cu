__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float s[8]; // one sum per warp
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    float sum = i < n ? x[i] : 0;

    // TODO: add within the warp, by shuffles
    if (t % 32 == 0)
        s[t / 32] = sum;
    // TODO: let the first warp add the eight sums
    if (t == 0)
        sums[blockIdx.x] = sum;
}
