__global__ void block_sums(const float *x, float *sums, int n)
{
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;

    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int stride = 1; stride < 256; stride *= 2) {
        int first = 2 * stride * t;
        if (first < 256)
            s[first] += s[first + stride];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = s[0];
}
