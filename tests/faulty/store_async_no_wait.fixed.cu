// st.async, and a wait for the bytes.
// launch: grid 2, block 64
// arg x: int[128] = random
// arg y: int[128] = zeros
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// y = x, with the blocks exchanged
__global__ void __cluster_dims__(2, 1, 1) exchanged(const int *x, int *y)
{
    __shared__ int s[64];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, other = cluster.block_rank() ^ 1;

    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 64 * sizeof(int));
    }
    cluster.sync();
    ptx::st_async(cluster.map_shared_rank(&s[t], other), x[blockIdx.x * 64 + t],
                  cluster.map_shared_rank(&full, other));
    while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
    }
    y[blockIdx.x * 64 + t] = s[t];
    cluster.sync();
}
