// A thread's tile of C in registers: how it is multiplied from tiles in shared memory, and added to C.
//
// A thread's TM x TN elements of C are pieces of V x V, whose distance is that of V lanes.
#pragma once

#include <cuda_runtime.h>

#include "../lanes.cuh"
#include "product.cuh"

// Hides from the compiler how x was computed, so that it does not move computations that depend on x out of a
// loop, where they would need registers.
template <class X>
static __device__ inline X opaque(X x)
{
#ifdef __CUDA_ARCH_LIST__
    if constexpr (std::is_same_v<X, float>)
        asm volatile("" : "+f"(x));
    else if constexpr (sizeof x == 8)
        asm volatile("" : "+l"(x));
    else
        asm volatile("" : "+r"(x));
#endif
    return x;
}

// Adds DEPTH products to each of a thread's sums. a (DEPTH, rows) and b (DEPTH, columns) are in shared memory;
// (row, column) is the thread's first element. Each row of the sums is taken in the direction opposite to that of
// the row before, so that the last factor of one is the first of the next, and is read from its register once (6 %
// faster at n = 4096 on an H200).
template <class Tile, int DEPTH, class Sum, int A_PITCH, int B_PITCH, int TM, int TN>
static __device__ void multiply_tiles(const Sum (*a_tile)[A_PITCH], const Sum (*b_tile)[B_PITCH], int row,
                                      int column, Sum (&sum)[TM][TN])
{
    constexpr int V = Tile::V;

#pragma unroll
    for (int q = 0; q < DEPTH; q++) {
        alignas(16) Sum a[TM], b[TN];

        for (int i = 0; i < TM; i += V)
            *(pack<Sum, V> *)&a[i] = *(const pack<Sum, V> *)&a_tile[q][row + i * LANES_DOWN];
        for (int j = 0; j < TN; j += V)
            *(pack<Sum, V> *)&b[j] = *(const pack<Sum, V> *)&b_tile[q][column + j * LANES_ACROSS];
        for (int i = 0; i < TM; i++)
            for (int along = 0; along < TN; along++) {
                const int j = i % 2 ? TN - 1 - along : along;

                sum[i][j] += a[i] * b[j];
            }
    }
}

// The number that changes no x to which it is added: for floats -0, because 0 + -0 is 0.
template <class T>
static __device__ inline T negative_zero()
{
    return std::is_floating_point_v<T> ? T(-0.0) : T(0);
}

// Adds rows of a thread's sums, from row `i0` on, to c (m, n); or stores them, if they are the `first` ones. The
// block's tile begins at `at`, and the thread's first element is (row, column) in it. Sums that are stored are
// added to -0 first: because the stored vectors are other registers then, ptxas may choose those of the sums so
// that their banks differ from the factors'.
template <class Tile, bool PACKS, class Out, class Sum, int ROWS, int TN>
static __device__ void add_tile(Out *c, int64_t m, int64_t n, corner at, int row, int column, int i0,
                                const Sum (&sum)[ROWS][TN], bool first)
{
    constexpr int V = Tile::V;

#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < TN; j += V) {
            const int64_t y = at.row + opaque(row) + (i0 + i) / V * (V * LANES_DOWN) + (i0 + i) % V;
            const int64_t x = at.column + opaque(column) + j * LANES_ACROSS;
            Out *to = &c[y * n + x];
            pack<Out, V> values;

            if (y >= m || x >= n)
                continue;
            for (int e = 0; e < V; e++)
                values.element[e] = negative_zero<Out>();
            if (PACKS && !first)
                values = *(pack<Out, V> *)to;
#pragma unroll
            for (int e = 0; e < V; e++) {
                const bool inside = PACKS || x + e < n;

                if (!PACKS && !first && inside)
                    values.element[e] = to[e];
                values.element[e] = Out(Sum(values.element[e]) + sum[i][j + e]);
                if (!PACKS && inside)
                    to[e] = values.element[e];
            }
            if (PACKS)
                *(pack<Out, V> *)to = values;
        }
}
