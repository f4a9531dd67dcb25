// C = A @ B in float16 and bfloat16 on Hopper's tensor cores: see wgmma.cuh. Operands that the TMA cannot copy,
// whose rows begin at no multiple of 16 bytes or are not contiguous, are copied to ones that it can. Launch:
// blocks of 384 threads, one per multiprocessor.
#pragma once

#include "wgmma.cuh"

template <class T>
struct half_product {
    mapped_product mapped;
    T *c;
    bool whole_packs;
};

// Stores a warp's rows of a tile, whose first element is (y, x).
template <int COLUMNS, class T>
static __device__ void store_rows(row_buffer &buffer, const half_product<T> &p, const float (&sum)[COLUMNS / 2],
                                  int matrix, int64_t y, int64_t x)
{
    using packs = row_packs<T>;
    const int64_t n = p.mapped.n, first_row = y + packs::row(0), left = n - x - packs::column();
    const int rows = (int)min(p.mapped.m - first_row, (int64_t)WARP_MM);
    T *const c = &p.c[(matrix * p.mapped.m + first_row) * n + x + packs::column()];

    const auto store = [&](auto whole_packs) {
        packs::for_each(buffer, sum, [&](int round, int i, const auto &pack) {
            const int down = packs::row(i) - packs::row(0), right = round * packs::COLUMNS;

            if (down >= rows || right >= left)
                return;
            if constexpr (decltype(whole_packs)::value)
                packs::store_whole(&c[down * n + right], pack);
            else
                packs::store(&c[down * n + right], left - right, pack);
        });
    };

    if (p.whole_packs)
        store(std::true_type());
    else
        store(std::false_type());
}

template <class Step>
static __global__ void __launch_bounds__(BLOCK, 1)
    matmul_wgmma_half(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map,
                      const half_product<typename Step::T> p)
{
    using T = typename Step::T;
    extern __shared__ __align__(1024) unsigned char bytes[];

    pdl_wait();
    multiply<Step, false>(
        *(step_ring<Step> *)bytes, p.mapped, a_map, b_map, [](int, int, int) { return true; },
        [&](row_buffer &buffer, const float(&sum)[Step::BN / 2], int matrix, int64_t y, int64_t x) {
            store_rows<Step::BN>(buffer, p, sum, matrix, y, x);
        });
}

// Whether the TMA can copy the operand where it is.
template <class T>
static bool has_tensor_map(const split_operand<T> &x)
{
    return x.data.column_stride == 1 && has_tensor_map(tensor<T>{x.data.data, x.matrices, x.rows, x.columns,
                                                                 x.data.batch_stride, x.data.row_stride});
}

// COLUMNS: of a block's tile of C.
template <int COLUMNS, class T>
[[nodiscard]] static cudaError_t launch_half(const matmul_args *args, cudaStream_t stream)
{
    const product<T> of = product_of<T>(args);
    const auto matrices = [&](int64_t stride) { return stride ? args->batches : 1; };
    auto a = split_operand_of(of.a, matrices(args->a_batch_stride), args->m, args->k);
    auto b = split_operand_of(of.b.transposed(), matrices(args->b_batch_stride), args->n, args->k);
    const bool where_they_are = has_tensor_map(a) && has_tensor_map(b);
    const auto map = [&](CUtensorMap *to, const split_operand<T> &x, int sides) {
        return where_they_are ? make_tensor_map(to,
                                                tensor<T>{x.data.data, x.matrices, x.rows, x.columns,
                                                          x.data.batch_stride, x.data.row_stride},
                                                x.sides_are_rows ? sides : BK)
                              : map_parts<T>(to, x, 1, sides);
    };
    const half_product<T> p = {mapped_product_of(args, a.matrices, b.matrices, COLUMNS), of.c,
                               row_packs<T>::are_whole(of.c, args->n)};
    CUtensorMap a_map, b_map;

    if (cudaError_t error = place_parts(args, 0, 1, 0, a, b))
        return error;
    if (!where_they_are)
        if (cudaError_t error = launch_on_tiles<matmul_split_copy<T>>(a, b, stream))
            return error;
    if (cudaError_t error = map(&a_map, a, BM))
        return error;
    if (cudaError_t error = map(&b_map, b, COLUMNS))
        return error;
    return with_layouts(a.sides_are_rows, b.sides_are_rows, [&](auto along) {
        using A = decltype(along);
        using Step = step_tiles<T, COLUMNS, 1, A::A_ALONG_K, A::B_ALONG_K>;

        return launch_on_multiprocessors<matmul_wgmma_half<Step>>(args, p.mapped, stream, a_map, b_map, p);
    });
}

template <int COLUMNS>
[[nodiscard]] static cudaError_t launch_half(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch_half<COLUMNS, __half>(args, stream)
                                  : launch_half<COLUMNS, __nv_bfloat16>(args, stream);
}
