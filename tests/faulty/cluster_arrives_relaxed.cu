// A relaxed arrival at the cluster's barrier does not make a block's stores visible to the other.
// topic: clusters
// launch: grid 4, block 64
// arg x: int[256] = random
// arg y: int[256] = zeros
// fault: race RAW
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) exchange(const int *x, int *y)
{
    __shared__ int tile[64];
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;

    tile[t] = x[i]; // THERE
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    y[i] = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1)[63 - t]; // HERE
    cluster.sync();
}
