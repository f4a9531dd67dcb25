// Words of 4 bytes, or elements where these are larger: for rows that begin anywhere.
//
// In global memory a word lies at a multiple of its size, wherever the row begins that it is a piece of. V
// elements are one, and V rows of x, or columns, a group, the rows of which are shifted against words as those of
// any other. A row of out has a window of its own on the groups, up to V - 1 rows further up, so that its words
// are whole ones; so has every V-th row of out the same. In 60_vectorized windows begin at whole sectors: see
// there.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../common/grid.cuh"
#include "vectors.cuh"

template <class T>
struct word_of {
    using type = std::conditional_t<(sizeof(T) < 4), uint32_t, T>;
    static constexpr int W = sizeof(type), V = W / sizeof(T);
    static constexpr int MORE = V > 1; // groups beside those of a tile which windows need
};

template <class T>
static __device__ int elements_past_word(const T *element)
{
    return (int)((uintptr_t)element % word_of<T>::W / sizeof(T));
}

// how many of first, first + 2^step_log2, … are below end
static __device__ inline int count_steps(int first, int end, int step_log2)
{
    return (end - first + (1 << step_log2) - 1) >> step_log2;
}

// `count` words of out's rows, which have the same window of V rows of x, from `row` on, `past` above a group;
// they are 2^step_log2 rows of out apart, and `out` is the first. places[q] is where row q of a group lies that is
// in the window, from the first word's column on; it belongs to place (q + past) % V of a word.
template <class T>
static __device__ void store_windows(const transpose_args &args, T *out, int64_t row, int past,
                                     const T *const (&places)[word_of<T>::V], int count, int step_log2)
{
    constexpr int V = word_of<T>::V;
    const uint32_t turned = 0x54105410u >> (16 - past * (16 / V)); // the halves' elements, `past` places on
    const int64_t out_step = args.out_pitch << step_log2;
    const int step = 1 << step_log2;

    if (row >= 0 && row + V <= args.rows) {
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            if constexpr (V > 1) {
                uint32_t low = places[0][k * step], high = places[V / 2][k * step];

                if constexpr (V == 4) {
                    low = __byte_perm(low, places[1][k * step], 0x0040);
                    high = __byte_perm(high, places[3][k * step], 0x0040);
                }
                *(uint32_t *)out = __byte_perm(low, high, turned);
            } else {
                *out = places[0][k * step];
            }
            out += out_step;
        }
    } else if (row > -V && row < args.rows) { // columns begin or end in it
#pragma unroll 1
        for (int k = 0; k < count; k++) {
#pragma unroll
            for (int q = 0; q < V; q++) {
                const int j = (q + past) % V;

                if (row + j >= 0 && row + j < args.rows)
                    out[j] = places[q][k * step];
            }
            out += out_step;
        }
    }
}
