// The length of the block's queue is read while other threads still append to it.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg next: int[64] = zeros
// fault: race
__global__ void gather(const int *x, int *next)
{
    __shared__ int queue[64], queued;

    if (threadIdx.x == 0)
        queued = 0;
    __syncthreads();
    if (x[threadIdx.x] % 3 == 0)
        queue[atomicAdd(&queued, 1)] = x[threadIdx.x];     // THERE
    for (int i = threadIdx.x; i < queued; i += blockDim.x) // HERE
        next[i] = queue[i];                                // ALSO
}
