// Sums of rows: each block of a cluster adds a part, and sends it to the first one, which adds those of all.
// launch: grid 8, block 64
// arg x: int[2,1024] = random
// arg y: int[2] = zeros
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

constexpr int BLOCKS = 4, ROW = 1024, PART = ROW / BLOCKS;

__global__ void __cluster_dims__(BLOCKS, 1, 1) row_sums(const int *x, int *y)
{
    __shared__ int partial[64], total;
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank();
    const int *part = x + blockIdx.x / BLOCKS * ROW + rank * PART;

    if (rank == 0 && t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        total = 0;
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full,
                                       BLOCKS * sizeof(int));
    }
    partial[t] = part[t] + part[t + 64] + part[t + 128] + part[t + 192];
    for (int half = 32; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            partial[t] += partial[t + half];
    }
    cluster.sync(); // `total` and the mbarrier of the first block are ready
    if (t == 0)
        ptx::red_async(ptx::op_add, cluster.map_shared_rank(&total, 0), partial[0],
                       cluster.map_shared_rank(&full, 0));
    if (rank == 0 && t == 0) {
        while (!ptx::mbarrier_try_wait_parity(&full, 0)) {
        }
        y[blockIdx.x / BLOCKS] = total;
    }
    cluster.sync(); // until then the first block must not exit
}
