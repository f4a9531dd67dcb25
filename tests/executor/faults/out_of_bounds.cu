// Writes outside a buffer: far, one element past its end, one before it, and into a freed buffer.
#include "fault.h"

__global__ void write(int *out, long index)
{
    if (threadIdx.x == 3 && blockIdx.x == 1)
        out[index] = 1;
}

int main()
{
    // EXPECT cudaErrorIllegalAddress: illegal write: 400000 bytes past the end of a buffer of 4096 bytes in kernel
    // write, block (1, 0, 0), thread (3, 0, 0)
    Array<int> pages(1024);
    write<<<2, 32>>>(pages.device, 1024 + 100000);
    report();
    // EXPECT cudaErrorIllegalAddress: illegal write: 400096 bytes before a buffer of 4096 bytes in kernel write,
    // block (1, 0, 0), thread (3, 0, 0)
    write<<<2, 32>>>(pages.device, -100024);
    report();
    // EXPECT cudaErrorIllegalAddress: illegal write: 0 bytes past the end of a buffer of 4096 bytes in kernel
    // write, block (1, 0, 0), thread (3, 0, 0)
    write<<<2, 32>>>(pages.device, 1024);
    report();
    // EXPECT cudaErrorIllegalAddress: illegal write in kernel write: 0 bytes past the end of a buffer of 4000
    // bytes
    Array<int> odd(1000);
    write<<<2, 32>>>(odd.device, 1000); // no guard page there: found at the end of the launch
    report();
    // EXPECT cudaErrorIllegalAddress: illegal write in kernel write: 4 bytes before a buffer of 400 bytes
    Array<int> small(100);
    write<<<2, 32>>>(small.device, -1);
    report();
    // EXPECT cudaErrorIllegalAddress: illegal write: *belongs to no buffer in kernel write, block (1, 0, 0),
    // thread (3, 0, 0)
    int *freed;
    cudaMalloc(&freed, 1 << 20);
    cudaFree(freed);
    write<<<2, 32>>>(freed, 0);
    report();
    return verdict();
}
