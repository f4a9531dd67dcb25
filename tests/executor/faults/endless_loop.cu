// An endless loop without an operation that would switch to another thread.
#include "fault.h"

// EXPECT cudaErrorLaunchTimeout: time limit exceeded in kernel wait_for, block (1, 0, 0), thread (4, 0, 0)*watchdog*
__global__ void wait_for(volatile int *flag)
{
    if (blockIdx.x == 1 && threadIdx.x == 4)
        while (!*flag)
            ;
}

int main()
{
    Array<int> flag(1);
    flag.zero();
    wait_for<<<2, 32>>>(flag.device);
    report();
    return verdict();
}
