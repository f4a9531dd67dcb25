// An endless loop without a store, an atomic or a volatile read: C++ lets a compiler assume that it ends.
#include "fault.h"

__global__ void never_one(const unsigned *x)
{
    unsigned n = x[threadIdx.x];
    while (n != 1)
        n = n * 3 & 0xfffffffeu;
}

int main()
{
    Array<unsigned> x(32);
    for (int i = 0; i < 32; ++i)
        x[i] = 2;
    x.upload();
    // EXPECT cudaErrorLaunchTimeout: time limit exceeded in kernel never_one, block (0, 0, 0), thread (0, 0, 0): the
    // watchdog ended the block while this thread ran*
    never_one<<<1, 32>>>(x.device);
    report();
    return verdict();
}
