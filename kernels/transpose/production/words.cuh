// Tiles of 4-byte words, or of elements where these are larger, for rows of any alignment.
//
// Words are aligned in global memory, whatever the alignment of the row. A word holds V elements. V rows (or
// columns) of x are a group; each row of a group has its own misalignment. A row of out has a window on the
// groups, shifted up by up to V - 1 rows, so that its words are whole and aligned; every V-th row of out has the
// same shift. In tiles.cu windows start at whole sectors: see there.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../../common/grid.cuh"
#include "vectors.cuh"

template <class T>
struct word_traits {
    using type = std::conditional_t<(sizeof(T) < 4), uint32_t, T>;
    static constexpr int W = sizeof(type), V = W / sizeof(T);
    static constexpr int EXTRA_GROUPS = V > 1; // extra groups that windows need beyond those of the tile
};

template <class T>
static __device__ int word_misalignment(const T *element)
{
    return (int)((uintptr_t)element % word_traits<T>::W / sizeof(T));
}

// how many of first, first + 2^step_log2, ... are less than end
static __device__ inline int steps_below(int first, int end, int step_log2)
{
    return (end - first + (1 << step_log2) - 1) >> step_log2;
}

// Stores `count` words of rows of out that share a window: V rows of x from `row` on, which starts `past` rows
// above a group boundary. The rows of out are 2^step_log2 apart, and `out` points to the first. sources[q] points
// to row q of a group, if it is in the window, at the first word's column; it becomes element (q + past) % V of a
// word.
template <class T>
static __device__ void store_windows(const transpose_args &args, T *out, int64_t row, int past,
                                     const T *const (&sources)[word_traits<T>::V], int count, int step_log2)
{
    constexpr int V = word_traits<T>::V;
    const uint32_t transposed =
        0x54105410u >> (16 - past * (16 / V)); // selects the elements of both halves, rotated by `past`
    const int64_t out_stride = args.out_row_stride << step_log2;
    const int step = 1 << step_log2;

    if (row >= 0 && row + V <= args.rows) {
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            if constexpr (V > 1) {
                uint32_t low = sources[0][k * step], high = sources[V / 2][k * step];

                if constexpr (V == 4) {
                    low = __byte_perm(low, sources[1][k * step], 0x0040);
                    high = __byte_perm(high, sources[3][k * step], 0x0040);
                }
                *(uint32_t *)out = __byte_perm(low, high, transposed);
            } else {
                *out = sources[0][k * step];
            }
            out += out_stride;
        }
    } else if (row > -V && row < args.rows) { // a column starts or ends within the word
#pragma unroll 1
        for (int k = 0; k < count; k++) {
#pragma unroll
            for (int q = 0; q < V; q++) {
                const int j = (q + past) % V;

                if (row + j >= 0 && row + j < args.rows)
                    out[j] = sources[q][k * step];
            }
            out += out_stride;
        }
    }
}
