// C = A @ B, one thread an element of C.
//
// The idea: the elements of C do not depend on each other, so each can have a thread of its own, which walks
// along its row of A and down its column of B.
// What the rung below wasted: all cores but one.
// Launch: blocks of 32 x 32 threads, one for each 32 x 32 tile of each C; a warp's lanes are neighbours in a row.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/types.cuh"
#include "kernels.h"
#include "sum_of.cuh"

constexpr int TILE = 32;

// Index counts along k: 32 bits wherever they are enough, since the compiler keeps more loads on their way then.
template <class T, class Index>
__global__ void matmul_naive(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k, int64_t a_step,
                             int64_t b_step, corner first)
{
    using Sum = sum_of<T>;
    const corner at = corner_of_block(first, TILE);
    const int64_t row = at.row + threadIdx.y, column = at.column + threadIdx.x;

    a += blockIdx.z * a_step; // (m, k), (k, n) and (m, n): the block's matrices
    b += blockIdx.z * b_step;
    c += blockIdx.z * m * n;

    if (row < m && column < n) {
        const T *a_row = a + row * k, *b_column = b + column; // (k,), neighbours; (k,), n apart
        Sum sum = 0;
        for (Index i = 0; i < (Index)k; i++)
            sum += Sum(a_row[i]) * Sum(b_column[i * n]); // 2 loads from global memory for one multiply-add
        c[row * n + column] = T(sum);
    }
}

cudaError_t launch_matmul_naive(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        const auto kernel = args->k <= INT32_MAX ? matmul_naive<T, int32_t> : matmul_naive<T, int64_t>;

        return cover(args->batches, args->m, args->n, TILE, [&](dim3 grid, int64_t batch, corner first) {
            kernel<<<grid, dim3(TILE, TILE), 0, stream>>>((const T *)args->a + batch * args->a_step,
                                                          (const T *)args->b + batch * args->b_step,
                                                          (T *)args->c + batch * args->m * args->n, args->m,
                                                          args->n, args->k, args->a_step, args->b_step, first);
            return cudaGetLastError();
        });
    });
}
