__global__ void count_positive(const float *x, int *counts, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    unsigned votes = __ballot_sync(0xffffffff, i < n && x[i] > 0);

    if (threadIdx.x % 32 == 0)
        counts[i / 32] = __popc(votes);
}
