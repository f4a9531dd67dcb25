// Many threads count into the same counters without an atomic.
// topic: atomics and plain accesses
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg histogram: int[4] = zeros
// fault: race
__global__ void count(const int *x, int *histogram)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    histogram[x[i] % 4]++; // HERE
}
