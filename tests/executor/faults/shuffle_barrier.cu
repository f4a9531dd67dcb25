// Half a warp waits for a shuffle, the other half for the block.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: barrier divergence in kernel shuffle_or_barrier, block (0, 0, 0): 16 of 64
// threads wait at @HERE for lanes of mask 0xffffffff, 48 of 64 threads wait at @THERE
__global__ void shuffle_or_barrier(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x, 0); // HERE

    __syncthreads(); // THERE
}

int main()
{
    Array<int> out(32);
    shuffle_or_barrier<<<1, 64>>>(out.device);
    report();
    return verdict();
}
