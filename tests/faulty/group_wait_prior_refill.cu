// The group starts the next copy into the stage that its slower threads still read.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race WAR
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

namespace cg = cooperative_groups;

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[2][64];
    const auto block = cg::this_thread_block();
    const int t = threadIdx.x;

    cg::memcpy_async(block, s[0], x, sizeof s[0]);
    for (int i = 0; i < 4; i++) {
        const int next = i < 3 ? i + 1 : 0;

        cg::memcpy_async(block, s[(i + 1) % 2], x + 64 * next, sizeof s[0]); // HERE
        cg::wait_prior<1>(block);
        y[64 * i + t] = s[i % 2][63 - t]; // THERE
    }
    cg::wait(block);
}
