// The TMA stores a tile that threads have written, without a fence between the proxies.
// topic: proxy fence
// launch: grid 4, block 64
// arg x: tensormap float[32,32] box 8,32
// arg y: tensormap float[32,32]=zeros box 8,32
// fault: race proxy
#include <cuda.h>
#include <cuda/ptx>
#include <cstdint>

namespace ptx = cuda::ptx;

__global__ void doubled(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y)
{
    __shared__ alignas(128) float tile[8][32];
    __shared__ uint64_t full;
    const int corner[2] = {0, (int)blockIdx.x * 8};

    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &x, corner, &full);
    }
    __syncthreads();
    while (!ptx::mbarrier_try_wait_parity(&full, 0))
        ;
    for (int i = threadIdx.x; i < 256; i += 64)
        tile[i / 32][i % 32] *= 2; // THERE
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &y, corner, tile); // HERE
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
