// An arrival at another block's mbarrier is awaited by .acquire.cta, which sees only threads of the own block.
// topic: clusters
// launch: grid 4, block 32
// arg x: int[128] = random
// arg y: int[128] = zeros
// fault: race RAW
#include <cooperative_groups.h>
#include <cstdint>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) exchange(const int *x, int *y)
{
    __shared__ int inbox[32];
    __shared__ uint64_t full;
    const cg::cluster_group cluster = cg::this_cluster();
    const int t = threadIdx.x, i = blockIdx.x * 32 + t, peer = cluster.block_rank() ^ 1;
    const unsigned own = (unsigned)__cvta_generic_to_shared(&full);
    unsigned remote, done = 0;

    if (t == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(own) : "memory");
    cluster.sync();
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(peer));
    cluster.map_shared_rank(inbox, peer)[t] = x[i]; // THERE
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], 0; "
                     "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(own) : "memory");
    y[i] = inbox[31 - t]; // HERE
    cluster.sync();
}
