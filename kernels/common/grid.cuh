// Grids that cover arrays of any size. CUDA allows 2^31 - 1 blocks along x, but 65535 along y and z: a grid of
// tiles that has more rows goes on along z.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

constexpr int64_t MAX_GRID_Y = 65535;

inline int64_t ceil_div(int64_t n, int64_t d)
{
    return (n + d - 1) / d;
}

// blocks for a (rows, columns) array cut into tiles of `tile` by `tile`
inline dim3 tiles_grid(int64_t rows, int64_t columns, int tile)
{
    int64_t down = ceil_div(rows, tile), y = down < MAX_GRID_Y ? down : MAX_GRID_Y;
    return dim3((unsigned)ceil_div(columns, tile), (unsigned)y, (unsigned)ceil_div(down, y));
}

// the running block's row of tiles; beyond the last one in the last plane of the grid
static __device__ inline int64_t tile_row()
{
    return (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
}
