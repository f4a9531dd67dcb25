// C = A @ B in float16 and bfloat16 on Hopper's tensor cores: see wgmma.cuh. If the TMA cannot copy one of the
// operands, whose rows begin at no multiple of 16 bytes or are not contiguous, both are copied to rows that it
// can. Launch: blocks of 384 threads, one per multiprocessor, alone or in clusters.
#pragma once

#include "wgmma.cuh"

template <class Step>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_half(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const plain_product<typename Step::T> p)
{
    using T = typename Step::T;
    extern __shared__ __align__(1024) unsigned char bytes[];

    pdl_wait();
    multiply<Step, false>(
        *(step_ring<Step> *)bytes, p.mapped, a_map, b_map, [](int, int, int) { return true; },
        [&](row_buffer &buffer, const auto &sum, int matrix, int64_t y, int64_t x) {
            store_rows(buffer, p, sum, matrix, y, x);
        });
}

// COLUMNS: of a block's tile of C. THIN: tiles may have fewer, if the last block then ends earlier.
// CLUSTER: of blocks that may share B's tiles.
template <int COLUMNS, bool THIN, int CLUSTER, class T>
[[nodiscard]] static cudaError_t launch_half(const matmul_args *args, cudaStream_t stream)
{
    using any_step = step_tiles<T, COLUMNS, 1, true, true, THIN>;

    return launch_plain<T, COLUMNS, any_step::COPIED_COLUMNS, CLUSTER>(
        args, stream, always(), [&](auto along, auto p, const auto &a_map, const auto &b_map) {
            using A = decltype(along);
            using Step = step_tiles<T, COLUMNS, 1, A::A_ALONG_K, A::B_ALONG_K, THIN, A::CLUSTER>;
            tile_order &order = p.mapped.order;

            if (THIN) {
                const matmul_widths widths = matmul_choose_widths(order.matrices * order.down, args->n, COLUMNS,
                                                                  blocks_at_once(args, A::CLUSTER), A::CLUSTER);

                order.full_rows = widths.full_rows;
                order.thin_columns = widths.thin_columns;
                order.thin_right = ceil_div(args->n, widths.thin_columns);
            }
            return launch_on_multiprocessors<matmul_wgmma_half<Step>, A::CLUSTER>(args, order.count(), stream,
                                                                                  a_map, b_map, p);
        });
}

template <int COLUMNS, bool THIN, int CLUSTER>
[[nodiscard]] static cudaError_t launch_half(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch_half<COLUMNS, THIN, CLUSTER, __half>(args, stream)
                                  : launch_half<COLUMNS, THIN, CLUSTER, __nv_bfloat16>(args, stream);
}
