// Whole-sector transposes for elements of 1 or 2 bytes in rows of odd lengths.
//
// A row of a tile is loaded in 16-byte vectors, starting at the sector that contains its first element; it keeps
// its offset within the sector in shared memory. V rows are a group, from which words of out are made: see
// words.cuh. Because rows are an odd number of elements apart, 8 consecutive groups start at 8 different words of
// a sector; the next 8 groups are shifted by a sector. So a warp that reads 32 groups at once touches all banks. A
// row of out has a window of 32 words, the first of which starts a sector: up to 7 groups above the tile. A lane
// reads the same group in every window, or, if that is past the window's end, the group 32 above.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>

#include "../../common/grid.cuh"
#include "vectors.cuh"
#include "words.cuh"

constexpr int SECTOR = 32; // bytes

template <class T>
struct sector_tile {
    static constexpr int V = word_traits<T>::V, ROWS = LANES * V, HALO_ROWS = SECTOR / sizeof(T);
    static constexpr int ACROSS = sizeof(T) == 1 ? 16 : 32; // vectors per row, including one extra sector
    static constexpr int COLUMNS = (ACROSS * VECTOR - SECTOR) / sizeof(T);
    static constexpr int PERIOD_LOG2 = sizeof(T) == 1 ? 5 : 4; // rows of out this far apart have the same window
    static constexpr int COUNT = COLUMNS >> PERIOD_LOG2;
    static constexpr int BYTES = (ROWS + HALO_ROWS) * ACROSS * VECTOR + (ROWS + HALO_ROWS) / (8 * V) * SECTOR;
    static constexpr int FAR =
        ROWS * ACROSS * VECTOR + ROWS / (8 * V) * SECTOR; // distance to the row ROWS above, in bytes
    static_assert(HALO_ROWS == 8 * V && SECTOR == sizeof(T) << PERIOD_LOG2);

    // offset of a row in bytes: an extra sector after every 8 groups
    static __device__ constexpr int offset(int row)
    {
        return row * ACROSS * VECTOR + row / (8 * V) * SECTOR;
    }

    // the address of a row in shared memory; row 0 is the first of those above the tile
    static __device__ char *row_address(uint4 *memory, int row)
    {
        return (char *)memory + offset(row);
    }
};

template <class T>
static __device__ const char *sector_begin(const T *element)
{
    return (const char *)((uintptr_t)element & ~(uintptr_t)(SECTOR - 1));
}

// Loads the rows of the tile and up to HALO_ROWS rows above it, if they exist. Their sectors may contain elements
// of other rows. Where x starts or ends within a sector, vectors are loaded element by element.
template <class T>
static __device__ void load_sectors(const transpose_args &args, int64_t dense, const T *x, corner at, int columns,
                                    uint4 *memory)
{
    using tile = sector_tile<T>;
    constexpr int STEP = BLOCK / tile::ACROSS;
    const char *const begin = (const char *)args.x, *const end = begin + dense * sizeof(T);
    const int above = at.row > 0 ? 0 : tile::HALO_ROWS; // x has no rows above the first
    const int below = (int)min((int64_t)tile::ROWS, args.rows - at.row) + tile::HALO_ROWS;
    const int v = threadIdx.x % tile::ACROSS, first = threadIdx.x / tile::ACROSS;

    if (v * VECTOR >= columns * (int)sizeof(T) + SECTOR - 1)
        return;
    x -= tile::HALO_ROWS * args.x_row_stride;
    if (sector_begin(x + above * args.x_row_stride) >= begin &&
        sector_begin(x + (below - 1) * args.x_row_stride) + tile::ACROSS * VECTOR <= end) {
        x += first * args.x_row_stride;
#pragma unroll
        for (int i = 0; i < tile::ROWS + tile::HALO_ROWS; i += STEP) {
            if (first + i >= above && first + i < below)
                __pipeline_memcpy_async(tile::row_address(memory, first) + tile::offset(i) + v * VECTOR,
                                        sector_begin(x) + v * VECTOR, VECTOR);
            x += STEP * args.x_row_stride;
        }
    } else {
#pragma unroll 1
        for (int i = first; i < below; i += STEP) {
            const char *from = sector_begin(x + i * args.x_row_stride) + v * VECTOR;
            char *to = tile::row_address(memory, i) + v * VECTOR;

            if (i >= above && from >= begin && from + VECTOR <= end)
                __pipeline_memcpy_async(to, from, VECTOR);
            else if (i >= above)
                for (int e = 0; e < VECTOR; e += sizeof(T))
                    if (from + e >= begin && from + e < end)
                        *(T *)(to + e) = *(const T *)(from + e);
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's copies; the caller adds a barrier
}

template <class T>
static __device__ void store_sectors(const transpose_args &args, const T *x, T *out, corner at, int columns,
                                     uint4 *memory)
{
    using tile = sector_tile<T>;
    constexpr int V = tile::V, WARPS = BLOCK / LANES;
    const int lane = threadIdx.x % LANES;
    int column = threadIdx.x / LANES;

    out += column * args.out_row_stride + lane * V;

    const int past = word_misalignment(out);
    const T *own[V];

#pragma unroll
    for (int q = 0; q < V; q++) {
        const int row = (q + past < V ? lane : lane - 1) * V + q; // otherwise of the group above

        own[q] = (const T *)(tile::row_address(memory, tile::HALO_ROWS + row) +
                             (uintptr_t)(x + row * args.x_row_stride) % SECTOR);
    }
#pragma unroll
    for (int k = 0; k < 1 << tile::PERIOD_LOG2; k += WARPS) {
        const int up = (int)((uintptr_t)(out - lane * V) % SECTOR /
                             word_traits<T>::W); // words by which the window is shifted up
        const int far = lane + up < LANES ? 0 : 1, row = (lane - far * LANES) * V - past;
        const T *sources[V];

#pragma unroll
        for (int q = 0; q < V; q++)
            sources[q] = own[q] - far * (tile::FAR / (int)sizeof(T)) + column;
        if (columns == tile::COLUMNS)
            store_windows(args, out + (row - lane * V), at.row + row, past, sources, tile::COUNT,
                          tile::PERIOD_LOG2);
        else
            store_windows(args, out + (row - lane * V), at.row + row, past, sources,
                          steps_below(column, columns, tile::PERIOD_LOG2), tile::PERIOD_LOG2);
        out += WARPS * args.out_row_stride;
        column += WARPS;
    }
}
