__global__ void count_positive(const float *x, int *counts, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;

    if (i < n) {
        unsigned votes = 0; // TODO: one bit per lane
        if (threadIdx.x % 32 == 0)
            counts[i / 32] = __popc(votes);
    }
}
