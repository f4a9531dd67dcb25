// The last thread reads the total count, but only its own atomic is certain to have been performed.
// topic: atomics and plain accesses
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg count: int[1] = zeros
// fault: race
__global__ void count_small(const int *x, int *count)
{
    __shared__ int few;

    if (threadIdx.x == 0)
        few = 0;
    __syncthreads();
    if (x[threadIdx.x] % 127 < 64)
        atomicAdd(&few, 1); // THERE
    if (threadIdx.x == blockDim.x - 1)
        *count = few; // HERE
}
