// Each thread waits for its left neighbour; the first thread has none and waits for the last one.
// topic: endless waits
// launch: grid 1, block 32
// arg y: int[32] = zeros
// fault: hang
__global__ void one_after_the_other(int *y)
{
    __shared__ int done[32];
    const int t = threadIdx.x;

    done[t] = 0;
    __syncthreads();
    while (atomicAdd(&done[(t + 31) % 32], 0) == 0) // HERE
        ;
    y[t] = t;
    atomicExch(&done[t], 1);
}
