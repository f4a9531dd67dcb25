// The transpose through a tile in shared memory.
//
// The idea: a block reads a tile of x row by row into shared memory and writes it to out column by column, so that
// the lanes of a warp read and write consecutive elements of global memory.
// What the rung below wasted: each of its stores touched 32 lines for 128 bytes. This one wastes something else:
// all lanes that read a column of the tile hit the same bank, because a row of 32 words spans all 32 banks.
// Launch: blocks of TILE x 8 threads, one block per TILE x TILE tile of each x.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK_ROWS = 8;

template <class T, int TILE>
__global__ void transpose_unpadded(const T *x, T *out, int64_t rows, int64_t columns, corner first)
{
    static_assert(TILE % BLOCK_ROWS == 0, "a thread moves TILE / BLOCK_ROWS elements");
    __shared__ T tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE), [0, BLOCK_ROWS)
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + ty, column = at.column + tx; // of x, where the thread reads

    x += blockIdx.z * rows * columns;
    out += blockIdx.z * rows * columns;

    for (int j = 0; j < TILE; j += BLOCK_ROWS)
        if (row + j < rows && column < columns)
            tile[ty + j][tx] = x[(row + j) * columns + column];
    __syncthreads(); // the tile is complete before any thread reads a column of it

    const int64_t out_row = at.column + ty, out_column = at.row + tx;
    for (int j = 0; j < TILE; j += BLOCK_ROWS)
        if (out_row + j < columns && out_column < rows)
            out[(out_row + j) * rows + out_column] = tile[tx][ty + j];
}

cudaError_t launch_transpose_unpadded(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return dispatch<8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            return cover(args->batches, args->rows, args->columns, TILE,
                         [&](dim3 grid, int64_t batch, corner first) {
                             transpose_unpadded<T, TILE><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
                                 (const T *)args->x + batch * elements, (T *)args->out + batch * elements,
                                 args->rows, args->columns, first);
                             return cudaGetLastError();
                         });
        });
    });
}
