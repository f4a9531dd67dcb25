// C = A @ B on the tensor cores, with operands that the TMA copies.
//
// The idea: one wgmma multiplies 64 rows of 32 bytes of A by 128 columns of B, for the four warps of a warpgroup
// together, and reads its operands from shared memory. The TMA brings them there: one thread asks for a whole
// tile, and an mbarrier counts its bytes. What the rung below wasted: each thread computed addresses, copied 16
// bytes, and loaded both operands into its registers, a few for each mma. Both instructions agree on the layout:
// chunk c of row r, 16 bytes, is stored at c ^ r % 8. What becomes of operands in TF32 and of bytes, see
// warpgroup.cuh. Launch: blocks of 128 threads, one block per BM x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/cp_async_bulk_tensor.cuh"
#include "../../common/ptx/mbarrier.cuh"
#include "kernels.h"
#include "../warpgroup.cuh"

constexpr int BM = 128, BN = 128; // of a block's tiles: rows of A, columns of B
constexpr int STAGES = 4;         // pairs of tiles in shared memory

template <class T>
struct wgmma_ring {
    struct stage {
        T a[BM][BK<T>], b[BN / BK<T>][BK<T>][BK<T>];
    } stages[STAGES];
    uint64_t full[STAGES]; // a stage's tiles have come
};

// BY_TMA: otherwise rows are no multiples of 16 bytes, and the threads copy the elements.
template <class T, class C, bool BY_TMA>
__global__ void __launch_bounds__(GROUP)
    matmul_wgmma(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, tensor<T> a,
                 tensor<T> b, C *c, int64_t first_batch, corner first)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    wgmma_ring<T> &shared = *(wgmma_ring<T> *)bytes;

    const int64_t m = a.rows, n = b.columns, k = a.columns, batch = first_batch + blockIdx.z;
    const operands<T> from = {a, b, a.matrices > 1 ? batch : 0, b.matrices > 1 ? batch : 0,
                              block_tile_origin(first, BM, BN)};
    part_of<T, BM, BN> part = {};

    const auto load = [&](int s, int64_t p) {
        auto &to = shared.stages[s];

        if (p >= k)
            return;
        if (!BY_TMA) {
            store_pair(to.a, to.b, from, p);
            ptx::fence_proxy_async(); // wgmma sees the stores
            ptx::mbarrier_arrive(&shared.full[s]);
        } else if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&shared.full[s], sizeof to);
            ptx::cp_async_bulk_tensor_load(to.a, &a_map, (int)p, (int)from.at.row, (int)from.a_matrix,
                                           &shared.full[s]);
            for (int panel = 0; panel < BN / BK<T>; panel++)
                ptx::cp_async_bulk_tensor_load(to.b[panel], &b_map, (int)from.at.column + panel * BK<T>, (int)p,
                                               (int)from.b_matrix, &shared.full[s]);
        }
    };

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++)
            ptx::mbarrier_init(&shared.full[s], BY_TMA ? 1 : GROUP);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int s = 0; s < STAGES; s++)
        load(s, (int64_t)s * BK<T>);
    for (int64_t p = 0, turn = 0; p < k; p += BK<T>, turn++) {
        const int s = turn % STAGES;

        while (!ptx::mbarrier_try_wait_parity(&shared.full[s], turn / STAGES % 2))
            ;
        part.multiply(shared.stages[s].a, shared.stages[s].b, true);
        ptx::wgmma_wait_group<0>();
        part.fence();
        __syncthreads(); // all warps' products are complete: the stage is free
        load(s, p + STAGES * BK<T>);
    }
    store_sums(c + batch * m * n, part, from.at, m, n);
}

template <class T, class C>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    mapped_operands<T> of;

    if (cudaError_t error = map_operands(&of, args, BM))
        return error;
    const auto kernel = of.by_tma ? matmul_wgmma<T, C, true> : matmul_wgmma<T, C, false>;
    constexpr int BYTES = sizeof(wgmma_ring<T>);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, GROUP, BYTES, stream>>>(of.a_map, of.b_map, of.a, of.b, (C *)args->c, batch, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_matmul_wgmma(const matmul_args *args, cudaStream_t stream)
{
    return with_element_types(
        args, [&](auto in, auto out) { return launch<decltype(in), decltype(out)>(args, stream); });
}
