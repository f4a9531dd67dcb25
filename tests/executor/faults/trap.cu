// __trap() ends the launch with all of its blocks, and is reported at its own line.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: __trap at @HERE in kernel trapped, block (1, 2, 0), thread (5, 1, 0)*
__global__ void trapped(int *out)
{
    if (blockIdx.x == 1 && blockIdx.y == 2 && threadIdx.x == 5 && threadIdx.y == 1)
        __trap(); // HERE
    __syncthreads();
    out[threadIdx.x] = 1;
}

// EXPECT cudaErrorLaunchFailure: __trap at @THERE in kernel others_wait, block (0, 0, 0), thread (0, 0, 0)*
__global__ void others_wait(volatile int *flag)
{
    if (blockIdx.x == 0)
        __trap(); // THERE
    while (!*flag)
        ;
}

int main()
{
    Array<int> out(8);
    trapped<<<dim3(2, 3), dim3(8, 2)>>>(out.device);
    report();
    cudaMemset(out.device, 0, sizeof(int));
    others_wait<<<4, 32>>>(out.device);
    report();
    return verdict();
}
