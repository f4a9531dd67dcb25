// C = A @ B through tiles in shared memory.
//
// The idea: the threads of a block share rows of A and columns of B. The block loads one TILE x TILE tile of each
// into shared memory, every thread multiplies its row of one with its column of the other, and the block moves on
// along k. Each loaded element is used TILE times.
// What the rung below wasted: it fetched every row of A n times and every column of B m times from global memory;
// here it is n / TILE and m / TILE times.
// Launch: blocks of TILE x TILE threads, one block per TILE x TILE tile of each C.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/types.cuh"
#include "kernels.h"
#include "../accumulator_type.cuh"

template <class T, int TILE>
__global__ void matmul_tiled(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k, int64_t a_batch_stride,
                             int64_t b_batch_stride, corner first)
{
    static_assert(TILE * TILE <= 1024, "one thread per element of the tile");
    using Sum = accumulator_type<T>;
    __shared__ Sum a_tile[TILE][TILE];
    __shared__ Sum b_tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y; // [0, TILE)
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + ty, column = at.column + tx;
    Sum sum = 0;

    pdl_wait();
    a += blockIdx.z * a_batch_stride; // (m, k), (k, n) and (m, n): the block's matrices
    b += blockIdx.z * b_batch_stride;
    c += blockIdx.z * m * n;

    for (int64_t t = 0; t < k; t += TILE) {
        // beyond the edges the tiles are filled with zeros, which do not change the sum
        a_tile[ty][tx] = row < m && t + tx < k ? Sum(a[row * k + t + tx]) : Sum(0);
        b_tile[ty][tx] = t + ty < k && column < n ? Sum(b[(t + ty) * n + column]) : Sum(0);
        __syncthreads(); // both tiles are complete before any thread reads them

        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads(); // all threads have read the tiles before they are overwritten
    }

    if (row < m && column < n)
        c[row * n + column] = T(sum);
}

cudaError_t launch_matmul_tiled(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);

        return dispatch<2, 4, 8, 16, 32>(args->tile, [&](auto tile) {
            constexpr int TILE = decltype(tile)::value;

            return cover(args->batches, args->m, args->n, TILE, [&](dim3 grid, int64_t batch, corner first) {
                return launch<matmul_tiled<T, TILE>>(
                    grid, dim3(TILE, TILE), 0, stream, (const T *)args->a + batch * args->a_batch_stride,
                    (const T *)args->b + batch * args->b_batch_stride, (T *)args->c + batch * args->m * args->n,
                    args->m, args->n, args->k, args->a_batch_stride, args->b_batch_stride, first);
            });
        });
    });
}
