// C = A @ B, one thread an element of C.
//
// The idea: the elements of C do not depend on each other, so each can have a thread of its own, which walks
// along its row of A and down its column of B.
// What the rung below wasted: all cores but one.
// Launch: blocks of 32 x 32 threads, one for each 32 x 32 tile of C; a warp's lanes are neighbours in a row.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"

// Index counts along k: 32 bits wherever they are enough, since the compiler keeps more loads on their way then.
template <class T, class Index>
__global__ void matmul_naive(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k)
{
    const int64_t row = tile_row() * blockDim.y + threadIdx.y;
    const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < m && column < n) {
        const T *a_row = a + row * k, *b_column = b + column; // (k,), neighbours; (k,), n apart
        T sum = 0;
        for (Index i = 0; i < (Index)k; i++)
            sum += a_row[i] * b_column[i * n]; // 2 loads from global memory for one multiply-add
        c[row * n + column] = sum;
    }
}

cudaError_t launch_matmul_naive(const matmul_args *args, cudaStream_t stream)
{
    return dispatch_dtype(args->dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int TILE = 32;
        const dim3 grid = tiles_grid(args->m, args->n, TILE), block(TILE, TILE);
        const T *a = (const T *)args->a, *b = (const T *)args->b;

        if (args->k <= INT32_MAX)
            matmul_naive<T, int32_t><<<grid, block, 0, stream>>>(a, b, (T *)args->c, args->m, args->n, args->k);
        else
            matmul_naive<T, int64_t><<<grid, block, 0, stream>>>(a, b, (T *)args->c, args->m, args->n, args->k);
        return cudaGetLastError();
    });
}
