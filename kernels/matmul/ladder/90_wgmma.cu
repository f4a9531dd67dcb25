// C = A @ B in float16 and bfloat16 on the tensor cores, with operands that no register ever holds.
//
// The idea: one wgmma multiplies 64 x 16 elements of A by 16 x 128 of B, for the four warps of a warpgroup
// together, and reads both from shared memory. The TMA brings them there: one thread asks for a whole tile, and an
// mbarrier counts its bytes. What the rung below wasted: each thread computed addresses, copied 16 bytes, and
// loaded the operands into its registers, a few for each mma. Both instructions agree on the layout: chunk c of
// row r, 16 bytes, is stored at c ^ r % 8. wgmma transposes elements of 16 bits only: of float32 and bytes it
// wants B's columns along k, and so wgmma_single and wgmma_digits copy them first. Launch: blocks of 128 threads,
// one block per BM x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "../../common/ptx/wgmma.cuh"
#include "../../common/types.cuh"
#include "kernels.h"
#include "tiles.cuh"

constexpr int BM = 128, BN = 128, BK = 64; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int MM = 64, MK = 16;            // of a wgmma: rows of A, and k
constexpr int BLOCK = 128, STAGES = 4;     // threads: a warpgroup; pairs of tiles in shared memory
constexpr int PARTS = BN / COLUMNS;        // of a row of B

template <class T>
struct ring {
    struct stage {
        T a[BM][BK], b[PARTS][BK][COLUMNS];
    } stages[STAGES];
    uint64_t full[STAGES]; // a stage's tiles have come
};

// BY_TMA: otherwise rows are no multiples of 16 bytes, and the threads copy the elements.
template <class T, bool BY_TMA>
__global__ void __launch_bounds__(BLOCK)
    matmul_wgmma(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, tensor<T> a,
                 tensor<T> b, T *c, int64_t first_batch, corner first)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    ring<T> &shared = *(ring<T> *)bytes;

    const corner at = block_tile_origin(first, BM, BN);
    const int64_t m = a.rows, n = b.columns, k = a.columns, batch = first_batch + blockIdx.z;
    const int64_t a_batch = a.matrices > 1 ? batch : 0, b_batch = b.matrices > 1 ? batch : 0;
    float sum[BM / MM][BN / 2] = {};

    const auto load = [&](int s, int64_t p) {
        if (p >= k)
            return;
        if (!BY_TMA) {
            const T *from = b.data + b_batch * b.matrix_stride + p * n + at.column;

            store_tile<BM>(shared.stages[s].a, a.data + a_batch * a.matrix_stride + at.row * k + p, k, m - at.row,
                           k - p);
            for (int part = 0; part < PARTS; part++, from += COLUMNS)
                store_tile<BK>(shared.stages[s].b[part], from, n, k - p, n - at.column - part * COLUMNS);
            ptx::fence_proxy_async(); // wgmma sees the stores
            ptx::mbarrier_arrive(&shared.full[s]);
        } else if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&shared.full[s], sizeof shared.stages[s]);
            ptx::cp_async_bulk_tensor_load(shared.stages[s].a, &a_map, (int)p, (int)at.row, (int)a_batch,
                                           &shared.full[s]);
            for (int part = 0; part < PARTS; part++)
                ptx::cp_async_bulk_tensor_load(shared.stages[s].b[part], &b_map, (int)at.column + part * COLUMNS,
                                               (int)p, (int)b_batch, &shared.full[s]);
        }
    };

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++)
            ptx::mbarrier_init(&shared.full[s], BY_TMA ? 1 : BLOCK);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int s = 0; s < STAGES; s++)
        load(s, (int64_t)s * BK);
    for (int64_t p = 0, turn = 0; p < k; p += BK, turn++) {
        const int s = turn % STAGES;

        while (!ptx::mbarrier_try_wait_parity(&shared.full[s], turn / STAGES % 2))
            ;
        ptx::wgmma_fence();
#pragma unroll
        for (int q = 0; q < BK; q += MK)
#pragma unroll
            for (int i = 0; i < BM / MM; i++)
                ptx::wgmma_mma_async<false, true>(
                    sum[i], ptx::wgmma_descriptor(&shared.stages[s].a[i * MM][q]),
                    ptx::wgmma_descriptor(shared.stages[s].b[0][q], sizeof shared.stages[s].b[0]), true, T());
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        for (auto &of_rows : sum)
            ptx::wgmma_fence_accumulators(of_rows);
        __syncthreads(); // all warps' products are complete: the stage is free
        load(s, p + STAGES * BK);
    }
    c += batch * m * n;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BM / MM; i++)
#pragma unroll
        for (int e = 0; e < BN / 2; e++) {
            const int64_t y = at.row + i * MM + warp * 16 + lane / 4 + e / 2 % 2 * 8;
            const int64_t x = at.column + e / 4 * 8 + lane % 4 * 2 + e % 2;

            if (y < m && x < n)
                c[y * n + x] = T(sum[i][e]);
        }
}

template <class T>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    mapped_operands<T> of;

    if (cudaError_t error = map_operands(&of, args, BM, BK))
        return error;
    const auto kernel = of.by_tma ? matmul_wgmma<T, true> : matmul_wgmma<T, false>;
    constexpr int BYTES = sizeof(ring<T>);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, BYTES, stream>>>(of.a_map, of.b_map, of.a, of.b, (T *)args->c, batch, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_matmul_wgmma(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch<__half>(args, stream) : launch<__nv_bfloat16>(args, stream);
}
