// The type with the largest alignment comes first.
// topic: misaligned accesses
// launch: grid 1, block 33, shared 396
// arg x: int[33] = iota
// arg y: double[33] = zeros
__global__ void halve(const int *x, double *y)
{
    extern __shared__ __align__(16) unsigned char raw[];
    double *halves = (double *)raw;
    int *counts = (int *)&halves[blockDim.x];
    const int t = threadIdx.x, n = blockDim.x;

    counts[t] = x[t];
    halves[t] = 0.5 * x[t];
    __syncthreads();
    y[t] = halves[n - 1 - t] + counts[n - 1 - t];
}
