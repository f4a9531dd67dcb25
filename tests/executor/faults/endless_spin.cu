// A lock that is never released: a warp spins on it, and each of its threads switches to the others in vain.
#include "fault.h"

// EXPECT cudaErrorLaunchTimeout: time limit exceeded in kernel spin, block (0, 0, 0), thread (*): the watchdog ended
// the block while this thread ran; *SMEMKIT_WATCHDOG to more seconds, or to 0 for no limit: 96 of 128 threads wait at @HERE
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
