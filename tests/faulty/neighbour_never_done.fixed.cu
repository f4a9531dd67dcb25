// Each thread except the first waits for its left neighbour.
// topic: endless waits
// launch: grid 1, block 32
// arg y: int[32] = zeros
__global__ void one_after_the_other(int *y)
{
    __shared__ int done[32];
    const int t = threadIdx.x;

    done[t] = 0;
    __syncthreads();
    while (t > 0 && atomicAdd(&done[(t + 31) % 32], 0) == 0)
        ;
    y[t] = t;
    atomicExch(&done[t], 1);
}
