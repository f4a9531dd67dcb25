__global__ void keep_positive(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n && x[i] > 0)
        kept[(*count)++] = x[i]; // TODO: one step
}

__global__ void rank_kept(const int *kept, const int *count, int *sums)
{
    sums[0] = sums[1] = 0;
    for (int k = 0; k < *count; k++) {
        sums[0] += kept[k];
        sums[1] += kept[k] * kept[k];
    }
}
