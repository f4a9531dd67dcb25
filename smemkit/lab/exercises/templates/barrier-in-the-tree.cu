__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;

    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
    }
    __syncthreads();
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
