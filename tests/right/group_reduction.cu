// A reduction that works for any cooperative group, called with a tile and with the block.
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg sums: int[3] = zeros
#include <cooperative_groups.h>
using namespace cooperative_groups;

template <typename Group>
__device__ int sum_of(Group group, int *scratch, int value)
{
    const int lane = group.thread_rank();

    for (int i = group.size() / 2; i > 0; i /= 2) {
        scratch[lane] = value;
        group.sync();
        if (lane < i)
            value += scratch[lane + i];
        group.sync();
    }
    return value;
}

__global__ void sums_of_groups(const int *x, int *sums)
{
    __shared__ int scratch[64];
    thread_block block = this_thread_block();
    thread_block_tile<32> tile = tiled_partition<32>(block);
    const int t = block.thread_rank();

    const int of_tile = sum_of(tile, scratch + t / 32 * 32, x[t]);
    if (tile.thread_rank() == 0)
        sums[1 + t / 32] = of_tile;
    block.sync();
    const int of_block = sum_of(block, scratch, x[t]);
    if (t == 0)
        sums[0] = of_block;
}
