// A block overwrites its values while the other one may still read the last ones.
// topic: clusters
// launch: grid 4, block 64
// arg x: int[256] = random
// arg y: int[256] = zeros
// fault: race WAR
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// each block adds, four times, what the other one has at the moment
__global__ void __cluster_dims__(2, 1, 1) diffused(const int *x, int *y)
{
    __shared__ int s[64];
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, other = cluster.block_rank() ^ 1;
    int sum = (unsigned)x[blockIdx.x * 64 + t] % 100;

    for (int i = 0; i < 4; i++) {
        s[t] = sum; // THERE
        cluster.sync();
        sum += cluster.map_shared_rank(s, other)[t]; // HERE
    }
    y[blockIdx.x * 64 + t] = sum;
    cluster.sync();
}
