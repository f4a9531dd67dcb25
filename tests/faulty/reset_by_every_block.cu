// Each block sets the grid-wide sum to zero before it adds to it.
// topic: between blocks
// launch: grid 4, block 32
// arg x: int[128] = iota
// arg total: int[1] = zeros
// fault: race
__global__ void sum(const int *x, int *total)
{
    if (threadIdx.x == 0)
        *total = 0; // THERE
    __syncthreads();
    atomicAdd(total, x[blockIdx.x * 32 + threadIdx.x]); // HERE
}
