// A pointer to memory that belongs to no buffer.
#include "fault.h"

// EXPECT cudaErrorIllegalAddress: illegal *belongs to no buffer in kernel write, block (0, 0, 0), thread (0, 0, 0)
__global__ void write(int *out)
{
    *out = 1;
}

int main()
{
    write<<<1, 1>>>((int *)0x1234567890);
    report();
    return verdict();
}
