// Tiles of 16 lanes reverse their own elements, each with its own sync.
// launch: grid 1, block 64
// arg x: int[64] = iota
#include <cooperative_groups.h>

using namespace cooperative_groups;

__global__ void reverse_parts(int *x)
{
    __shared__ int s[4][16];
    auto tile = tiled_partition<16>(this_thread_block());
    const int rank = tile.thread_rank(), part = threadIdx.x / 16;

    s[part][rank] = x[threadIdx.x];
    tile.sync();
    const int mirrored = s[part][15 - rank];
    tile.sync();
    s[part][rank] = mirrored + tile.shfl(mirrored, 0);
    tile.sync();
    x[threadIdx.x] = s[part][(rank + 1) % 16];
}
