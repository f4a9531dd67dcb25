// C = A @ B, a tile of TM x TN elements of C per thread.
//
// The idea: a tile of registers is used in both directions. A thread reads TM elements of a column of A and TN of
// a row of B from shared memory, and makes TM * TN products of them. What the rung below wasted: an element of B
// was read for one product per thread; here it is for TM of them. Launch: blocks of 256 threads, one block per BM
// x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BM = 128, BN = 128, BK = 8; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int TM = 8, TN = 8;             // of a thread's tile of C
constexpr int BLOCK = BM / TM * (BN / TN);

__global__ void __launch_bounds__(BLOCK)
    matmul_thread_tile(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                       int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    __shared__ float a_tile[BM][BK + 1]; // padded: the two rows that a warp reads are in different banks
    __shared__ alignas(16) float b_tile[BK][BN];

    const corner at = block_tile_origin(first, BM, BN);
    const int row = threadIdx.x / (BN / TN) * TM, column = threadIdx.x % (BN / TN) * TN; // of the thread's tile
    float sum[TM][TN] = {};

    a += blockIdx.z * a_batch_stride + at.row * k; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + at.column;
    c += blockIdx.z * m * n + (at.row + row) * n + at.column + column;

    for (int64_t t = 0; t < k; t += BK) {
        // beyond the edges the tiles are filled with zeros, which do not change the sums
        for (int e = threadIdx.x; e < BM * BK; e += BLOCK) {
            const int i = e / BK, j = e % BK;
            a_tile[i][j] = at.row + i < m && t + j < k ? a[i * k + t + j] : 0;
        }
        for (int e = threadIdx.x; e < BK * BN; e += BLOCK) {
            const int i = e / BN, j = e % BN;
            b_tile[i][j] = t + i < k && at.column + j < n ? b[(t + i) * n + j] : 0;
        }
        __syncthreads(); // both tiles are complete before any thread reads them

        for (int p = 0; p < BK; p++) {
            float a_column[TM], b_row[TN];

            for (int i = 0; i < TM; i++)
                a_column[i] = a_tile[row + i][p];
            for (int j = 0; j < TN; j++)
                b_row[j] = b_tile[p][column + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a_column[i] * b_row[j];
        }
        __syncthreads(); // all threads have read the tiles before they are overwritten
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            if (at.row + row + i < m && at.column + column + j < n)
                c[i * n + j] = sum[i][j];
}

cudaError_t launch_matmul_thread_tile(const matmul_args *args, cudaStream_t stream)
{
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        matmul_thread_tile<<<grid, BLOCK, 0, stream>>>(
            (const float *)args->a + batch * args->a_batch_stride,
            (const float *)args->b + batch * args->b_batch_stride, (float *)args->c + batch * args->m * args->n,
            args->m, args->n, args->k, args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}
