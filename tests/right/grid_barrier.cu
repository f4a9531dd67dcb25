// Two resident blocks wait for each other, with a fence before the counter's increment and one after the wait.
// launch: grid 2, block 32
// arg x: int[64] = iota
// arg arrived: unsigned int[1] = zeros
__global__ void reverse_all(int *x, unsigned *arrived)
{
    const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    const int mirrored = x[n - 1 - i];

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x)
            ;
        __threadfence();
    }
    __syncthreads();
    x[i] = mirrored;
}
