// Shuffles whose mask names lanes that wait at another line.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: warp divergence in kernel two_places, block (0, 0, 0): 10 of 32 threads wait at
// @HERE for lanes of mask 0xffffffff, 22 of 32 threads wait at @THERE for lanes of mask 0xffffffff
__global__ void two_places(int *out)
{
    const int lane = threadIdx.x;
    if (lane < 10)
        out[lane] = __shfl_sync(0xffffffffu, lane, 0); // HERE
    else
        out[lane] = __shfl_xor_sync(0xffffffffu, lane, 1); // THERE
}

int main()
{
    Array<int> out(32);
    two_places<<<1, 32>>>(out.device);
    report();
    return verdict();
}
