// Named barriers that no thread can pass, or that are used with invalid arguments.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: barrier divergence in kernel forgotten, block (0, 0, 0): 64 of 128 threads wait
// at @A for barrier 3, at which 64 of 128 have arrived, the rest have exited
__global__ void forgotten()
{
    if (threadIdx.x < 64)
        asm volatile("bar.sync 3, 128;" ::: "memory"); // A
}

// EXPECT cudaErrorLaunchFailure: barrier 1 for 96 threads at @C, but for 64 threads at @B in kernel mismatched,
// block (0, 0, 0), thread (64, 0, 0): 32 of 128 threads wait at @B for barrier 1, at which 32 of 64 have arrived*
__global__ void mismatched()
{
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory"); // B
    if (threadIdx.x >= 64)
        asm volatile("bar.sync 1, 96;" ::: "memory"); // C
}

// EXPECT cudaErrorLaunchFailure: a second arrival at barrier 2 at @D, before its phase is complete: 1 of 64
// threads have arrived in kernel twice, block (0, 0, 0), thread (0, 0, 0)*
__global__ void twice()
{
    for (int i = 0; i < 2; ++i)
        asm volatile("bar.arrive 2, 64;" ::: "memory"); // D
}

// EXPECT cudaErrorLaunchFailure: no barrier 16 (a block has 0 to 15) at @E in kernel seventeenth*
__global__ void seventeenth()
{
    asm volatile("bar.sync 16, 64;" ::: "memory"); // E
}

// EXPECT cudaErrorLaunchFailure: barrier 1 for 48 threads, not a multiple of 32, at @F in kernel
// half_a_warp*
__global__ void half_a_warp()
{
    asm volatile("bar.sync 1, 48;" ::: "memory"); // F
}

// EXPECT cudaErrorLaunchFailure: barrier 1 for 256 threads of a block that has 64 at @G in kernel too_many*
__global__ void too_many()
{
    asm volatile("bar.sync 1, 256;" ::: "memory"); // G
}

int main()
{
    forgotten<<<1, 128>>>();
    report();
    mismatched<<<1, 128>>>();
    report();
    twice<<<1, 64>>>();
    report();
    seventeenth<<<1, 64>>>();
    report();
    half_a_warp<<<1, 64>>>();
    report();
    too_many<<<1, 64>>>();
    report();
    return verdict();
}
