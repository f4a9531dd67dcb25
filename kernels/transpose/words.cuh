// Words of 4 bytes, or elements where these are larger: for rows that begin anywhere.
//
// In global memory a word lies at a multiple of its size, wherever the row begins that it is a piece of. V
// elements are one, and V rows of x, or columns, a group, the rows of which are shifted against words as those of
// any other. A row of out has a window of its own on the groups, up to V - 1 rows further up, so that its words
// are whole ones; so has every V-th row of out the same.
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

// Words of out's rows first, first + step, … < columns, which have the same window of V rows of x, from `row` on,
// `past` above a group: `out` is the first of them. places[q] is where row q of a group lies that is in it, and
// belongs to place (q + past) % V of a word.
template <class T>
static __device__ void store_windows(const transpose_args &args, T *out, int64_t row, int past,
                                     const T *const (&places)[word_of<T>::V], int first, int step, int columns)
{
    constexpr int V = word_of<T>::V, BITS = 32 / V;
    using word = typename word_of<T>::type;

    if (row >= 0 && row + V <= args.rows) {
#pragma unroll 4
        for (int c = first; c < columns; c += step) {
            if constexpr (V > 1) {
                uint32_t w = 0;

#pragma unroll
                for (int q = 0; q < V; q++)
                    w |= (uint32_t)places[q][c] << q * BITS;
                *(word *)out = __funnelshift_l(w, w, past * BITS);
            } else {
                *out = places[0][c];
            }
            out += step * args.out_pitch;
        }
    } else { // columns begin or end in it
#pragma unroll 1
        for (int c = first; c < columns; c += step) {
#pragma unroll
            for (int q = 0; q < V; q++) {
                const int j = (q + past) % V;

                if (row + j >= 0 && row + j < args.rows)
                    out[j] = places[q][c];
            }
            out += step * args.out_pitch;
        }
    }
}
