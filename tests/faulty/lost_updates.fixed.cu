// Many threads count into the same counters with atomics.
// topic: atomics and plain accesses
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg histogram: int[4] = zeros
__global__ void count(const int *x, int *histogram)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    atomicAdd(&histogram[x[i] % 4], 1);
}
