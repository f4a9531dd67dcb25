// C = A @ B through tiles in shared memory.
//
// The idea: the threads of a block share rows of A and columns of B. The block loads a TILE x TILE tile of each
// into shared memory, every thread multiplies its row of the one with its column of the other, and the tiles
// move on along k. Each element loaded is used TILE times.
// What the rung below wasted: it fetched every row of A n times and every column of B m times from global
// memory; here it is n / TILE and m / TILE times.
// Launch: blocks of TILE x TILE threads, one for each TILE x TILE tile of C.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"

template <class T, int TILE>
__global__ void matmul_tiled(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k)
{
    static_assert(TILE * TILE <= 1024, "one thread an element of the tile");
    __shared__ T a_tile[TILE][TILE];
    __shared__ T b_tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE)
    const int64_t row = tile_row() * TILE + ty;
    const int64_t column = (int64_t)blockIdx.x * TILE + tx;
    T sum = 0;

    for (int64_t t = 0; t < k; t += TILE) {
        // beyond the edges the tiles are filled with zeros, which add nothing
        a_tile[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : T(0);
        b_tile[ty][tx] = t + ty < k && column < n ? b[(t + ty) * n + column] : T(0);
        __syncthreads(); // the tiles are complete before anyone reads them

        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads(); // everyone has read them before anyone overwrites them
    }

    if (row < m && column < n)
        c[row * n + column] = sum;
}

cudaError_t launch_matmul_tiled(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype(args->dtype, [&](auto zero) {
        using T = decltype(zero);

        return dispatch<2, 4, 8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            matmul_tiled<T, TILE><<<tiles_grid(args->m, args->n, TILE), dim3(TILE, TILE), 0, stream>>>(
                (const T *)args->a, (const T *)args->b, (T *)args->c, args->m, args->n, args->k);
            return cudaGetLastError();
        });
    });
}
