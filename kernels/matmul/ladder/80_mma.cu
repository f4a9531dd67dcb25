// C = A @ B in float16 and bfloat16 on the tensor cores.
//
// The idea: one instruction, mma, multiplies 16 x 16 elements of A by 16 x 8 of B. The operands are in the
// registers of a whole warp, a few elements in each lane, and ldmatrix loads them from shared memory in this
// arrangement. Chunk c of row r, 16 bytes, is stored at c ^ r % 8: so the eight rows that ldmatrix reads together
// are in different banks, without padding. What the rung below wasted: each multiplication of two floats was an
// instruction of its own. Launch: blocks of 128 threads, one block per BM x BN tile of each C.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/ldmatrix.cuh"
#include "../../common/ptx/mma.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

constexpr int BM = 128, BN = 128, BK = 64; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int WM = 64, WN = 64;            // of a warp's tile of C
constexpr int BLOCK = BM / WM * (BN / WN) * 32;
constexpr int V = 8;                                // elements of a chunk
constexpr int MM = 16, MN = 8, MK = 16;             // of an mma
constexpr int A_CHUNKS = BK / V, B_CHUNKS = BN / V; // in a row of a tile

struct stage {
    uint4 a[BM * A_CHUNKS], b[BK * B_CHUNKS];
};

static __device__ inline int chunk_index(int row, int chunk, int chunks)
{
    return row * chunks + (chunk ^ row % 8);
}

// Starts the copies of ROWS rows of CHUNKS chunks of x, of which `rows` x `columns` elements are left; the others
// are filled with zeros. ALIGNED: chunks are whole, and begin at multiples of 16 bytes.
template <bool ALIGNED, int ROWS, int CHUNKS, class T>
static __device__ void load_tile(uint4 *tile, const T *x, int64_t pitch, int64_t rows, int64_t columns)
{
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int64_t left = row < rows ? columns - chunk * V : 0;
        const T *from = left > 0 ? x + row * pitch + chunk * V : x;
        uint4 *to = &tile[chunk_index(row, chunk, CHUNKS)];

        if (ALIGNED)
            __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
        else
            for (int e = 0; e < V; e++)
                ((T *)to)[e] = e < left ? from[e] : T(0);
    }
}

template <class T>
static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (std::is_same_v<T, __half>)
        ptx::mma_m16n8k16_f32_f16(sum, a, b, sum);
    else
        ptx::mma_m16n8k16_f32_bf16(sum, a, b, sum);
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK) matmul_mma(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,
                                                    int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    extern __shared__ __align__(16) unsigned char shared[];
    stage *stages = (stage *)shared; // one is multiplied while the other is filled

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN; // of the warp's tile
    float sum[WM / MM][WN / MN][4] = {};
    int now = 0;

    a += blockIdx.z * a_batch_stride + at.row * k; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + at.column;
    c += blockIdx.z * m * n;
    const auto load = [&](stage &to, int64_t p) {
        if (p < k) {
            load_tile<ALIGNED, BM, A_CHUNKS>(to.a, a + p, k, m - at.row, k - p);
            load_tile<ALIGNED, BK, B_CHUNKS>(to.b, b + p * n, n, k - p, n - at.column);
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
            uint32_t a_words[WM / MM][4], b_words[WN / MN][2];

            for (int i = 0; i < WM / MM; i++)
                ptx::ldmatrix_x4(
                    a_words[i],
                    &stages[now].a[chunk_index(row + i * MM + lane % 16, q / V + lane / 16, A_CHUNKS)]);
            for (int j = 0; j < WN / MN; j += 2) // two factors of 16 x 8
                ptx::ldmatrix_x4_trans(
                    (uint32_t(&)[4])b_words[j],
                    &stages[now].b[chunk_index(q + lane % 16, (column + j * MN) / V + lane / 16, B_CHUNKS)]);
            for (int i = 0; i < WM / MM; i++)
                for (int j = 0; j < WN / MN; j++)
                    multiply_add<T>(sum[i][j], a_words[i], b_words[j]);
        }
        now = 1 - now;
    }
#pragma unroll
    for (int i = 0; i < WM / MM; i++)
#pragma unroll
        for (int j = 0; j < WN / MN; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t y = at.row + row + i * MM + lane / 4 + e / 2 * 8;
                const int64_t x = at.column + column + j * MN + lane % 4 * 2 + e % 2;

                if (y < m && x < n)
                    c[y * n + x] = T(sum[i][j][e]);
            }
}

template <class T>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    const bool aligned =
        ((uintptr_t)args->a | (uintptr_t)args->b) % 16 == 0 && args->k % V == 0 && args->n % V == 0;
    const auto kernel = aligned ? matmul_mma<T, true> : matmul_mma<T, false>;
    constexpr int BYTES = 2 * sizeof(stage);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, BYTES, stream>>>((const T *)args->a + batch * args->a_batch_stride,
                                               (const T *)args->b + batch * args->b_batch_stride,
                                               (T *)args->c + batch * args->m * args->n, args->m, args->n, args->k,
                                               args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_matmul_mma(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16 ? launch<__half>(args, stream) : launch<__nv_bfloat16>(args, stream);
}
