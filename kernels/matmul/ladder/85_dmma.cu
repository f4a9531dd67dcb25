// C = A @ B in float64 on the tensor cores.
//
// The idea: as in the rung below, but an mma of doubles multiplies 16 x 8 elements of A by 8 x 8 of B, and there
// is no ldmatrix for them: lanes load what they need. Lane 4 i + t holds the elements t and t + 4 along k of
// A's rows i and i + 8, and of B's column i. Since mma only adds up their products, any order of k is right that
// both operands share: here lanes take 2t and 2t + 1, which are neighbours in a row of A, and load them at once.
// Chunk c of row r, 16 bytes, is stored where lanes that load together find different banks: eight lanes load four
// chunks of two rows of A, and sixteen lanes two chunks of every second row of B. What the rung below cannot do:
// its products are of 16-bit numbers. Launch: blocks of 128 threads, one block per BM x BN tile of each C.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/mma.cuh"
#include "kernels.h"

constexpr int BM = 64, BN = 64, BK = 16; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int WM = 32, WN = 32;          // of a warp's tile of C
constexpr int BLOCK = BM / WM * (BN / WN) * 32;
constexpr int V = 2;                                // elements of a chunk
constexpr int MM = 16, MN = 8, MK = 8;              // of an mma
constexpr int A_CHUNKS = BK / V, B_CHUNKS = BN / V; // in a row of a tile

struct dmma_stage {
    double2 a[BM * A_CHUNKS], b[BK * B_CHUNKS];
};

static __device__ inline int a_index(int row, int chunk)
{
    return row * A_CHUNKS + (chunk ^ row % 2 * 4);
}

static __device__ inline int b_index(int row, int chunk)
{
    return row * B_CHUNKS + (chunk ^ row % 8);
}

// Starts the copies of ROWS rows of CHUNKS chunks of x, of which `rows` x `columns` elements are left; the others
// are filled with zeros. ALIGNED: chunks are whole, and begin at multiples of 16 bytes.
template <bool ALIGNED, int ROWS, int CHUNKS>
static __device__ void load_tile(double2 *tile, int (*index)(int, int), const double *x, int64_t pitch,
                                 int64_t rows, int64_t columns)
{
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int64_t left = row < rows ? columns - chunk * V : 0;
        const double *from = left > 0 ? x + row * pitch + chunk * V : x;
        double2 *to = &tile[index(row, chunk)];

        if (ALIGNED)
            __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
        else
            *to = make_double2(left > 0 ? from[0] : 0, left > 1 ? from[1] : 0);
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(BLOCK, 2)
    matmul_dmma(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k,
                int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    __shared__ dmma_stage stages[2]; // one is multiplied while the other is filled

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, side = lane / 4, t = lane % 4;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN; // of the warp's tile
    double sum[WM / MM][WN / MN][4] = {};
    int now = 0;

    a += blockIdx.z * a_batch_stride + at.row * k; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + at.column;
    c += blockIdx.z * m * n;
    const auto load = [&](dmma_stage &to, int64_t p) {
        if (p < k) {
            load_tile<ALIGNED, BM, A_CHUNKS>(to.a, a_index, a + p, k, m - at.row, k - p);
            load_tile<ALIGNED, BK, B_CHUNKS>(to.b, b_index, b + p * n, n, k - p, n - at.column);
        }
        __pipeline_commit();
    };

    load(stages[0], 0);
    for (int64_t p = 0; p < k; p += BK) {
        __pipeline_wait_prior(0); // this thread's copies of the pair are complete,
        __syncthreads();          // and so are all threads'; the other stage is free
        load(stages[1 - now], p + BK);

#pragma unroll
        for (int q = 0; q < BK; q += MK) {
            const dmma_stage &of = stages[now];
            double a_elements[WM / MM][4];

            for (int i = 0; i < WM / MM; i++)
                for (int h = 0; h < 2; h++) {
                    const double2 two = of.a[a_index(row + i * MM + h * MM / 2 + side, q / V + t)];

                    a_elements[i][h] = two.x;
                    a_elements[i][2 + h] = two.y;
                }
            for (int j = 0; j < WN / MN; j++) {
                const int x = column + j * MN + side;
                double b_elements[2];

                for (int e = 0; e < 2; e++)
                    b_elements[e] = ((const double *)&of.b[b_index(q + 2 * t + e, x / V)])[x % V];
                for (int i = 0; i < WM / MM; i++)
                    ptx::mma_m16n8k8_f64(sum[i][j], a_elements[i], b_elements, sum[i][j]);
            }
        }
        now = 1 - now;
    }
#pragma unroll
    for (int i = 0; i < WM / MM; i++)
#pragma unroll
        for (int j = 0; j < WN / MN; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t y = at.row + row + i * MM + side + e / 2 * 8;
                const int64_t x = at.column + column + j * MN + t * 2 + e % 2;

                if (y < m && x < n)
                    c[y * n + x] = sum[i][j][e];
            }
}

cudaError_t launch_matmul_dmma(const matmul_args *args, cudaStream_t stream)
{
    const bool aligned =
        ((uintptr_t)args->a | (uintptr_t)args->b) % 16 == 0 && args->k % V == 0 && args->n % V == 0;
    const auto kernel = aligned ? matmul_dmma<true> : matmul_dmma<false>;

    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, 0, stream>>>((const double *)args->a + batch * args->a_batch_stride,
                                           (const double *)args->b + batch * args->b_batch_stride,
                                           (double *)args->c + batch * args->m * args->n, args->m, args->n,
                                           args->k, args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}
