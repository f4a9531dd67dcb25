// Threads count before the counters are zero.
// topic: atomics and plain accesses
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg histogram: int[64] = zeros
// fault: race
__global__ void count(const int *x, int *histogram)
{
    __shared__ int bins[64];
    const int t = threadIdx.x;

    bins[t] = 0;                         // THERE
    atomicAdd(&bins[x[63 - t] % 64], 1); // HERE
    __syncthreads();
    histogram[t] = bins[t];
}
