__global__ void sum(const int *x, int *total, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;

    if (i < n)
        atomicAdd(total, x[i]); // TODO: one per block
}
