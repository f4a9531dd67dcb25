// The transpose through a swizzled tile in shared memory.
//
// The idea: column c of row r is stored at c ^ r. A row is still permuted within itself, but the words of a column
// fall into as many banks as there are rows, for elements of any size: equal column numbers are XORed with
// different row numbers.
// What the rung below wasted: one column of the tile, and with it the alignment of the rows, which vector accesses
// need.
// Launch: blocks of 32 x 8 threads, one block per 32 x 32 tile of each x.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
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

cudaError_t launch_transpose_swizzled(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return cover(args->batches, args->rows, args->columns, TILE, [&](dim3 grid, int64_t batch, corner first) {
            transpose_swizzled<T><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
                (const T *)args->x + batch * elements, (T *)args->out + batch * elements, args->rows,
                args->columns, first);
            return cudaGetLastError();
        });
    });
}
