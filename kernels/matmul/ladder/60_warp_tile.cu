// C = A @ B, a tile of WM x WN elements of C per warp.
//
// The idea: what a warp reads from shared memory is shared by its lanes. A warp of 4 x 8 lanes has a nearly square
// tile of C, so that every request for A or B serves as many lanes as possible: 64 bytes of A and 128 of B.
// What the rung below wasted: a warp of 2 x 16 lanes read 32 bytes of A and 256 of B, in two wavefronts.
// Launch: blocks of 256 threads, one block per BM x BN tile of each C.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../lanes.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int BM = 128, BN = 128, BK = 8; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int WM = 32, WN = 64;           // of a warp's tile of C
constexpr int TM = 8, TN = 8, V = 4;      // of a thread's tile of C; elements of a vector
constexpr int DOWN = WM / TM, ACROSS = WN / TN, LANES = 32; // lanes of a warp
constexpr int PAD = 4; // of A's tile: its columns are stored without bank conflicts
constexpr int BLOCK = BM / WM * (BN / WN) * LANES;
static_assert(DOWN == LANES_DOWN && ACROSS == LANES_ACROSS, "the lanes cover the warp's tile");
static_assert(BLOCK == BM * BK / V && BLOCK == BK * BN / V, "a thread loads one vector of each tile");

__global__ void __launch_bounds__(BLOCK)
    matmul_warp_tile(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                     int64_t a_batch_stride, int64_t b_batch_stride, bool aligned, corner first)
{
    __shared__ alignas(16) float a_tile[BK][BM + PAD]; // transposed
    __shared__ alignas(16) float b_tile[BK][BN];

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int row = warp / (BN / WN) * WM + lane_row(lane) * V; // of the thread's first piece of 4 x 4
    const int column = warp % (BN / WN) * WN + lane_column(lane) * V;
    const int a_row = threadIdx.x / (BK / V), a_column = threadIdx.x % (BK / V) * V; // of the vectors it loads
    const int b_row = threadIdx.x / (BN / V), b_column = threadIdx.x % (BN / V) * V;
    float sum[TM][TN] = {};

    a += blockIdx.z * a_batch_stride + (at.row + a_row) * k + a_column; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + b_row * n + at.column + b_column;
    c += blockIdx.z * m * n;

    for (int64_t t = 0; t < k; t += BK) {
        const float4 x = load_vector(a + t, at.row + a_row < m ? k - t - a_column : 0, aligned);

        *(float4 *)&b_tile[b_row][b_column] =
            load_vector(b + t * n, t + b_row < k ? n - at.column - b_column : 0, aligned);
        a_tile[a_column + 0][a_row] = x.x;
        a_tile[a_column + 1][a_row] = x.y;
        a_tile[a_column + 2][a_row] = x.z;
        a_tile[a_column + 3][a_row] = x.w;
        __syncthreads(); // both tiles are complete before any thread reads them

#pragma unroll
        for (int p = 0; p < BK; p++) {
            alignas(16) float a_values[TM], b_values[TN];

            for (int i = 0; i < TM; i += V)
                *(float4 *)&a_values[i] = *(const float4 *)&a_tile[p][row + i * DOWN];
            for (int j = 0; j < TN; j += V)
                *(float4 *)&b_values[j] = *(const float4 *)&b_tile[p][column + j * ACROSS];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++)
                    sum[i][j] += a_values[i] * b_values[j];
        }
        __syncthreads(); // all threads have read the tiles before they are overwritten
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += V) {
            const int64_t y = at.row + row + i / V * V * DOWN + i % V, x = at.column + column + j * ACROSS;

            store_vector(c + y * n + x, &sum[i][j], y < m ? n - x : 0, aligned);
        }
}

cudaError_t launch_matmul_warp_tile(const matmul_args *args, cudaStream_t stream)
{
    const bool aligned = rows_are_aligned(args->a, args->b, args->c, args->k, args->n);

    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        matmul_warp_tile<<<grid, BLOCK, 0, stream>>>(
            (const float *)args->a + batch * args->a_batch_stride,
            (const float *)args->b + batch * args->b_batch_stride, (float *)args->c + batch * args->m * args->n,
            args->m, args->n, args->k, args->a_batch_stride, args->b_batch_stride, aligned, first);
        return cudaGetLastError();
    });
}
