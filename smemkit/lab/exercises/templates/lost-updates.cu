__global__ void histogram(const int *x, int *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        counts[x[i]]++; // TODO: no update may be lost
}
