// The transpose through a swizzled tile in shared memory.
//
// The idea: column c of row r is stored at c ^ r. A row is still permuted within itself, but the words of a column
// fall into as many banks as there are rows, for elements of any size: equal column numbers are XORed with
// different row numbers.
// What the rung below wasted: one column of the tile, and with it the alignment of the rows, which vector accesses
// need.
// Launch: blocks of 32 x 8 threads, one block per 32 x 32 tile of each x.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"

constexpr int TILE = 32, BLOCK_ROWS = 8;

template <class T>
__global__ void transpose_swizzled(const T *x, T *out, int64_t rows, int64_t columns, corner first)
{
    __shared__ T tile[TILE][TILE]; // column c of row r is at c ^ r

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE), [0, BLOCK_ROWS)
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + ty, column = at.column + tx; // of x, where the thread reads

    x += blockIdx.z * rows * columns;
    out += blockIdx.z * rows * columns;

    for (int j = 0; j < TILE; j += BLOCK_ROWS)
        if (row + j < rows && column < columns)
            tile[ty + j][tx ^ (ty + j)] = x[(row + j) * columns + column];
    __syncthreads(); // the tile is complete before any thread reads a column of it

    const int64_t out_row = at.column + ty, out_column = at.row + tx;
    for (int j = 0; j < TILE; j += BLOCK_ROWS)
        if (out_row + j < columns && out_column < rows)
            out[(out_row + j) * rows + out_column] = tile[tx][(ty + j) ^ tx];
}

// In place: a block exchanges a tile with its mirror image across the diagonal. The tiles on and above the
// diagonal, with an odd number `side` of tiles per row, are folded into a rectangle of (side + 1) / 2 rows.
template <class T>
__global__ void transpose_swizzled_in_place(T *x, int64_t n, int side, corner first)
{
    __shared__ T upper[TILE][TILE], lower[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE), [0, BLOCK_ROWS)
    const corner block = block_tile_origin(first, 1);
    const bool folded = block.column < block.row;
    const int64_t row = (folded ? side - block.row : block.row) * TILE;
    const int64_t column = (folded ? side - 1 - block.column : block.column) * TILE;

    x += blockIdx.z * n * n;

    for (int r = ty; r < TILE; r += BLOCK_ROWS) {
        if (row + r < n && column + tx < n)
            upper[r][tx ^ r] = x[(row + r) * n + column + tx];
        if (column + r < n && row + tx < n)
            lower[r][tx ^ r] = x[(column + r) * n + row + tx];
    }
    __syncthreads(); // both have been read before either is overwritten

    for (int r = ty; r < TILE; r += BLOCK_ROWS) {
        if (column + r < n && row + tx < n)
            x[(column + r) * n + row + tx] = upper[tx][r ^ tx];
        if (row != column && row + r < n && column + tx < n)
            x[(row + r) * n + column + tx] = lower[tx][r ^ tx];
    }
}

cudaError_t launch_transpose_swizzled(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        if (args->x == args->out) {
            const int side = (int)ceil_div(args->rows, TILE) | 1;

            return cover(args->batches, (side + 1) / 2, side, 1, [&](dim3 grid, int64_t batch, corner first) {
                transpose_swizzled_in_place<T><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
                    (T *)args->out + batch * elements, args->rows, side, first);
                return cudaGetLastError();
            });
        }
        return cover(args->batches, args->rows, args->columns, TILE, [&](dim3 grid, int64_t batch, corner first) {
            transpose_swizzled<T><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
                (const T *)args->x + batch * elements, (T *)args->out + batch * elements, args->rows,
                args->columns, first);
            return cudaGetLastError();
        });
    });
}
