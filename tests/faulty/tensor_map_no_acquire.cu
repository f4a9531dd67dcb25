// A copy uses a tensor map that the block has changed, and has not acquired.
// topic: proxy fence
// launch: grid 4, block 32
// arg whole: tensormap float[32,32] box 8,32
// arg parts: struct128[4]=zeros
// arg y: float[32,32]=zeros
// fault: race proxy
#include <cuda.h>
#include <cuda/ptx>
#include <cstdint>

namespace ptx = cuda::ptx;

// Each block reads the rows from 8 * blockIdx.x on: a map of its own ends after so many that others' rows are 0.
__global__ void first_rows(const __grid_constant__ CUtensorMap whole, CUtensorMap *parts, float *y)
{
    __shared__ alignas(128) CUtensorMap part;
    __shared__ alignas(128) float tile[8][32];
    __shared__ uint64_t full;
    const int lane = threadIdx.x, corner[2] = {0, (int)blockIdx.x * 8};

    if (lane == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        part = whole;
        ptx::tensormap_replace_global_dim(ptx::space_shared, &part, ptx::n32_t<1>(), corner[1] + 4);
    }
    __syncwarp();
    ptx::tensormap_cp_fenceproxy(ptx::sem_release, ptx::scope_gpu, &parts[blockIdx.x], &part, ptx::n32_t<128>()); // THERE
    if (lane == 0) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof tile);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile, &parts[blockIdx.x], corner, &full); // HERE
    }
    while (!ptx::mbarrier_try_wait_parity(&full, 0))
        ;
    for (int row = 0; row < 8; row++)
        y[(corner[1] + row) * 32 + lane] = tile[row][lane];
}
