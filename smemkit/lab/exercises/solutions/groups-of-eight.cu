#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void sums_of_eight(const float *x, float *sums)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = x[i];

    for (int offset = tile.size() / 2; offset > 0; offset /= 2)
        sum += tile.shfl_down(sum, offset);
    if (tile.thread_rank() == 0)
        sums[i / 8] = sum;
}
