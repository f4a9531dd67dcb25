// One warp synchronises the cooperative group of that warp.
// topic: divergent barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reverse_first_warp(int *x)
{
    __shared__ int s[32];
    const int t = threadIdx.x;
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);

    if (warp.meta_group_rank() == 0) {
        s[t] = x[t];
        cg::sync(warp);
        x[t] = s[31 - t];
    }
}
