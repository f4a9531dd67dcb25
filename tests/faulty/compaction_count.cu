// The number of kept elements is read before all threads have counted.
// topic: atomics and plain accesses
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg kept: int[128] = zeros
// arg count: int[1] = zeros
// fault: race
__global__ void keep_large(const int *x, int *kept, int *count)
{
    __shared__ int used;

    if (threadIdx.x == 0)
        used = 0;
    __syncthreads();
    if (x[threadIdx.x] > 40)
        kept[atomicAdd(&used, 1)] = x[threadIdx.x]; // THERE
    if (threadIdx.x == 0)
        *count = used; // HERE
}
