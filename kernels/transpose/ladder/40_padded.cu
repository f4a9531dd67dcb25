// The transpose through a padded tile in shared memory.
//
// The idea: one more column. With rows of 33 words, the words of a column are 33 apart, each in the next bank: 32
// lanes, 32 banks. That is PAD = 1; PAD = 0 is the rung below, and even values leave some conflicts.
// What the rung below wasted: 31 of the 32 wavefronts of every column that it read.
// Launch: blocks of TILE x 8 threads, one block per TILE x TILE tile of each x.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK_ROWS = 8;

template <class T, int TILE, int PAD>
__global__ void transpose_padded(const T *x, T *out, int64_t rows, int64_t columns, corner first)
{
    static_assert(TILE % BLOCK_ROWS == 0, "a thread moves TILE / BLOCK_ROWS elements");
    __shared__ T tile[TILE][TILE + PAD];

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

cudaError_t launch_transpose_padded(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return dispatch<8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            return dispatch<0, 1, 2, 3, 4>(args->pad, [&](auto pad) {
                constexpr int PAD = decltype(pad)::value;

                return cover(args->batches, args->rows, args->columns, TILE,
                             [&](dim3 grid, int64_t batch, corner first) {
                                 transpose_padded<T, TILE, PAD><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
                                     (const T *)args->x + batch * elements, (T *)args->out + batch * elements,
                                     args->rows, args->columns, first);
                                 return cudaGetLastError();
                             });
            });
        });
    });
}
