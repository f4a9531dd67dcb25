// C = A @ B in float16, bfloat16 and TF32 on the tensor cores.
//
// The idea: one instruction, mma, multiplies 16 x 16 elements of A by 16 x 8 of B; of float32, which it takes as
// TF32, with 11 significant bits, half as many. The operands are in the registers of a whole warp, a few elements
// in each lane, and ldmatrix loads them from shared memory in this arrangement. Chunk c of row r, 16 bytes, is
// stored at c ^ r % 8: so the eight rows that ldmatrix reads together are in different banks, without padding.
// ldmatrix transposes elements of 16 bits only: lanes load the floats of B themselves, from two chunks of four
// rows, which c ^ 2 r % 8 puts in different banks. What the rung below wasted: each multiplication of two floats
// was an instruction of its own. Launch: blocks of 128 threads, one block per BM x BN tile of each C.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/ldmatrix.cuh"
#include "../../common/ptx/mma.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

constexpr int BM = 128, BN = 128; // of a block's tile of C
constexpr int WM = 64, WN = 64;   // of a warp's tile of C
constexpr int BLOCK = BM / WM * (BN / WN) * 32;
constexpr int MM = 16, MN = 8; // of an mma

template <class T>
struct mma_tiles {
    static constexpr int V = 16 / sizeof(T);                   // elements of a chunk
    static constexpr int BK = 8 * V, MK = 2 * V;               // along k: of the tiles, and of an mma
    static constexpr int A_CHUNKS = BK / V, B_CHUNKS = BN / V; // in a row of a tile

    uint4 a[BM * A_CHUNKS], b[BK * B_CHUNKS];

    static __device__ int a_index(int row, int chunk)
    {
        return row * A_CHUNKS + (chunk ^ row % 8);
    }

    static __device__ int b_index(int row, int chunk)
    {
        return row * B_CHUNKS + (chunk ^ (sizeof(T) == 4 ? 2 * row : row) % 8);
    }
};

// Starts the copies of ROWS rows of CHUNKS chunks of x, of which `rows` x `columns` elements are left; the others
// are filled with zeros. ALIGNED: chunks are whole, and begin at multiples of 16 bytes.
template <bool ALIGNED, int ROWS, int CHUNKS, class T, class Index>
static __device__ void load_tile(uint4 *tile, Index index, const T *x, int64_t pitch, int64_t rows,
                                 int64_t columns)
{
    constexpr int V = mma_tiles<T>::V;

    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int64_t left = row < rows ? columns - chunk * V : 0;
        const T *from = left > 0 ? x + row * pitch + chunk * V : x;
        uint4 *to = &tile[index(row, chunk)];

        if (ALIGNED)
            __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
        else
            for (int e = 0; e < V; e++)
                ((T *)to)[e] = e < left ? from[e] : T(0);
    }
}

// The second operands of two mma, MK elements of k by 8 columns each, at (k, column) of a tile of B.
template <class T>
static __device__ void load_b(uint32_t (&words)[2][2], const uint4 *b, int k, int column)
{
    using stage = mma_tiles<T>;
    const int lane = threadIdx.x % 32;

    if constexpr (sizeof(T) == 2)
        ptx::ldmatrix_x4_trans((uint32_t(&)[4])words,
                               &b[stage::b_index(k + lane % 16, column / stage::V + lane / 16)]);
    else
        for (int j = 0; j < 2; j++)
            for (int w = 0; w < 2; w++) {
                const int x = column + j * MN + lane / 4;
                const uint4 &chunk = b[stage::b_index(k + w * 4 + lane % 4, x / stage::V)];

                words[j][w] = ptx::cvt_rna_tf32_f32(((const float *)&chunk)[x % stage::V]);
            }
}

template <class T>
static __device__ void load_a(uint32_t (&words)[4], const uint4 *a, int row, int k)
{
    using stage = mma_tiles<T>;
    const int lane = threadIdx.x % 32;

    ptx::ldmatrix_x4(words, &a[stage::a_index(row + lane % 16, k / stage::V + lane / 16)]);
    if constexpr (sizeof(T) == 4)
        for (uint32_t &word : words)
            word = ptx::cvt_rna_tf32_f32(__uint_as_float(word));
}

template <class T>
static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (std::is_same_v<T, __half>)
        ptx::mma_m16n8k16_f32_f16(sum, a, b, sum);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        ptx::mma_m16n8k16_f32_bf16(sum, a, b, sum);
    else
        ptx::mma_m16n8k8_f32_tf32(sum, a, b, sum);
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK) matmul_mma(const T *a, const T *b, T *c, int64_t m, int64_t n, int64_t k,
                                                    int64_t a_batch_stride, int64_t b_batch_stride, corner first)
{
    using stage = mma_tiles<T>;
    constexpr int BK = stage::BK;
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
            load_tile<ALIGNED, BM, stage::A_CHUNKS>(to.a, stage::a_index, a + p, k, m - at.row, k - p);
            load_tile<ALIGNED, BK, stage::B_CHUNKS>(to.b, stage::b_index, b + p * n, n, k - p, n - at.column);
        }
        __pipeline_commit();
    };

    load(stages[0], 0);
    for (int64_t p = 0; p < k; p += BK) {
        __pipeline_wait_prior(0); // this thread's copies of the pair are complete,
        __syncthreads();          // and so are all threads'; the other stage is free
        load(stages[1 - now], p + BK);

#pragma unroll
        for (int q = 0; q < BK; q += stage::MK) {
            uint32_t a_words[WM / MM][4], b_words[WN / MN / 2][2][2];

            for (int i = 0; i < WM / MM; i++)
                load_a<T>(a_words[i], stages[now].a, row + i * MM, q);
            for (int j = 0; j < WN / MN; j += 2)
                load_b<T>(b_words[j / 2], stages[now].b, q, column + j * MN);
            for (int i = 0; i < WM / MM; i++)
                for (int j = 0; j < WN / MN; j++)
                    multiply_add<T>(sum[i][j], a_words[i], b_words[j / 2][j % 2]);
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
    constexpr int V = mma_tiles<T>::V, BYTES = 2 * sizeof(mma_tiles<T>);
    const bool aligned =
        ((uintptr_t)args->a | (uintptr_t)args->b) % 16 == 0 && args->k % V == 0 && args->n % V == 0;
    const auto kernel = aligned ? matmul_mma<T, true> : matmul_mma<T, false>;

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
    switch (args->dtype) {
    case FLOAT16:
        return launch<__half>(args, stream);
    case BFLOAT16:
        return launch<__nv_bfloat16>(args, stream);
    default:
        return launch<float>(args, stream);
    }
}
