// Tiles in shared memory that are loaded and stored by vectors.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../common/grid.cuh"
#include "vectors.cuh"

// A tile, and how it lies in shared memory: groups of V rows. Where rows begin anywhere, the first is above the
// tile.
struct tile_shape {
    int rows, columns;      // rows: SPREAD * V times a power of two; columns: ACROSS * E times one
    int above;              // rows above it that are read too
    int row_vectors;        // of a row; one more than `columns` needs, where rows of x begin anywhere
    int group_vectors;      // from one group to the next
    unsigned inverse;       // of row_vectors
    int octets_log2, tasks; // a task of a warp is SPREAD groups of ACROSS * E columns
};

// One vector of x, and its place in the tile.
template <class T>
struct source {
    const T *from;
    int64_t column; // of its first element, in x
    int place;      // in vectors
    bool here;      // it has something that the tile needs
};

// vector t of those that a block loads
template <class T, bool ALIGNED>
static __device__ source<T> find_source(const transpose_args &args, const tile_shape &tile, const T *x, corner at,
                                        int t)
{
    constexpr int V = pieces<T>::V, ABOVE = ALIGNED ? 0 : V;
    const int i = divide(t, tile.inverse), v = t - i * tile.row_vectors;
    const int64_t row = at.row - ABOVE + i;
    const T *begin = x + row * args.x_pitch + at.column;
    const int shift = (ALIGNED ? 0 : -elements_past(begin)) + v * V; // from the tile's first column

    return {begin + shift, at.column + shift, i / V * tile.group_vectors + i % V * tile.row_vectors + v,
            i < ABOVE + tile.rows && i >= ABOVE - tile.above && row >= 0 && row < args.rows &&
                shift < tile.columns};
}

template <class T, bool ALIGNED>
static __device__ void load_tile(const transpose_args &args, const tile_shape &tile, const T *x, corner at,
                                 uint4 *memory)
{
    constexpr int V = pieces<T>::V, ABOVE = ALIGNED ? 0 : V;
    const int count = (ABOVE + tile.rows) * tile.row_vectors;

    for (int t = threadIdx.x; t < count; t += blockDim.x) {
        const source<T> s = find_source<T, ALIGNED>(args, tile, x, at, t);

        if (s.here && s.column >= 0 && s.column + V <= args.columns) {
            __pipeline_memcpy_async(&memory[s.place], s.from, VECTOR); // through no register
        } else if (s.here) {                                           // a row begins or ends in it
#pragma unroll 1
            for (int e = 0; e < V; e++)
                if (s.column + e >= 0 && s.column + e < args.columns)
                    ((T *)&memory[s.place])[e] = s.from[e];
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's; a barrier is still to come
}

// Vector `group` of the tile's columns from `c` on, E of them, where every row of x and of out begins at a
// multiple of 16.
template <class T>
static __device__ void store_aligned(const transpose_args &args, const tile_shape &tile, T *out, corner at,
                                     const uint4 *memory, int group, int c)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    using Word = std::conditional_t<(E > 1), uint32_t, T>;
    const uint4 *rows = memory + group * tile.group_vectors;
    const int64_t column = at.column + c, row = at.row + group * V;

    if (is_inside(args, column, E, row, V)) {
        uint4 vectors[E];
        Word words[V];

#pragma unroll
        for (int j = 0; j < V; j++)
            words[j] = *(const Word *)((const T *)(rows + j * tile.row_vectors) + c);
        turn(words, vectors, T());
#pragma unroll
        for (int e = 0; e < E; e++)
            *(uint4 *)(out + (column + e) * args.out_pitch + row) = vectors[e];
    } else {
#pragma unroll 1
        for (int e = 0; e < E; e++)
            store_some(args, out, column + e, row,
                       [&](int j) { return ((const T *)(rows + j * tile.row_vectors))[c + e]; });
    }
}

// Likewise, wherever rows begin.
template <class T>
static __device__ void store_shifted(const transpose_args &args, const tile_shape &tile, const T *x, T *out,
                                     corner at, const uint4 *memory, int group, int c)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    const char *rows =
        (const char *)(memory + group * tile.group_vectors); // of the group above, which comes first
    const unsigned begin = (unsigned)(uintptr_t)(x + at.row * args.x_pitch + at.column);
    const unsigned pitch = (unsigned)(args.x_pitch * sizeof(T)); // as much of it as counts modulo 16

    store_windows<T, E>(args, out, at.column + c, at.row + group * V, tile.group_vectors, [&](int j) {
        return (const T *)(rows + j * tile.row_vectors * VECTOR + (begin + j * pitch) % VECTOR) + c;
    });
}

// All of a tile: a warp stores SPREAD vectors of each of ACROSS rows of out, as many times as a word has elements.
template <class T, bool ALIGNED>
static __device__ void store_tile(const transpose_args &args, const tile_shape &tile, const T *x, T *out,
                                  corner at, const uint4 *memory)
{
    constexpr int E = pieces<T>::E;
    const int lane = threadIdx.x % LANES;

    for (int task = threadIdx.x / LANES; task < tile.tasks; task += blockDim.x / LANES) {
        const int octet = task & ((1 << tile.octets_log2) - 1), quad = task >> tile.octets_log2;
        const int group = octet * SPREAD + lane % SPREAD, c = (quad * ACROSS + lane / SPREAD) * E;

        if constexpr (ALIGNED)
            store_aligned(args, tile, out, at, memory, group, c);
        else
            store_shifted(args, tile, x, out, at, memory, group, c);
    }
}

// A tile of `rows` by `across` vectors.
template <class T, bool ALIGNED>
static tile_shape make_shape(int rows, int across, int above)
{
    constexpr int V = pieces<T>::V, OCTET = SPREAD * V, QUAD = ACROSS * pieces<T>::E;
    const int row_vectors = across + !ALIGNED;
    int log2 = 0;

    while (OCTET << log2 < rows)
        log2++;
    return {rows,
            across * V,
            above,
            row_vectors,
            V * row_vectors | 1,
            inverse_of(row_vectors),
            log2,
            (across * V / QUAD) << log2};
}
