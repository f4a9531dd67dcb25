// The rows of a reduction: out (outer, inner) = op over x (outer, n, inner). Row r = o * inner + i is made of the
// n elements x[o, :, i], and its result is out[r].
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "grid.cuh"
#include "kernels.h"

static __device__ inline int64_t rows_of(const reduce_args &args)
{
    return args.outer * args.inner;
}

// where element 0 of a row lies in x; the next ones follow at a distance of `inner`
static __device__ inline int64_t row_start(int64_t row, int64_t n, int64_t inner)
{
    return inner == 1 ? row * n : row / inner * n * inner + row % inner;
}

// `blocks` blocks for each of `rows` rows: along x, the rows along y and z
inline dim3 rows_grid(int64_t rows, int64_t blocks)
{
    const int64_t z = ceil_div(rows, MAX_GRID_YZ), y = ceil_div(rows, z); // at most z - 1 rows too many
    return dim3((unsigned)blocks, (unsigned)y, (unsigned)z);
}

// the running block's row; there may be none of that number
static __device__ inline int64_t block_row()
{
    return (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
}
