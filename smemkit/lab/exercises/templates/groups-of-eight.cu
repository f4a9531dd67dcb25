#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void sums_of_eight(const float *x, float *sums)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block); // TODO: tiles of eight
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = x[i];

    // TODO: three steps of shuffles
    if (tile.thread_rank() == 0)
        sums[i / 8] = sum;
}
