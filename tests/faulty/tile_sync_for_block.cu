// The threads of one cooperative group synchronise, but read what another group wrote.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: int[64] = iota
// fault: race RAW
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void rotate_by_a_warp(int *x)
{
    __shared__ int s[64];
    const cg::thread_block block = cg::this_thread_block();
    const cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    const int t = threadIdx.x;

    s[t] = x[t]; // THERE
    tile.sync();
    x[t] = s[(t + 32) % 64]; // HERE
}
