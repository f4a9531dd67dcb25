__global__ void rank_in_block(const float *x, int *rank, int n)
{
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    int smaller = 0;

    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int j = 0; j < 64; j++)
        smaller += s[j] < s[t];
    if (i < n)
        rank[i] = smaller;
}
