// A copy goes to both blocks of the cluster, and the second one expects no bytes.
// topic: clusters
// launch: grid 2, block 64
// arg x: int[128] = random
// arg y: int[128] = zeros
// fault: hang race
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// both blocks add the same tile to their parts
__global__ void __cluster_dims__(2, 1, 1) added(const int *x, int *y)
{
    __shared__ alignas(128) int tile[64];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank();

    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    cluster.sync();
    if (rank == 0 && t == 0)
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
    if (rank == 0 && t == 0)
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, x, sizeof tile, &full, (uint16_t)3); // ALSO
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) { // HERE
    }
    y[blockIdx.x * 64 + t] = tile[t] + rank;
    cluster.sync();
}
