// Grids of tiles over arrays of any size. CUDA allows 2^31 - 1 blocks along x, but only 65535 along y and z, so
// more rows of tiles or more matrices than that take several launches.
#pragma once

#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int THREADS_PER_SM = 1024; // the maximum of these multiprocessors
#else
constexpr int THREADS_PER_SM = 1536; // leaves each thread 40 registers
#endif
constexpr int64_t MAX_GRID_X = INT32_MAX, MAX_GRID_YZ = 65535;

__host__ __device__ inline int64_t ceil_div(int64_t n, int64_t d)
{
    return (n + d - 1) / d;
}

// the position of an element in a matrix
struct corner {
    int64_t row, column;
};

// The grids that it takes to cover matrices with tiles, one after the other. These functions are not inlined into
// cover(), of which there are hundreds.
struct grid_sequence {
    int64_t batches, down, right; // matrices, and tiles in each
    int64_t z = 0, y = 0, x = 0;  // where the grid begins: its matrix, and its tile there
};

[[maybe_unused, gnu::noinline]] static dim3 current_grid(const grid_sequence &grids)
{
    return dim3((unsigned)std::min(grids.right - grids.x, MAX_GRID_X),
                (unsigned)std::min(grids.down - grids.y, MAX_GRID_YZ),
                (unsigned)std::min(grids.batches - grids.z, MAX_GRID_YZ));
}

// Moves to the next grid; false if there is none.
[[maybe_unused, gnu::noinline]] static bool next_grid(grid_sequence *grids)
{
    if ((grids->x += MAX_GRID_X) < grids->right)
        return true;
    grids->x = 0;
    if ((grids->y += MAX_GRID_YZ) < grids->down)
        return true;
    grids->y = 0;
    return (grids->z += MAX_GRID_YZ) < grids->batches;
}

// Calls launch(grid, batch, first) for each grid that it takes to cover (batches, rows, columns) with tiles of
// `tile_rows` by `tile_columns`. blockIdx.z counts the matrices from `batch` on, and `first` is the corner of the
// grid's first tile in each. Stops at the first launch that fails. None of the numbers is 0.
template <class F>
[[nodiscard]] cudaError_t cover(int64_t batches, int64_t rows, int64_t columns, int tile_rows, int tile_columns,
                                F launch)
{
    static_assert(std::is_same_v<std::invoke_result_t<F, dim3, int64_t, corner>, cudaError_t>,
                  "a failed launch must be reported: return the result of launch() or cudaGetLastError()");
    grid_sequence grids = {batches, ceil_div(rows, tile_rows), ceil_div(columns, tile_columns)};

    do {
        const corner first = {grids.y * tile_rows, grids.x * tile_columns};

        if (cudaError_t error = launch(current_grid(grids), grids.z, first))
            return error;
    } while (next_grid(&grids));
    return cudaSuccess;
}

// the same, with square tiles
template <class F>
[[nodiscard]] cudaError_t cover(int64_t batches, int64_t rows, int64_t columns, int tile, F launch)
{
    return cover(batches, rows, columns, tile, tile, launch);
}

// the corner of this block's tile
static __device__ inline corner block_tile_origin(corner first, int tile_rows, int tile_columns)
{
    return {first.row + (int64_t)blockIdx.y * tile_rows, first.column + (int64_t)blockIdx.x * tile_columns};
}

static __device__ inline corner block_tile_origin(corner first, int tile)
{
    return block_tile_origin(first, tile, tile);
}
