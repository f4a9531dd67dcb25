// C = A @ B of 8-bit integers on the tensor cores; C's elements have 8 bits, or 32.
//
// The idea: as in the rung `mma`, but an mma of bytes multiplies 16 x 32 elements of A by 32 x 8 of B, and a word
// of B's fragment is four neighbours along k, which lie in four rows of B. No instruction transposes bytes. So a
// lane loads a word from each of four rows, and permutes 4 x 4 bytes: it has the fragments of four columns that
// are neighbours. That they are neighbours does not matter to mma: column i of the j-th of four mma is column 4 i
// + j of C, and each lane gets four neighbours of C in return, which it stores together. Chunk c of row r of B, 16
// bytes, is stored at c ^ 2 (r / 4 % 4): the four rows that a warp loads words from are in different banks.
// What the rung below cannot do: its products are of doubles. Launch: blocks of 128 threads, one block per BM x BN
// tile of each C.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/ptx/ldmatrix.cuh"
#include "../../common/ptx/mma.cuh"
#include "../bytes.cuh"
#include "kernels.h"

constexpr int BM = 128, BN = 128, BK = 128; // of a block's tiles: rows of A, columns of B, and both along k
constexpr int WM = 64, WN = 64;             // of a warp's tile of C
constexpr int BLOCK = BM / WM * (BN / WN) * 32;
constexpr int V = 16;                   // elements of a chunk
constexpr int MM = 16, MN = 8, MK = 32; // of an mma
constexpr int SET = 4;                  // mma whose columns take turns
constexpr int CHUNKS = BK / V;          // in a row of a tile
static_assert(BK == BN, "rows of both tiles have as many chunks");

struct imma_stage {
    uint4 a[BM * CHUNKS], b[BK * CHUNKS];
};

static __device__ inline int a_index(int row, int chunk)
{
    return row * CHUNKS + (chunk ^ row % 8);
}

static __device__ inline int b_index(int row, int chunk)
{
    return row * CHUNKS + (chunk ^ row / 4 % 4 * 2);
}

// Starts the copies of ROWS rows of x, of which `rows` x `columns` elements are left; the others are filled with
// zeros. ALIGNED: chunks are whole, and begin at multiples of 16 bytes.
template <bool ALIGNED, int ROWS, class In, class Index>
static __device__ void load_tile(uint4 *tile, Index index, const In *x, int64_t pitch, int64_t rows,
                                 int64_t columns)
{
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += BLOCK) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const int64_t left = row < rows ? columns - chunk * V : 0;
        const In *from = left > 0 ? x + row * pitch + chunk * V : x;
        uint4 *to = &tile[index(row, chunk)];

        if (ALIGNED)
            __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
        else
            for (int e = 0; e < V; e++)
                ((In *)to)[e] = e < left ? from[e] : In(0);
    }
}

// The second operands of a set of mma, at (k, column) of a tile of B.
static __device__ void load_b(uint32_t (&words)[SET][2], const uint4 *b, int k, int column)
{
    const int lane = threadIdx.x % 32, x = column + lane / 4 * SET;

    for (int half = 0; half < 2; half++) { // along k
        uint32_t rows[4], columns[SET];

        for (int r = 0; r < 4; r++)
            rows[r] = ((const uint32_t *)&b[b_index(k + half * 16 + lane % 4 * 4 + r, x / V)])[x % V / 4];
        transpose_bytes(columns, rows);
        for (int j = 0; j < SET; j++)
            words[j][half] = columns[j];
    }
}

template <class In>
static __device__ void multiply_add(int (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (std::is_same_v<In, int8_t>)
        ptx::mma_m16n8k32_s32_s8(sum, a, b, sum);
    else
        ptx::mma_m16n8k32_s32_u8(sum, a, b, sum);
}

// Neighbours in a row of C, stored together
template <class T>
struct alignas(SET * sizeof(T)) imma_neighbours {
    T element[SET];
};

template <class In, class T, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK)
    matmul_imma(const In *a, const In *b, T *c, int64_t m, int64_t n, int64_t k, int64_t a_batch_stride,
                int64_t b_batch_stride, corner first)
{
    extern __shared__ __align__(16) unsigned char shared[];
    imma_stage *stages = (imma_stage *)shared; // one is multiplied while the other is filled

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN; // of the warp's tile
    int sum[WM / MM][WN / MN / SET][SET][4] = {};
    int now = 0;

    a += blockIdx.z * a_batch_stride + at.row * k; // (m, k), (k, n), (m, n)
    b += blockIdx.z * b_batch_stride + at.column;
    c += blockIdx.z * m * n;
    const auto load = [&](imma_stage &to, int64_t p) {
        if (p < k) {
            load_tile<ALIGNED, BM>(to.a, a_index, a + p, k, m - at.row, k - p);
            load_tile<ALIGNED, BK>(to.b, b_index, b + p * n, n, k - p, n - at.column);
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
            uint32_t a_words[WM / MM][4], b_words[WN / MN / SET][SET][2];

            for (int i = 0; i < WM / MM; i++)
                ptx::ldmatrix_x4(a_words[i], &stages[now].a[a_index(row + i * MM + lane % 16, q / V + lane / 16)]);
            for (int s = 0; s < WN / MN / SET; s++)
                load_b(b_words[s], stages[now].b, q, column + s * SET * MN);
            for (int i = 0; i < WM / MM; i++)
                for (int s = 0; s < WN / MN / SET; s++)
                    for (int j = 0; j < SET; j++)
                        multiply_add<In>(sum[i][s][j], a_words[i], b_words[s][j]);
        }
        now = 1 - now;
    }
#pragma unroll
    for (int i = 0; i < WM / MM; i++)
#pragma unroll
        for (int s = 0; s < WN / MN / SET; s++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64_t y = at.row + row + i * MM + lane / 4 + e / 2 * 8;
                const int64_t x = at.column + column + (s * MN + lane % 4 * 2 + e % 2) * SET;
                imma_neighbours<T> elements;

                for (int j = 0; j < SET; j++)
                    elements.element[j] = T(sum[i][s][j][e]);
                if (y >= m || x >= n)
                    continue;
                if (ALIGNED)
                    *(imma_neighbours<T> *)&c[y * n + x] = elements;
                else
                    for (int j = 0; j < SET && x + j < n; j++)
                        c[y * n + x + j] = elements.element[j];
            }
}

template <class In, class T>
[[nodiscard]] static cudaError_t launch(const matmul_args *args, cudaStream_t stream)
{
    const bool aligned = ((uintptr_t)args->a | (uintptr_t)args->b | (uintptr_t)args->c) % 16 == 0 &&
                         args->k % V == 0 && args->n % V == 0;
    const auto kernel = aligned ? matmul_imma<In, T, true> : matmul_imma<In, T, false>;
    constexpr int BYTES = 2 * sizeof(imma_stage);

    if (cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES))
        return error;
    return cover(args->batches, args->m, args->n, BM, BN, [&](dim3 grid, int64_t batch, corner first) {
        kernel<<<grid, BLOCK, BYTES, stream>>>((const In *)args->a + batch * args->a_batch_stride,
                                               (const In *)args->b + batch * args->b_batch_stride,
                                               (T *)args->c + batch * args->m * args->n, args->m, args->n, args->k,
                                               args->a_batch_stride, args->b_batch_stride, first);
        return cudaGetLastError();
    });
}

cudaError_t launch_matmul_imma(const matmul_args *args, cudaStream_t stream)
{
    const bool wide = args->dtype & (INT32 | UINT32);

    if (args->operands == INT8)
        return wide ? launch<int8_t, int32_t>(args, stream) : launch<int8_t, int8_t>(args, stream);
    return wide ? launch<uint8_t, uint32_t>(args, stream) : launch<uint8_t, uint8_t>(args, stream);
}
