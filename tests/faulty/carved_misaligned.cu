// Shared memory is divided into an odd number of ints and doubles, which are four bytes off their alignment.
// topic: misaligned accesses
// launch: grid 1, block 33, shared 396
// arg x: int[33] = iota
// arg y: double[33] = zeros
// fault: misaligned
__global__ void halve(const int *x, double *y)
{
    extern __shared__ __align__(16) unsigned char raw[];
    int *counts = (int *)raw;
    double *halves = (double *)&counts[blockDim.x];
    const int t = threadIdx.x, n = blockDim.x;

    counts[t] = x[t];
    halves[t] = 0.5 * x[t]; // HERE
    __syncthreads();
    y[t] = halves[n - 1 - t] + counts[n - 1 - t]; // ALSO
}
