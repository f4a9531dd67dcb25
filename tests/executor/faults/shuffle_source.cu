// Shuffles from lanes without a value: not in the mask, exited, or not in the block at all.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: undefined shuffle at @HERE: lane 0 reads lane 16, which mask 0x0000ffff does not
// name in kernel not_in_mask, block (0, 0, 0), thread (0, 0, 0)*
__global__ void not_in_mask(int *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_down_sync(0x0000ffffu, threadIdx.x, 16); // HERE
}

// EXPECT cudaErrorLaunchFailure: undefined shuffle at @THERE: lane 8 reads lane 24, which has exited in kernel
// exited, block (0, 0, 0), thread (8, 0, 0)*
__global__ void exited(int *out)
{
    if (threadIdx.x >= 24)
        return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 16); // THERE
}

// EXPECT cudaErrorLaunchFailure: undefined shuffle at @LAST: lane 15 reads lane 31, which is beyond the 48
// threads of the block in kernel half_a_warp, block (0, 0, 0), thread (47, 0, 0)*
__global__ void half_a_warp(int *out)
{
    const int lane = threadIdx.x % 32;
    out[threadIdx.x] = __shfl_sync(0xffffffffu, lane, threadIdx.x == 47 ? 31 : lane); // LAST
}

int main()
{
    Array<int> out(64);
    not_in_mask<<<1, 32>>>(out.device);
    report();
    exited<<<1, 32>>>(out.device);
    report();
    half_a_warp<<<1, 48>>>(out.device);
    report();
    return verdict();
}
