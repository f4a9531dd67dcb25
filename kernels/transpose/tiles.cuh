// Tiles in shared memory that are loaded and stored by vectors.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../common/grid.cuh"
#include "vectors.cuh"

// A tile, and how it lies in shared memory: groups of V rows.
struct tile_shape {
    int rows, columns;      // rows: SPREAD * V times a power of two; columns: ACROSS * E times one
    int across_log2;        // vectors of a row
    int group_vectors;      // from one group to the next
    int octets_log2, tasks; // a task of a warp is SPREAD groups of ACROSS * E columns
};

static constexpr int log2_of(int power)
{
    int log2 = 0;

    while (1 << log2 < power)
        log2++;
    return log2;
}

template <class T>
static __device__ void load_tile(const transpose_args &args, const tile_shape &tile, const T *x, corner at,
                                 uint4 *memory)
{
    constexpr int V = pieces<T>::V;
    const int count = tile.rows << tile.across_log2;
    const int rows = (int)min((int64_t)tile.rows, args.rows - at.row);
    const int columns = (int)min((int64_t)tile.columns, args.columns - at.column);

    x += at.row * args.x_pitch + at.column;
    for (int t = threadIdx.x; t < count; t += blockDim.x) {
        const int i = t >> tile.across_log2, v = t & ((1 << tile.across_log2) - 1);
        const T *from = x + i * args.x_pitch + v * V;
        uint4 *to = memory + i / V * tile.group_vectors + ((i % V) << tile.across_log2) + v;

        if (i < rows && (v + 1) * V <= columns) {
            __pipeline_memcpy_async(to, from, VECTOR); // through no register
        } else if (i < rows) {                         // the rows end in it
#pragma unroll 1
            for (int e = 0; e < columns - v * V; e++)
                ((T *)to)[e] = from[e];
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's; a barrier is still to come
}

// E columns of the tile, from `c` on, as far as they are of a group, whose rows these are.
template <class T>
static __device__ void turn_rows(const tile_shape &tile, const uint4 *rows, int c, uint4 (&vectors)[pieces<T>::E])
{
    constexpr int V = pieces<T>::V;
    using Word = std::conditional_t<(pieces<T>::E > 1), uint32_t, T>;
    Word words[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        words[j] = *(const Word *)((const T *)(rows + (j << tile.across_log2)) + c);
    turn(words, vectors, T());
}

// Vector `group` of the tile's columns from `c` on, E of them.
template <class T>
static __device__ void store_vectors(const transpose_args &args, const tile_shape &tile, T *out, corner at,
                                     const uint4 *memory, int group, int c)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    const uint4 *rows = memory + group * tile.group_vectors;
    const int64_t column = at.column + c, row = at.row + group * V;

    if (is_inside(args, column, E, row, V)) {
        uint4 vectors[E];

        turn_rows<T>(tile, rows, c, vectors);
#pragma unroll
        for (int e = 0; e < E; e++)
            *(uint4 *)(out + (column + e) * args.out_pitch + row) = vectors[e];
    } else if (column < args.columns && row < args.rows) {
#pragma unroll 1
        for (int e = 0; e < E; e++)
            store_some(args, out, column + e, row,
                       [&](int j) { return ((const T *)(rows + (j << tile.across_log2)))[c + e]; });
    }
}

// All of a tile: a warp stores SPREAD vectors of each of ACROSS rows of out, as many times as a word has elements.
template <class T>
static __device__ void store_tile(const transpose_args &args, const tile_shape &tile, T *out, corner at,
                                  const uint4 *memory)
{
    constexpr int E = pieces<T>::E;
    const int lane = threadIdx.x % LANES;

    for (int task = threadIdx.x / LANES; task < tile.tasks; task += blockDim.x / LANES) {
        const int octet = task & ((1 << tile.octets_log2) - 1), quad = task >> tile.octets_log2;
        const int group = octet * SPREAD + lane % SPREAD, c = (quad * ACROSS + lane / SPREAD) * E;

        store_vectors(args, tile, out, at, memory, group, c);
    }
}

// A tile of `rows` by `across` vectors.
template <class T>
static constexpr tile_shape make_shape(int rows, int across)
{
    constexpr int V = pieces<T>::V, OCTET = SPREAD * V, QUAD = ACROSS * pieces<T>::E;

    return {rows,
            across * V,
            log2_of(across),
            V * across | 1,
            log2_of(rows / OCTET),
            across * V / QUAD * (rows / OCTET)};
}
