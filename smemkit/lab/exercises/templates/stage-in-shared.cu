__global__ void rank_in_block(const float *x, int *rank, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    int smaller = 0;

    if (i < n) {
        for (int j = blockIdx.x * 64; j < blockIdx.x * 64 + 64; j++)
            smaller += (j < n ? x[j] : 0) < x[i]; // TODO: load each value once per block
        rank[i] = smaller;
    }
}
