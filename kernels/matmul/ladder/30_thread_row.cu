// C = A @ B, TN elements of a row of C per thread.
//
// The idea: registers are faster than shared memory. A thread keeps TN neighbours in a row of C in registers, and
// multiplies each element of A that it reads from shared memory by TN elements of B. The lanes of a warp have
// different rows, so all of them read the same elements of B: one request serves the whole warp, four at a time.
// What the rung below wasted: two loads from shared memory per multiply-add; here it is 1 + TN / 4 per TN.
// Launch: blocks of 512 threads, one block per BM x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BM = 64, BN = 64, BK = 8; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int TN = 8;                   // elements of C per thread
constexpr int BLOCK = BM * BN / TN;
static_assert(BLOCK == BM * BK && BLOCK == BK * BN, "a thread loads one element of each tile");

__global__ void __launch_bounds__(BLOCK)
    matmul_thread_row(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                      int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    __shared__ float a_tile[BM][BK + 1];         // padded: the lanes read a column without bank conflicts
    __shared__ alignas(16) float b_tile[BK][BN]; // read by 16 bytes

    const corner at = block_tile_origin(first, BM, BN);
    const int row = threadIdx.x % BM, column = threadIdx.x / BM * TN; // of the thread's elements in the tile
    const int a_row = threadIdx.x / BK, a_column = threadIdx.x % BK;  // of the elements that it loads
    const int b_row = threadIdx.x / BN, b_column = threadIdx.x % BN;
    float sum[TN] = {};

    a += blockIdx.z * a_batch_stride + (at.row + a_row) * k + a_column; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + b_row * n + at.column + b_column;
    c += blockIdx.z * m * n + (at.row + row) * n + at.column + column;

    for (int64_t t = 0; t < k; t += BK) {
        // beyond the edges the tiles are filled with zeros, which do not change the sums
        a_tile[a_row][a_column] = at.row + a_row < m && t + a_column < k ? a[t] : 0;
        b_tile[b_row][b_column] = t + b_row < k && at.column + b_column < n ? b[t * n] : 0;
        __syncthreads(); // both tiles are complete before any thread reads them

        for (int i = 0; i < BK; i++) {
            const float x = a_tile[row][i];

            for (int j = 0; j < TN; j++)
                sum[j] += x * b_tile[i][column + j];
        }
        __syncthreads(); // all threads have read the tiles before they are overwritten
    }

    for (int j = 0; j < TN; j++)
        if (at.row + row < m && at.column + column + j < n)
            c[j] = sum[j];
}

cudaError_t launch_matmul_thread_row(const matmul_args *args, cudaStream_t stream)
{
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        matmul_thread_row<<<grid, BLOCK, 0, stream>>>(
            (const float *)args->a + batch * args->a_batch_stride,
            (const float *)args->b + batch * args->b_batch_stride, (float *)args->c + batch * args->m * args->n,
            args->m, args->n, args->k, args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}
