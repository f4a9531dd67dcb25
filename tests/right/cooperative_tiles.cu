// Groups of eight reduce by shuffles, then the block through shared memory, written with cooperative groups.
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg sums: int[2] = zeros
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void block_sums(const int *x, int *sums)
{
    __shared__ int parts[8];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int sum = x[block.group_index().x * block.size() + block.thread_rank()];

    for (int offset = tile.size() / 2; offset > 0; offset /= 2)
        sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0)
        parts[block.thread_rank() / 8] = sum;
    block.sync();
    if (block.thread_rank() == 0) {
        int all = 0;
        for (int i = 0; i < 8; i++)
            all += parts[i];
        sums[blockIdx.x] = all;
    }
}
