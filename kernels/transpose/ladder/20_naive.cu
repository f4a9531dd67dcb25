// The transpose, element by element.
//
// The idea: thread (tx, ty) moves x[row][column] to out[column][row]. What the ceiling does not have to pay for:
// the 32 lanes of a warp read 32 consecutive elements, one 128-byte line, but write 32 elements that are `rows`
// apart, in 32 lines. Launch: blocks of 32 x 8 threads, one block per 32 x 32 tile of each x; a thread moves 4 of
// its elements.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int TILE = 32, BLOCK_ROWS = 8;

template <class T>
__global__ void transpose_naive(const T *x, T *out, int64_t rows, int64_t columns, corner first)
{
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + threadIdx.y, column = at.column + threadIdx.x;

    x += blockIdx.z * rows * columns;
    out += blockIdx.z * rows * columns;

    for (int j = 0; j < TILE; j += BLOCK_ROWS)
        if (row + j < rows && column < columns)
            out[column * rows + row + j] = x[(row + j) * columns + column];
}

cudaError_t launch_transpose_naive(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return cover(args->batches, args->rows, args->columns, TILE, [&](dim3 grid, int64_t batch, corner first) {
            transpose_naive<T><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>((const T *)args->x + batch * elements,
                                                                            (T *)args->out + batch * elements,
                                                                            args->rows, args->columns, first);
            return cudaGetLastError();
        });
    });
}
