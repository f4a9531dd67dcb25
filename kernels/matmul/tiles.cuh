// What kernels of wgmma share, the rungs and wgmma_tf32: the operands with their tensor maps, and a copy of tiles
// for those without.
#pragma once

#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/ptx/mma.cuh"
#include "../common/tensor_map.cuh"
#include "kernels.h"

constexpr int COPYING_THREADS = 128; // of a warpgroup

// Elements of a pair of tiles along k: a row of A's, which is 128 bytes. B's consists of square panels.
template <class T>
constexpr int BK = 128 / (int)sizeof(T);

// Two matrices, or a batch of pairs.
template <class T>
struct mapped_operands {
    tensor<T> a, b;
    CUtensorMap a_map, b_map;
    bool by_tma; // there are maps: otherwise rows are no multiples of 16 bytes
};

// The operands of a product, with maps for tiles of a_rows rows of A, and for panels of B.
template <class T>
[[nodiscard]] static cudaError_t map_operands(mapped_operands<T> *to, const matmul_args *args, int a_rows)
{
    const auto matrices = [&](int64_t stride) { return stride ? args->batches : 1; };

    *to = {};
    to->a = {(const T *)args->a, matrices(args->a_batch_stride), args->m, args->k, args->a_batch_stride, args->k};
    to->b = {(const T *)args->b, matrices(args->b_batch_stride), args->k, args->n, args->b_batch_stride, args->n};
    to->by_tma = has_tensor_map(to->a) && has_tensor_map(to->b);
    if (!to->by_tma)
        return cudaSuccess;
    if (cudaError_t error = make_tensor_map(&to->a_map, to->a, a_rows))
        return error;
    return make_tensor_map(&to->b_map, to->b, BK<T>);
}

// As the TMA stores an element: floats are rounded to TF32, ties to even.
template <class T>
static __device__ T as_by_tma(T x)
{
    if constexpr (std::is_same_v<T, float>)
        return __uint_as_float(ptx::cvt_rn_tf32_f32(x));
    else
        return x;
}

// Stores ROWS rows of x, of which `rows` x `columns` elements are left, as the TMA would; zeros stand for the
// others. The block's first warpgroup calls it.
template <int ROWS, class T>
static __device__ void store_tile(T (*tile)[BK<T>], const T *x, int64_t pitch, int64_t rows, int64_t columns)
{
    constexpr int CHUNK = 16 / (int)sizeof(T);

    for (int i = threadIdx.x; i < ROWS * BK<T>; i += COPYING_THREADS) {
        const int row = i / BK<T>, column = i % BK<T>;

        tile[row][column ^ row % 8 * CHUNK] =
            row < rows && column < columns ? as_by_tma(x[row * pitch + column]) : T(0);
    }
}

// The operands, and where a block's tiles of them begin.
template <class T>
struct operands {
    tensor<T> a, b;
    int64_t a_matrix, b_matrix;
    corner at; // of C's tile
};

// Stores a pair of tiles as the TMA would, p elements down k.
template <int BM, int PANELS, class T>
static __device__ void store_pair(T (&a_tile)[BM][BK<T>], T (&b_tile)[PANELS][BK<T>][BK<T>],
                                  const operands<T> &from, int64_t p)
{
    const int64_t m = from.a.rows, n = from.b.columns, k = from.a.columns;
    const T *a = from.a.data + from.a_matrix * from.a.matrix_stride + from.at.row * k + p;
    const T *b = from.b.data + from.b_matrix * from.b.matrix_stride + p * n + from.at.column;

    store_tile<BM>(a_tile, a, k, m - from.at.row, k - p);
    for (int panel = 0; panel < PANELS; panel++)
        store_tile<BK<T>>(b_tile[panel], b + panel * BK<T>, n, k - p, n - from.at.column - panel * BK<T>);
}
