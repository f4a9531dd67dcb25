// A lane takes part in a vote whose mask does not name it.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: warp divergence at @HERE: mask 0x0000ffff does not name the calling lane 16 in
// kernel not_named, block (0, 0, 0), thread (16, 0, 0)*
__global__ void not_named(unsigned *out)
{
    out[threadIdx.x] = __ballot_sync(0x0000ffffu, threadIdx.x % 2); // HERE
}

int main()
{
    Array<unsigned> out(32);
    not_named<<<1, 32>>>(out.device);
    report();
    return verdict();
}
