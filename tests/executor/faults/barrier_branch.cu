// Barriers in the two arms of a branch are two different barriers.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: barrier divergence in kernel branches, block (2, 0, 0): 64 of 256 threads wait at
// @HERE, 192 of 256 threads wait at @THERE
__global__ void branches()
{
    if (blockIdx.x != 2)
        __syncthreads();
    else if (threadIdx.x < 64)
        __syncthreads(); // HERE
    else
        __syncthreads(); // THERE
}

int main()
{
    branches<<<4, 256>>>();
    report();
    return verdict();
}
