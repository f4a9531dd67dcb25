// C = A @ B with several pairs of tiles in flight.
//
// The idea: while the warps multiply one pair of tiles, asynchronous copies, which need no registers, load the
// next ones from global memory. Shared memory has a slot, called a stage, for each pair. One barrier per pair is
// enough: the stage that is filled next is the one that all threads have finished before it. Rows and columns
// beyond the edges repeat the last ones, because what is computed from them is not stored. What the rung below
// wasted: the multiplications of a block waited for its loads, and its loads for them. What it wastes itself: A is
// transposed by copies of 4 bytes, which collide where they read, in the same place of several rows. Launch:
// blocks of 256 threads, one block per BM x BN tile of each C.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <type_traits>

#include "../../common/grid.cuh"
#include "../lanes.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int BM = 128, BN = 128, BK = 32; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int WM = 32, WN = 64;            // of a warp's tile of C
constexpr int TM = 8, TN = 8, V = 4;       // of a thread's tile of C; elements of a vector
constexpr int STAGES = 2;                  // one is multiplied while the other is filled
constexpr int DOWN = WM / TM, ACROSS = WN / TN, LANES = 32; // lanes of a warp
constexpr int BLOCK = BM / WM * (BN / WN) * LANES;
// threads that load a row of a tile together; elements for A's, which is transposed, and vectors for B's
constexpr int A_LANES = 8, A_ROWS = BLOCK / A_LANES, B_LANES = BN / V, B_ROWS = BLOCK / B_LANES;
constexpr int PAD = 4; // of A's tile: 8 columns of 4 rows are stored together without bank conflicts

struct stage {
    alignas(16) float a[BK][BM + PAD]; // transposed
    alignas(16) float b[BK][BN];
};

// Starts the copies of the next pair of tiles, of which `depth` columns of A and rows of B are to be multiplied:
// BK if WHOLE; the others are filled with zeros. `a`: the thread's elements of A; `b`: its row of B; `columns`:
// its vector.
template <bool ALIGNED, bool WHOLE>
static __device__ void load_stage(stage &to, const float *const *a, const float *b, const int *columns, int depth,
                                  int64_t n)
{
    const int i = threadIdx.x / A_LANES, p = threadIdx.x % A_LANES;     // (BM, BK)
    const int q = threadIdx.x / B_LANES, j = threadIdx.x % B_LANES * V; // (BK, BN)

#pragma unroll
    for (int e = 0; e < BK; e += A_LANES)
#pragma unroll
        for (int l = 0; l < BM / A_ROWS; l++) {
            const bool inside = WHOLE || p + e < depth;
            __pipeline_memcpy_async(&to.a[p + e][i + l * A_ROWS], inside ? a[l] + e : a[l] - p, 4, inside ? 0 : 4);
        }
#pragma unroll
    for (int e = 0; e < BK; e += B_ROWS) {
        const bool inside = WHOLE || q + e < depth;
        const float *row = inside ? b + e * n : b - q * n;

        if (ALIGNED)
            __pipeline_memcpy_async(&to.b[q + e][j], row + columns[0], 16, inside ? 0 : 16);
        else
            for (int x = 0; x < V; x++)
                __pipeline_memcpy_async(&to.b[q + e][j + x], row + columns[x], 4, inside ? 0 : 4);
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(BLOCK, 2)
    matmul_pipelined(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k,
                     int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    extern __shared__ __align__(16) unsigned char shared[];
    stage *stages = (stage *)shared; // 65 KB, more than a static array may have

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const int row = warp / (BN / WN) * WM + lane_row(lane) * V; // of the thread's first piece of 4 x 4
    const int column = warp % (BN / WN) * WN + lane_column(lane) * V;
    const float *a_rows[BM / A_ROWS];
    int columns[V], now = 0;
    float sum[TM][TN] = {};

    a += blockIdx.z * a_batch_stride + threadIdx.x % A_LANES; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + threadIdx.x / B_LANES * n + at.column;
    c += blockIdx.z * m * n;
    for (int l = 0; l < BM / A_ROWS; l++)
        a_rows[l] = a + min(at.row + threadIdx.x / A_LANES + l * A_ROWS, m - 1) * k;
    for (int x = 0; x < V; x++) {
        const int64_t own = threadIdx.x % B_LANES * V, last = n - at.column - 1;
        columns[x] = (int)(ALIGNED ? min(own, last - 3) + x : min(own + x, last));
    }

    const int first_depth = (int)((k - 1) % BK) + 1; // the first pair may be partial, so that all others are whole
    const auto load = [&](auto is_whole, stage &to, int depth) {
        load_stage<ALIGNED, decltype(is_whole)::value>(to, a_rows, b, columns, depth, n);
        for (int l = 0; l < BM / A_ROWS; l++)
            a_rows[l] += depth;
        b += depth * n;
    };

    load(std::false_type(), stages[0], first_depth);
    __pipeline_commit();
    for (int64_t loaded = first_depth; loaded - first_depth < k; loaded += BK) {
        __pipeline_wait_prior(0); // this thread's copies of the pair are complete,
        __syncthreads();          // and so are all threads'; the other stage is free
        if (loaded < k)
            load(std::true_type(), stages[1 - now], BK);
        __pipeline_commit();

#pragma unroll
        for (int p = 0; p < BK; p++) {
            alignas(16) float a_values[TM], b_values[TN];

            for (int i = 0; i < TM; i += V)
                *(float4 *)&a_values[i] = *(const float4 *)&stages[now].a[p][row + i * DOWN];
            for (int j = 0; j < TN; j += V)
                *(float4 *)&b_values[j] = *(const float4 *)&stages[now].b[p][column + j * ACROSS];
            for (int i = 0; i < TM; i++)
                for (int s = 0; s < TN; s++) {
                    const int j =
                        i % 2 ? TN - 1 - s : s; // back and forth: b_values[j] is read from its register once
                    sum[i][j] += a_values[i] * b_values[j];
                }
        }
        now = 1 - now;
    }

    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j += V) {
            const int64_t y = at.row + row + i / V * V * DOWN + i % V, x = at.column + column + j * ACROSS;

            store_vector(c + y * n + x, &sum[i][j], y < m ? n - x : 0, ALIGNED);
        }
}

cudaError_t launch_matmul_pipelined(const matmul_args *args, cudaStream_t stream)
{
    const auto kernel = rows_are_aligned(args->a, args->b, args->c, args->k, args->n) ? matmul_pipelined<true>
                                                                                      : matmul_pipelined<false>;
    constexpr int BYTES = STAGES * sizeof(stage);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, BYTES, stream>>>((const float *)args->a + batch * args->a_batch_stride,
                                               (const float *)args->b + batch * args->b_batch_stride,
                                               (float *)args->c + batch * args->m * args->n, args->m, args->n,
                                               args->k, args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}
