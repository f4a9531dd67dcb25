// The grid-wide sum is zero when the launch begins.
// topic: between blocks
// launch: grid 4, block 32
// arg x: int[128] = iota
// arg total: int[1] = zeros
__global__ void sum(const int *x, int *total)
{
    atomicAdd(total, x[blockIdx.x * 32 + threadIdx.x]);
}
