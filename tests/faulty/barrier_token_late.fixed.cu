// A thread reads when its wait is over.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
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
    cuda::memcpy_async(block, s, x, sizeof s, copied);
    auto token = copied.arrive();
    copied.wait(std::move(token));
    y[threadIdx.x] = s[63 - threadIdx.x];
}
