// A thread reads between its arrival and its wait, while copies may still be on their way.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: race RAW
#include <cooperative_groups.h>
#include <cuda/barrier>

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> copied;
    const auto block = cooperative_groups::this_thread_block();

    if (block.thread_rank() == 0)
        init(&copied, block.size());
    block.sync();
    cuda::memcpy_async(block, s, x, sizeof s, copied); // THERE
    auto token = copied.arrive();
    y[threadIdx.x] = s[63 - threadIdx.x]; // HERE
    copied.wait(std::move(token));
}
