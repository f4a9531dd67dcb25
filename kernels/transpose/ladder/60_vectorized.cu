// The transpose by 16-byte vectors.
//
// The idea: a thread loads V elements of a row of x at once, and stores V elements of a row of out at once, which
// it gathers from V rows of the tile. So each instruction moves 16 bytes, and enough bytes are in flight to keep
// memory busy. The tile is swizzled by whole vectors: vector v of row r is at v ^ (r / V). Eight lanes that gather
// from eight groups of V rows then find their vectors in eight different sets of four banks.
// What the rung below wasted: one instruction per element, and most of the bytes that could be in flight.
// Rows that do not consist of whole vectors are moved element by element, as in the rung below.
// Launch: blocks of 128 threads, one block per tile of each x; 128 bytes of a row of out per store.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 128, VECTOR_BYTES = 16, ROW_BYTES = 128;

template <class T, int V, int TILE>
__global__ void __launch_bounds__(BLOCK)
    transpose_vectorized(const T *x, T *out, int64_t rows, int64_t columns, corner first)
{
    struct alignas(V * sizeof(T)) vector {
        T element[V];
    };
    constexpr int VECTORS = TILE / V;                            // per row of the tile, and groups of V rows
    constexpr int LANES = V > 1 ? ROW_BYTES / VECTOR_BYTES : 32; // that store to one row of out
    static_assert(VECTORS % LANES == 0 && TILE * VECTORS % BLOCK == 0, "every thread moves whole vectors");
    __shared__ vector tile[TILE][VECTORS]; // vector v of row r is at v ^ (r / V)

    const corner transposed = block_tile_origin(first, TILE), at = {transposed.column, transposed.row};

    x += blockIdx.z * rows * columns + at.row * columns + at.column;
    out += blockIdx.z * rows * columns + at.column * rows + at.row;

    vector loaded[TILE * VECTORS / BLOCK]; // all of them in flight at once

#pragma unroll
    for (int i = 0; i < TILE * VECTORS; i += BLOCK) {
        const int r = (i + threadIdx.x) / VECTORS, v = (i + threadIdx.x) % VECTORS; // [0, TILE), [0, VECTORS)

        if (at.row + r < rows && at.column + v * V < columns)
            loaded[i / BLOCK] = *(const vector *)(x + r * columns + v * V);
    }
#pragma unroll
    for (int i = 0; i < TILE * VECTORS; i += BLOCK) {
        const int r = (i + threadIdx.x) / VECTORS, v = (i + threadIdx.x) % VECTORS;

        tile[r][v ^ (r / V)] = loaded[i / BLOCK];
    }
    __syncthreads(); // the tile is complete before any thread reads a column of it

#pragma unroll
    for (int i = 0; i < TILE * VECTORS; i += BLOCK) {
        const int j = i + threadIdx.x, c = j / LANES % TILE;      // column of the tile
        const int group = j % LANES + j / (LANES * TILE) * LANES; // of V rows
        vector moved;

        if (at.column + c < columns && at.row + group * V < rows) {
            for (int k = 0; k < V; k++)
                moved.element[k] = tile[group * V + k][c / V ^ group].element[c % V];
            *(vector *)(out + c * rows + group * V) = moved;
        }
    }
}

template <class T, int V, int TILE>
static cudaError_t launch_tiles(const transpose_args *args, cudaStream_t stream)
{
    const int64_t elements = args->rows * args->columns; // per matrix

    return cover(args->batches, args->columns, args->rows, TILE, [&](dim3 grid, int64_t batch, corner first) {
        transpose_vectorized<T, V, TILE><<<grid, BLOCK, 0, stream>>>((const T *)args->x + batch * elements,
                                                                     (T *)args->out + batch * elements, args->rows,
                                                                     args->columns, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_transpose_vectorized(const transpose_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = VECTOR_BYTES / sizeof(T), TILE = V == 16 ? 128 : V >= 4 ? 64 : 32;
        const bool aligned = ((uintptr_t)args->x | (uintptr_t)args->out) % VECTOR_BYTES == 0;

        if (aligned && args->rows % V == 0 && args->columns % V == 0)
            return launch_tiles<T, V, TILE>(args, stream);
        return launch_tiles<T, 1, 32>(args, stream);
    });
}
