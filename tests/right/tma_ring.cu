// Blocks that stay: tiles come by the TMA, some ahead, and results leave by it while the next tile is computed.
// launch: grid 2, block 128
// arg x: tensormap float[208,32] box 16,32 swizzle 128
// arg y: tensormap float[208,32]=zeros box 16,32 swizzle 128
// arg rows: 208
#include <cuda.h>
#include <cuda/ptx>
#include <cstdint>

namespace ptx = cuda::ptx;
constexpr int ROWS = 16, ELEMENTS = ROWS * 32, STAGES = 3, RESULTS = 2;

__global__ void squares(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, int rows)
{
    __shared__ alignas(1024) float tiles[STAGES][ELEMENTS];
    __shared__ alignas(1024) float results[RESULTS][ELEMENTS];
    __shared__ uint64_t full[STAGES];
    const int step = gridDim.x * ROWS;
    const auto load = [&](int row, int s) {
        const int corner[2] = {0, row};
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s], sizeof *tiles);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tiles[s], &x, corner, &full[s]);
    };

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++)
            ptx::mbarrier_init(&full[s], 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
        for (int s = 0; s < STAGES; s++)
            load(blockIdx.x * ROWS + s * step, s); // rows beyond the last one are read as zeros
    }
    __syncthreads();
    for (int row = blockIdx.x * ROWS, turn = 0; row < rows; row += step, turn++) {
        const int s = turn % STAGES, r = turn % RESULTS;

        while (!ptx::mbarrier_try_wait_parity(&full[s], turn / STAGES % 2))
            ;
        if (threadIdx.x == 0) // the store of RESULTS turns ago has read its source
            ptx::cp_async_bulk_wait_group_read(ptx::n32_t<RESULTS - 1>());
        __syncthreads();
        for (int i = threadIdx.x; i < ELEMENTS; i += blockDim.x)
            results[r][i] = tiles[s][i] * tiles[s][i]; // both are swizzled alike
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (threadIdx.x == 0) {
            const int corner[2] = {0, row};
            ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &y, corner, results[r]);
            ptx::cp_async_bulk_commit_group();
            load(row + STAGES * step, s);
        }
    }
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
        for (int s = 0; s < STAGES; s++) { // the loads of rows beyond the last one: their bytes must have come
            const int turns = (rows - (int)blockIdx.x * ROWS + step - 1) / step, last = (turns + s) % STAGES;
            while (!ptx::mbarrier_try_wait_parity(&full[last], (turns + s) / STAGES % 2))
                ;
        }
    }
}
