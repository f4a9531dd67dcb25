// Tiles in shared memory that are loaded and stored by vectors.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "../../common/grid.cuh"
#include "vectors.cuh"

// A tile and its layout in shared memory: groups of V rows.
struct tile_layout {
    int rows, columns; // rows: GROUPS_PER_REQUEST * V times a power of two; columns: ACROSS * E times one
    int across_log2;   // vectors per row
    int group_stride;  // distance between groups
    int group_tasks_log2, tasks; // a task of a warp is GROUPS_PER_REQUEST groups of ACROSS * E columns
};

static constexpr int log2_of(int power)
{
    int log2 = 0;

    while (1 << log2 < power)
        log2++;
    return log2;
}

template <class T>
static __device__ void load_tile(const transpose_args &args, const tile_layout &tile, const T *x, corner at,
                                 uint4 *memory)
{
    constexpr int V = vector_traits<T>::V;
    const int count = tile.rows << tile.across_log2;
    const int rows = (int)min((int64_t)tile.rows, args.rows - at.row);
    const int columns = (int)min((int64_t)tile.columns, args.columns - at.column);

    x += at.row * args.x_row_stride + at.column;
    for (int t = threadIdx.x; t < count; t += blockDim.x) {
        const int i = t >> tile.across_log2, v = t & ((1 << tile.across_log2) - 1);
        const T *from = x + i * args.x_row_stride + v * V;
        uint4 *to = memory + i / V * tile.group_stride + ((i % V) << tile.across_log2) + v;

        if (i < rows && (v + 1) * V <= columns) {
            __pipeline_memcpy_async(to, from, VECTOR); // bypasses registers
        } else if (i < rows) {                         // the row ends within the vector
#pragma unroll 1
            for (int e = 0; e < columns - v * V; e++)
                ((T *)to)[e] = from[e];
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's copies; the caller adds a barrier
}

// Transposes E columns of a group of the tile, from column `c` on; `rows` points to the group.
template <class T>
static __device__ void transpose_group_of_tile(const tile_layout &tile, const uint4 *rows, int c,
                                               uint4 (&vectors)[vector_traits<T>::E])
{
    constexpr int V = vector_traits<T>::V;
    using Word = std::conditional_t<(vector_traits<T>::E > 1), uint32_t, T>;
    Word words[V];

#pragma unroll
    for (int j = 0; j < V; j++)
        words[j] = *(const Word *)((const T *)(rows + (j << tile.across_log2)) + c);
    transpose_in_words(words, vectors, T());
}

// Stores vector `group` of E columns of the tile, from column `c` on.
template <class T>
static __device__ void store_vectors(const transpose_args &args, const tile_layout &tile, T *out, corner at,
                                     const uint4 *memory, int group, int c)
{
    constexpr int V = vector_traits<T>::V, E = vector_traits<T>::E;
    const uint4 *rows = memory + group * tile.group_stride;
    const int64_t column = at.column + c, row = at.row + group * V;

    if (is_inside(args, column, E, row, V)) {
        uint4 vectors[E];

        transpose_group_of_tile<T>(tile, rows, c, vectors);
#pragma unroll
        for (int e = 0; e < E; e++)
            *(uint4 *)(out + (column + e) * args.out_row_stride + row) = vectors[e];
    } else if (column < args.columns && row < args.rows) {
#pragma unroll 1
        for (int e = 0; e < E; e++)
            store_partial_vector(args, out, column + e, row,
                                 [&](int j) { return ((const T *)(rows + (j << tile.across_log2)))[c + e]; });
    }
}

// Stores a whole tile: a warp stores GROUPS_PER_REQUEST vectors of each of ACROSS rows of out, E times.
template <class T>
static __device__ void store_tile(const transpose_args &args, const tile_layout &tile, T *out, corner at,
                                  const uint4 *memory)
{
    constexpr int E = vector_traits<T>::E;
    const int lane = threadIdx.x % LANES;

    for (int task = threadIdx.x / LANES; task < tile.tasks; task += blockDim.x / LANES) {
        const int octet = task & ((1 << tile.group_tasks_log2) - 1), quad = task >> tile.group_tasks_log2;
        const int group = octet * GROUPS_PER_REQUEST + lane % GROUPS_PER_REQUEST,
                  c = (quad * ACROSS + lane / GROUPS_PER_REQUEST) * E;

        store_vectors(args, tile, out, at, memory, group, c);
    }
}

// A tile of `rows` by `across` vectors.
template <class T>
static constexpr tile_layout make_tile_layout(int rows, int across)
{
    constexpr int V = vector_traits<T>::V, TASK_ROWS = GROUPS_PER_REQUEST * V,
                  TASK_COLUMNS = ACROSS * vector_traits<T>::E;

    return {rows,
            across * V,
            log2_of(across),
            V * across | 1,
            log2_of(rows / TASK_ROWS),
            across * V / TASK_COLUMNS * (rows / TASK_ROWS)};
}
