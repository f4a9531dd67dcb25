// A lock that is never released: all threads spin on it, and each lets the others run in vain.
#include "fault.h"

// EXPECT cudaErrorLaunchTimeout: endless wait in kernel spin, block (0, 0, 0), thread (*): it was ended by the
// watchdog (SMEMKIT_WATCHDOG) while this thread ran: 96 of 128 threads wait at @HERE
__global__ void spin(int *lock)
{
    if (threadIdx.x < 32)
        while (atomicCAS(lock, 0, 1) != 0)
            ;
    __syncthreads(); // HERE
}

int main()
{
    Array<int> lock(1);
    lock[0] = 1;
    lock.upload();
    spin<<<1, 128>>>(lock.device);
    report();
    return verdict();
}
