// The last thread reads the total count after a barrier.
// topic: atomics and plain accesses
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg count: int[1] = zeros
__global__ void count_small(const int *x, int *count)
{
    __shared__ int few;

    if (threadIdx.x == 0)
        few = 0;
    __syncthreads();
    if (x[threadIdx.x] % 127 < 64)
        atomicAdd(&few, 1);
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1)
        *count = few;
}
