// Whole sectors: for elements of 1 or 2 bytes in rows of odd lengths.
//
// A row of a tile is loaded in vectors of 16 bytes, from the sector on in which it begins; in shared memory, too,
// it begins as far behind a multiple of a sector. V rows are a group, of which words of out are made: see
// words.cuh. As rows are an odd number of elements apart, 8 groups that follow each other begin at 8 different
// words of a sector; 8 groups more lie a sector further on. So what a warp reads, of 32 groups at once, is in all
// banks. A row of out has a window of 32 words, the first of which begins a sector: up to 7 groups above the tile.
// A lane has the same group in every window, but where that is below its end: then it is the one 32 groups above.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>

#include "../common/grid.cuh"
#include "vectors.cuh"
#include "words.cuh"

constexpr int SECTOR = 32; // bytes

template <class T>
struct sector_tile {
    static constexpr int V = word_of<T>::V, ROWS = LANES * V, ABOVE = SECTOR / sizeof(T);
    static constexpr int ACROSS = sizeof(T) == 1 ? 16 : 32; // vectors of a row, a sector of them beside the tile
    static constexpr int COLUMNS = (ACROSS * VECTOR - SECTOR) / sizeof(T);
    static constexpr int PERIOD_LOG2 = sizeof(T) == 1 ? 5 : 4; // rows of out that far apart have the same window
    static constexpr int COUNT = COLUMNS >> PERIOD_LOG2;
    static constexpr int BYTES = (ROWS + ABOVE) * ACROSS * VECTOR + (ROWS + ABOVE) / (8 * V) * SECTOR;
    static constexpr int FAR = ROWS * ACROSS * VECTOR + ROWS / (8 * V) * SECTOR; // to the row ROWS above, in bytes
    static_assert(ABOVE == 8 * V && SECTOR == sizeof(T) << PERIOD_LOG2);

    // bytes from the first row: a sector more every 8 groups
    static __device__ constexpr int offset(int row)
    {
        return row * ACROSS * VECTOR + row / (8 * V) * SECTOR;
    }

    // where a row of the tile is; the first of those above it is 0
    static __device__ char *place(uint4 *memory, int row)
    {
        return (char *)memory + offset(row);
    }
};

template <class T>
static __device__ const char *sector_of(const T *element)
{
    return (const char *)((uintptr_t)element & ~(uintptr_t)(SECTOR - 1));
}

// The rows from ABOVE above the tile on, as far as there are any. Their sectors may have elements of other rows,
// too; where x begins or ends in one, its vectors are loaded element by element.
template <class T>
static __device__ void load_sectors(const transpose_args &args, int64_t dense, const T *x, corner at, int columns,
                                    uint4 *memory)
{
    using tile = sector_tile<T>;
    constexpr int STEP = BLOCK / tile::ACROSS;
    const char *const begin = (const char *)args.x, *const end = begin + dense * sizeof(T);
    const int above = at.row > 0 ? 0 : tile::ABOVE; // x has no rows above the first
    const int below = (int)min((int64_t)tile::ROWS, args.rows - at.row) + tile::ABOVE;
    const int v = threadIdx.x % tile::ACROSS, first = threadIdx.x / tile::ACROSS;

    if (v * VECTOR >= columns * (int)sizeof(T) + SECTOR - 1)
        return;
    x -= tile::ABOVE * args.x_pitch;
    if (sector_of(x + above * args.x_pitch) >= begin &&
        sector_of(x + (below - 1) * args.x_pitch) + tile::ACROSS * VECTOR <= end) {
        x += first * args.x_pitch;
#pragma unroll
        for (int i = 0; i < tile::ROWS + tile::ABOVE; i += STEP) {
            if (first + i >= above && first + i < below)
                __pipeline_memcpy_async(tile::place(memory, first) + tile::offset(i) + v * VECTOR,
                                        sector_of(x) + v * VECTOR, VECTOR);
            x += STEP * args.x_pitch;
        }
    } else {
#pragma unroll 1
        for (int i = first; i < below; i += STEP) {
            const char *from = sector_of(x + i * args.x_pitch) + v * VECTOR;
            char *to = tile::place(memory, i) + v * VECTOR;

            if (i >= above && from >= begin && from + VECTOR <= end)
                __pipeline_memcpy_async(to, from, VECTOR);
            else if (i >= above)
                for (int e = 0; e < VECTOR; e += sizeof(T))
                    if (from + e >= begin && from + e < end)
                        *(T *)(to + e) = *(const T *)(from + e);
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's; a barrier is still to come
}

template <class T>
static __device__ void store_sectors(const transpose_args &args, const T *x, T *out, corner at, int columns,
                                     uint4 *memory)
{
    using tile = sector_tile<T>;
    constexpr int V = tile::V, WARPS = BLOCK / LANES;
    const int lane = threadIdx.x % LANES;
    int column = threadIdx.x / LANES;

    out += column * args.out_pitch + lane * V;

    const int past = elements_past_word(out);
    const T *own[V];

#pragma unroll
    for (int q = 0; q < V; q++) {
        const int row = (q + past < V ? lane : lane - 1) * V + q; // else it is of the group above

        own[q] =
            (const T *)(tile::place(memory, tile::ABOVE + row) + (uintptr_t)(x + row * args.x_pitch) % SECTOR);
    }
#pragma unroll
    for (int k = 0; k < 1 << tile::PERIOD_LOG2; k += WARPS) {
        const int up = (int)((uintptr_t)(out - lane * V) % SECTOR / word_of<T>::W); // words of the window
        const int far = lane + up < LANES ? 0 : 1, row = (lane - far * LANES) * V - past;
        const T *places[V];

#pragma unroll
        for (int q = 0; q < V; q++)
            places[q] = own[q] - far * (tile::FAR / (int)sizeof(T)) + column;
        if (columns == tile::COLUMNS)
            store_windows(args, out + (row - lane * V), at.row + row, past, places, tile::COUNT,
                          tile::PERIOD_LOG2);
        else
            store_windows(args, out + (row - lane * V), at.row + row, past, places,
                          count_steps(column, columns, tile::PERIOD_LOG2), tile::PERIOD_LOG2);
        out += WARPS * args.out_pitch;
        column += WARPS;
    }
}
