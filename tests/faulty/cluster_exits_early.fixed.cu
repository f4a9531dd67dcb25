// The last barrier keeps both blocks until all reads are done.
// launch: grid 4, block 64
// arg x: int[256] = random
// arg y: int[256] = zeros
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// y = x, with the halves of each pair of blocks exchanged
__global__ void __cluster_dims__(2, 1, 1) exchanged(const int *x, int *y)
{
    __shared__ int s[64];
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, other = cluster.block_rank() ^ 1;

    s[t] = x[blockIdx.x * 64 + t];
    cluster.sync();
    y[blockIdx.x * 64 + t] = cluster.map_shared_rank(s, other)[t];
    cluster.sync();
}
