// One element past the end of dynamic shared memory, and memory that the launch forgot to ask for.
#include "fault.h"

__global__ void past(int n)
{
    extern __shared__ int items[];
    items[threadIdx.x + n] = threadIdx.x;
}

int main()
{
    // EXPECT cudaErrorIllegalAddress: access past the end of the dynamic shared memory (1024 bytes) in kernel
    // past, block (0, 0, 0), thread (255, 0, 0)
    past<<<1, 256, 1024>>>(1);
    report();
    // EXPECT cudaErrorIllegalAddress: access past the end of the dynamic shared memory (0 bytes) in kernel past,
    // block (0, 0, 0), thread (0, 0, 0)
    past<<<1, 256>>>(0);
    report();
    return verdict();
}
