// The second block arrives at an mbarrier of the first, which may have exited by then.
// topic: clusters
// launch: grid 2, block 64
// arg x: int[128] = random
// arg y: int[128] = zeros
// fault: race
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// the second block counts the negative numbers of its part, the first one waits for it
__global__ void __cluster_dims__(2, 1, 1) counted(const int *x, int *y)
{
    __shared__ int count;
    __shared__ uint64_t done;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, rank = cluster.block_rank();

    if (t == 0) {
        count = 0;
        ptx::mbarrier_init(&done, 64);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    cluster.sync();
    if (rank == 1) {
        atomicAdd(cluster.map_shared_rank(&count, 0), x[64 + t] < 0); // ALSO
        ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cluster, ptx::space_cluster, // HERE
                             cluster.map_shared_rank(&done, 0));
    }
    if (rank == 0 && t == 0)
        y[0] = count; // ALSO
}
