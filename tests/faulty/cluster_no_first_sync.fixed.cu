// A barrier of the cluster makes sure that the bins of both blocks are there and zero.
// launch: grid 4, block 64
// arg x: int[256] = random
// arg y: int[256] = zeros
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// the bins of a pair of blocks are shared by both: the first half is in one, the second in the other
__global__ void __cluster_dims__(2, 1, 1) histogram(const int *x, int *y)
{
    __shared__ int bins[64];
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, bin = (unsigned)x[blockIdx.x * 64 + t] % 128;

    bins[t] = 0;
    cluster.sync();
    atomicAdd(cluster.map_shared_rank(bins, bin / 64) + bin % 64, 1);
    cluster.sync();
    y[blockIdx.x * 64 + t] = bins[t];
}
