// The grid-wide maximum: a shared maximum per block, then one global atomic per block.
// launch: grid 3, block 64
// arg x: int[192] = random
// arg most: int[1] = zeros
__global__ void maximum(const int *x, int *most)
{
    __shared__ int block_most;

    if (threadIdx.x == 0)
        block_most = -2147483647 - 1;
    __syncthreads();
    atomicMax(&block_most, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicMax(most, block_most);
}
