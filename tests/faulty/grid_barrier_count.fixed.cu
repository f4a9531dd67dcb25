// A grid-wide barrier waits for as many arrivals as there are blocks.
// topic: endless waits
// launch: grid 2, block 32
// arg x: int[64] = iota
// arg arrived: unsigned int[1] = zeros
// arg y: int[64] = zeros
__global__ void reverse_all(const int *x, unsigned *arrived, int *y)
{
    __shared__ int s[32];
    const int t = threadIdx.x, n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + t;

    s[t] = x[i];
    y[i] = -1;
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (atomicAdd(arrived, 0u) < gridDim.x)
            ;
        __threadfence();
    }
    __syncthreads();
    y[n - 1 - i] = s[t];
}
