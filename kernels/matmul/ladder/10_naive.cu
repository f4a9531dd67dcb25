// C = A @ B, one thread per element of C.
//
// The idea: the elements of C are independent, so each gets its own thread, which walks along its row of A and
// down its column of B.
// What the rung below wasted: all cores but one.
// Launch: blocks of 32 x 32 threads, one block per 32 x 32 tile of each C; the lanes of a warp are neighbours in a
// row.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
#include "kernels.h"
#include "../accumulator_type.cuh"

constexpr int TILE = 32;

// Index counts along k: 32 bits where they suffice, because the compiler then keeps more loads in flight.
template <class T, class Index>
__global__ void matmul_naive(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k, int64_t a_batch_stride,
                             int64_t b_batch_stride, corner first)
{
    using Sum = accumulator_type<T>;
    const corner at = block_tile_origin(first, TILE);
    const int64_t row = at.row + threadIdx.y, column = at.column + threadIdx.x;

    a += blockIdx.z * a_batch_stride; // (m, k), (k, n) and (m, n): the block's matrices
    b += blockIdx.z * b_batch_stride;
    c += blockIdx.z * m * n;

    if (row < m && column < n) {
        const T *a_row = a + row * k, *b_column = b + column; // (k,), contiguous; (k,), stride n
        Sum sum = 0;
        for (Index i = 0; i < (Index)k; i++)
            sum += Sum(a_row[i]) * Sum(b_column[i * n]); // 2 loads from global memory per multiply-add
        c[row * n + column] = T(sum);
    }
}

cudaError_t launch_matmul_naive(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        const auto kernel = args->k <= INT32_MAX ? matmul_naive<T, int32_t> : matmul_naive<T, int64_t>;

        return cover(args->batches, args->m, args->n, TILE, [&](dim3 grid, int64_t batch, corner first) {
            kernel<<<grid, dim3(TILE, TILE), 0, stream>>>(
                (const T *)args->a + batch * args->a_batch_stride,
                (const T *)args->b + batch * args->b_batch_stride, (T *)args->c + batch * args->m * args->n,
                args->m, args->n, args->k, args->a_batch_stride, args->b_batch_stride, first);
            return cudaGetLastError();
        });
    });
}
