__global__ void histogram(const int *x, int *counts, int n)
{
    __shared__ int mine[32];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

    if (t < 32)
        mine[t] = 0;
    __syncthreads();
    if (i < n)
        atomicAdd(&mine[x[i]], 1);
    __syncthreads();
    if (t < 32)
        atomicAdd(&counts[t], mine[t]);
}
