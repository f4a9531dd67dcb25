// The transpose of square matrices in place.
//
// The idea: a block exchanges a tile with its mirror image across the diagonal, so that both have been read before
// either is overwritten. The tiles on and above the diagonal, with an odd number `side` of tiles per row, are
// folded into a rectangle of (side + 1) / 2 rows, so that no block is idle. If every row is 16-byte aligned, tiles
// move in vectors, as in tiles.cu; otherwise contiguous matrices move element by element through swizzled tiles.
// Launch: blocks of 256 threads over half of the tiles.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "tiles.cuh"
#include "vectors.cuh"

// The rows of tiles that a block exchanges: tile (i, j) with tile (j, i).
struct tile_pair {
    int64_t i, j;
};

static __device__ inline tile_pair pair_of_block(corner first, int side)
{
    const corner block = block_tile_origin(first, 1);

    const bool folded = block.column < block.row; // the rectangle's lower half: the last rows of tiles

    return {folded ? side - block.row : block.row, folded ? side - 1 - block.column : block.column};
}

template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_vectors_in_place(const __grid_constant__ transpose_args args, tile_layout tile, int side,
                               int64_t batch, corner first)
{
    extern __shared__ uint4 memory[]; // two tiles

    pdl_wait();
    T *x = (T *)args.out + matrix_origin_of(args, batch + blockIdx.z).out;
    const tile_pair pair = pair_of_block(first, side);
    const int64_t i = pair.i * tile.rows, j = pair.j * tile.rows;
    const corner upper = {i, j}, lower = {j, i};
    uint4 *other = memory + tile.rows / vector_traits<T>::V * tile.group_stride;

    load_tile(args, tile, x, upper, memory);
    if (i != j)
        load_tile(args, tile, x, lower, other);
    __syncthreads(); // both have been read before either is overwritten
    store_tile(args, tile, x, upper, memory);
    if (i != j)
        store_tile(args, tile, x, lower, other);
}

constexpr int TILE = 32, BLOCK_ROWS = 8;

// the same by elements: column c of row r of a tile is at c ^ r, so that columns have no bank conflicts
template <class T>
__global__ void transpose_elements_in_place(T *x, int64_t n, int side, corner first)
{
    __shared__ T upper[TILE][TILE], lower[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE), [0, BLOCK_ROWS)
    const tile_pair pair = pair_of_block(first, side);
    const int64_t row = pair.i * TILE, column = pair.j * TILE;

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

template <class T>
static cudaError_t launch_vectors(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = vector_traits<T>::V, SIDE = sizeof(T) == 1 ? 128 : sizeof(T) < 8 ? 64 : 32;
    const tile_layout tile = make_tile_layout<T>(SIDE, SIDE / V);
    const int side = (int)ceil_div(args->rows, SIDE) | 1;

    return cover(args->batches, (side + 1) / 2, side, 1, [&](dim3 grid, int64_t batch, corner first) {
        return launch<transpose_vectors_in_place<T>>(grid, BLOCK, 2 * SIDE / V * tile.group_stride * VECTOR,
                                                     stream, *args, tile, side, batch, first);
    });
}

template <class T>
static cudaError_t launch_elements(const transpose_args *args, cudaStream_t stream)
{
    const int side = (int)ceil_div(args->rows, TILE) | 1;

    return cover(args->batches, (side + 1) / 2, side, 1, [&](dim3 grid, int64_t batch, corner first) {
        transpose_elements_in_place<T><<<grid, dim3(TILE, BLOCK_ROWS), 0, stream>>>(
            (T *)args->out + batch * args->rows * args->rows, args->rows, side, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_transpose_in_place(const transpose_args *args, cudaStream_t stream)
{
    const bool aligned =
        rows_are_vector_aligned(args->out, args->out_row_stride, args, &batch_dimension::out_stride);

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return aligned ? launch_vectors<T>(args, stream) : launch_elements<T>(args, stream);
    });
}
