// C = A @ B in float16, bfloat16 and float64, and of float32 in TF32, on the tensor cores, for operands of any
// size and strides: what the rung `mma` leads to.
//
// The idea: as there, a warp multiplies with mma what ldmatrix brings from shared memory, while the next tiles are
// in flight. A tile keeps the direction in which its operand is contiguous. If its rows are across k, ldmatrix
// transposes; it can do so for 16-bit elements only, so threads read larger elements one by one. Where chunks of
// 16 bytes are not aligned, or not contiguous, elements are copied one by one. Beyond the edges tiles are filled
// with zeros.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdlib>

#include "../../common/ptx/ldmatrix.cuh"
#include "../../common/ptx/mma.cuh"
#include "product.cuh"
#include "register_tile.cuh"

// BM x BN elements of C per block, WM x WN of them per warp; BK along k in a pair of tiles.
template <class T, int BM_, int BN_, int WM_, int WN_, int STAGES_, int MIN_BLOCKS_>
struct mma_tile {
    using Element = T;
    static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, V = 16 / sizeof(T); // V: elements of a chunk
    static constexpr int BK = 8 * V;                                                 // of a tile, along k
    static constexpr int STAGES = STAGES_, MIN_BLOCKS = MIN_BLOCKS_, BLOCK = BM / WM * (BN / WN) * 32;
    static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 16 == 0, "whole warps, whole fragments");

    uint4 a[BM * BK / V], b[BN * BK / V];
};

// The layout of an operand, seen as (sides, k), in its tiles, and how it is copied to them.
struct mma_layout {
    bool along_k; // the rows of its tiles are along k, and not across it
    bool chunks;  // 16 bytes at a time, or element by element
};

// A tile of an operand in shared memory. Chunk c of row r is stored at c ^ r % 8: the eight rows that ldmatrix
// reads together, and the chunks that a warp stores together, are in different banks. Where threads read single
// elements, it is c ^ 2 r % 8: a warp, or half of it in float64, reads two chunks of four rows.
template <class T, int SIDE, int BK, bool ALONG_K>
struct operand_tile {
    static constexpr int V = 16 / sizeof(T), ROWS = ALONG_K ? SIDE : BK, CHUNKS = (ALONG_K ? BK : SIDE) / V;
    static_assert(CHUNKS % 8 == 0, "the swizzle permutes eight chunks");

    static __device__ int index(int row, int chunk)
    {
        return row * CHUNKS + (chunk ^ ((ALONG_K && V > 2) || V == 8 ? row : 2 * row) % 8);
    }

    static __device__ T element(const uint4 *tile, int side, int k)
    {
        const int row = ALONG_K ? side : k, column = ALONG_K ? k : side;

        return ((const T *)&tile[index(row, column / V)])[column % V];
    }

    // 16 rows (or columns) and 32 bytes along k, at (side, k): the four words of mma's first operand. Its second
    // operand, of 8 columns, consists of the words 0 and 2, or 1 and 3
    static __device__ void load_fragment(uint32_t (&words)[4], const uint4 *tile, int side, int k)
    {
        const int lane = threadIdx.x % 32;

        if (ALONG_K)
            ptx::ldmatrix_x4(words, &tile[index(side + lane % 16, k / V + lane / 16)]);
        else if (V == 8)
            ptx::ldmatrix_x4_trans(words, &tile[index(k + lane % 8 + lane / 16 * 8, side / V + lane / 8 % 2)]);
        else
            for (int w = 0; w < 4; w++) {
                const int row = k + w / 2 * 4 + lane % 4, column = side + w % 2 * 8 + lane / 4;

                words[w] = ((const uint32_t *)&tile[index(row, column / V)])[column % V];
            }
    }

    // Starts to copy a tile whose first element is x[0], and of which `sides` x `depth` elements are left.
    template <int BLOCK>
    static __device__ void copy(uint4 *tile, const T *x, const strided_matrix<T> &strides, bool chunks,
                                int64_t sides, int depth)
    {
        const int64_t from_row = ALONG_K ? strides.row_stride : strides.column_stride;
        const int64_t from_element = ALONG_K ? strides.column_stride : strides.row_stride;
        const int64_t rows = ALONG_K ? sides : depth, columns = ALONG_K ? depth : sides;

#pragma unroll 4
        for (int s = 0; s < ROWS * CHUNKS / BLOCK; s++) {
            const int i = threadIdx.x + s * BLOCK, row = i / CHUNKS, chunk = i % CHUNKS;
            const int64_t left = row < rows ? columns - chunk * V : 0;
            const T *from = left > 0 ? x + row * from_row + chunk * V * from_element : x;
            uint4 *to = &tile[index(row, chunk)];

            if (chunks)
                __pipeline_memcpy_async(to, from, 16, left > 0 ? 0 : 16);
            else
                copy_elements((pack<T, V> *)to, from, from_element, left);
        }
    }

    static __device__ void copy_elements(pack<T, V> *to, const T *from, int64_t stride, int64_t left)
    {
        pack<T, V> elements;

        for (int e = 0; e < V; e++)
            elements.element[e] = e < left ? from[e * stride] : T(0);
        *to = elements;
    }
};

// One product per pair of elements; those of float32 are rounded to TF32.
template <class T>
struct single_products {
    using Sum = float;
    static constexpr int DEPTH = 32 / sizeof(T);       // of k, in a step
    static constexpr int STEPS_AT_ONCE = 4, FLUSH = 0; // 0: one sum for all of k
    static constexpr bool MAY_FAIL = false;

    static __device__ void multiply_add(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
    {
        if constexpr (std::is_same_v<T, __half>)
            ptx::mma_m16n8k16_f32_f16(sum, a, b, sum);
        else if constexpr (std::is_same_v<T, float>)
            ptx::mma_m16n8k8_f32_tf32(sum, a, b, sum);
        else
            ptx::mma_m16n8k16_f32_bf16(sum, a, b, sum);
    }

    template <class Tile>
    static __device__ void load(uint32_t (&words)[4], const uint4 *tile, int side, int k)
    {
        Tile::load_fragment(words, tile, side, k);
        if constexpr (std::is_same_v<T, float>)
            for (int w = 0; w < 4; w++)
                words[w] = ptx::cvt_rna_tf32_f32(__uint_as_float(words[w]));
    }

    // Adds a step's products, of rows from `row` and columns from `column` on, to the sums of the warp's tile.
    template <class ATile, class BTile, int M, int N>
    __device__ void step(const uint4 *a, const uint4 *b, int row, int column, int k, float (&sum)[M][N][4])
    {
        uint32_t a_words[M][4];

        for (int i = 0; i < M; i++)
            load<ATile>(a_words[i], a, row + i * 16, k);
        for (int j = 0; j < N; j += 2) {
            uint32_t words[4];

            load<BTile>(words, b, column + j * 8, k);
            for (int i = 0; i < M; i++)
                for (int h = 0; h < 2; h++)
                    multiply_add(sum[i][j + h], a_words[i], {words[h], words[h + 2]});
        }
    }
};

template <>
struct single_products<double> {
    using Sum = double;
    static constexpr int DEPTH = 8, STEPS_AT_ONCE = 1, FLUSH = 0;
    static constexpr bool MAY_FAIL = false;

    template <class ATile, class BTile, int M, int N>
    __device__ void step(const uint4 *a, const uint4 *b, int row, int column, int k, double (&sum)[M][N][4])
    {
        const int lane = threadIdx.x % 32, side = lane / 4, depth = k + lane % 4;
        double a_elements[M][4];

        for (int i = 0; i < M; i++)
            for (int e = 0; e < 4; e++)
                a_elements[i][e] = ATile::element(a, row + i * 16 + e % 2 * 8 + side, depth + e / 2 * 4);
        for (int j = 0; j < N; j++) {
            const double b_elements[2] = {BTile::element(b, column + j * 8 + side, depth),
                                          BTile::element(b, column + j * 8 + side, depth + 4)};

            for (int i = 0; i < M; i++)
                ptx::mma_m16n8k8_f64(sum[i][j], a_elements[i], b_elements, sum[i][j]);
        }
    }
};

// The dot product of row y of a and column x of b, for k from `begin` on.
template <class T>
static __device__ float plain_sum(const product<T> &p, int64_t batch, int64_t y, int64_t x, int64_t begin,
                                  int length)
{
    const T *a = p.a.data + batch * p.a.batch_stride + y * p.a.row_stride + begin * p.a.column_stride;
    const T *b = p.b.data + batch * p.b.batch_stride + begin * p.b.row_stride + x * p.b.column_stride;
    float sum = 0;

    for (int q = 0; q < length; q++)
        sum += float(a[q * p.a.column_stride]) * float(b[q * p.b.row_stride]);
    return sum;
}

// Recomputes, one by one, the elements of a block's tile of c whose row or column has `failed`.
template <class Tile, class T, class Out>
static __device__ void store_plain_sums(Out *c, const product<T> &p, int64_t batch, corner at, int64_t begin,
                                        int length, const unsigned *failed_rows, const unsigned *failed_columns)
{
    for (int e = threadIdx.x; e < Tile::BM * Tile::BN; e += Tile::BLOCK) {
        const int row = e / Tile::BN, column = e % Tile::BN;
        const int64_t y = at.row + row, x = at.column + column;

        if ((failed_rows[row] || failed_columns[column]) && y < p.m && x < p.n)
            c[y * p.n + x] = Out(plain_sum(p, batch, y, x, begin, length));
    }
}

// Stores a thread's sums in c (m, n), or adds them to c if `more`. The thread's first pair of neighbours in a row
// is at `first`. `pairs`: rows begin at multiples of a pair.
template <class Out, class Sum, int M, int N>
static __device__ void store_sums(Out *c, int64_t m, int64_t n, corner first, bool pairs, bool more,
                                  Sum (&sum)[M][N][4])
{
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int64_t y = first.row + i * 16 + h * 8, x = first.column + j * 8, left = y < m ? n - x : 0;
                const Sum *pair = &sum[i][j][2 * h];
                Out *to = c + y * n + x;

                if (pairs && left > 0) {
                    pack<Out, 2> *both = (pack<Out, 2> *)to,
                                 old = more ? *both : pack<Out, 2>{{Out(-0.f), Out(-0.f)}};

                    *both = {{Out(Sum(old.element[0]) + pair[0]), Out(Sum(old.element[1]) + pair[1])}};
                } else {
                    for (int e = 0; e < 2 && e < left; e++)
                        to[e] = Out((more ? Sum(to[e]) : Sum(-0.)) + pair[e]);
                }
            }
}

template <class Tile, class Products, bool A_ALONG_K, bool B_ALONG_K, class T>
static __global__ void __launch_bounds__(Tile::BLOCK, Tile::MIN_BLOCKS)
    matmul_mma(const product<T> p, bool a_chunks, bool b_chunks, bool pairs, int64_t first_slice, corner first)
{
    constexpr int BM = Tile::BM, BN = Tile::BN, BK = Tile::BK, WM = Tile::WM, WN = Tile::WN;
    constexpr int STAGES = Tile::STAGES;
    using a_tile = operand_tile<T, BM, BK, A_ALONG_K>;
    using b_tile = operand_tile<T, BN, BK, B_ALONG_K>;
    extern __shared__ __align__(16) unsigned char shared[];
    Tile *stages = (Tile *)shared;

    const corner at = block_tile_origin(first, BM, BN);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM, column = warp % (BN / WN) * WN;
    const int64_t z = first_slice + blockIdx.z, batch = z / p.slices, begin = z % p.slices * p.k_per_slice;
    const int length = (int)(min(begin + p.k_per_slice, p.k) - begin);
    const strided_matrix<T> b = p.b.transposed();
    typename Products::Sum sum[WM / 16][WN / 8][4] = {};
    Products products;
    int now = 0, loaded = 0;

    pdl_wait();
    const T *next_a = p.a.data + batch * p.a.batch_stride + at.row * p.a.row_stride + begin * p.a.column_stride;
    const T *next_b = b.data + batch * b.batch_stride + at.column * b.row_stride + begin * b.column_stride;
    const auto load_next = [&](Tile &stage) {
        if (loaded < length) {
            const int depth = min(length - loaded, BK);

            a_tile::template copy<Tile::BLOCK>(stage.a, next_a, p.a, a_chunks, p.m - at.row, depth);
            b_tile::template copy<Tile::BLOCK>(stage.b, next_b, b, b_chunks, p.n - at.column, depth);
            next_a += BK * p.a.column_stride;
            next_b += BK * b.column_stride;
        }
        loaded += BK;
        __pipeline_commit();
    };

    accumulator_type<T> *const partial = p.slices > 1 ? p.partial + z * p.m * p.n : nullptr;
    T *const c = p.c + batch * p.m * p.n;
    const auto store = [&](bool more) {
        const corner first = {at.row + row + opaque(lane) / 4, at.column + column + opaque(lane) % 4 * 2};

        if (partial)
            store_sums(partial, p.m, p.n, first, pairs, more, sum);
        else
            store_sums(c, p.m, p.n, first, pairs, more, sum);
    };

    for (int s = 0; s < STAGES - 1; s++)
        load_next(stages[s]);
    for (int done = 0; done < length; done += BK) {
        __pipeline_wait_prior(STAGES - 2); // this thread's copies of the pair are complete,
        __syncthreads();                   // and so are all threads'; the stage before this one is free
        load_next(stages[now ? now - 1 : STAGES - 1]);

        if constexpr (Products::FLUSH > 0)
            if (done > 0 && done % Products::FLUSH == 0) {
                store(done > Products::FLUSH);
                memset(sum, 0, sizeof sum);
            }
#pragma unroll(Products::STEPS_AT_ONCE)
        for (int q = 0; q < BK; q += Products::DEPTH)
            products.template step<a_tile, b_tile>(stages[now].a, stages[now].b, row, column, q, sum);
        now = now + 1 < STAGES ? now + 1 : 0;
    }

    store(Products::FLUSH > 0 && length > Products::FLUSH);
    if constexpr (Products::MAY_FAIL)
        if (__syncthreads_or(products.failed())) {
            unsigned *failed = (unsigned *)shared; // of BM rows and BN columns

            for (int e = threadIdx.x; e < BM + BN; e += Tile::BLOCK)
                failed[e] = 0;
            __syncthreads(); // all are 0 before some become 1
            products.mark_failed(failed + row, failed + BM + column);
            __syncthreads(); // all are marked before they are read
            if (partial)
                store_plain_sums<Tile>(partial, p, batch, at, begin, length, failed, failed + BM);
            else
                store_plain_sums<Tile>(c, p, batch, at, begin, length, failed, failed + BM);
        }
}

template <class T>
static mma_layout tile_layout_of(const strided_matrix<T> &x, int64_t sides, int64_t k)
{
    constexpr int V = 16 / sizeof(T);
    const bool along_k = has_packs<V>(x, k, true), across_k = has_packs<V>(x.transposed(), sides, true);

    return {along_k || (!across_k && std::abs(x.column_stride) < std::abs(x.row_stride)), along_k || across_k};
}

// Launches the kernel on tiles of type Tile.
template <class Tile, class Products, bool A_ALONG_K, bool B_ALONG_K, class T>
[[nodiscard]] static cudaError_t launch_mma(const product<T> &p, bool a_chunks, bool b_chunks, cudaStream_t stream)
{
    constexpr int BYTES = Tile::STAGES * (int)sizeof(Tile);
    constexpr auto KERNEL = matmul_mma<Tile, Products, A_ALONG_K, B_ALONG_K, T>;
    const bool pairs = p.n % 2 == 0 && (uintptr_t)p.c % (2 * sizeof(T)) == 0;

    if (cudaError_t error = allow_shared_bytes<KERNEL>(BYTES))
        return error;
    return cover(p.batches * p.slices, p.m, p.n, Tile::BM, Tile::BN,
                 [&](dim3 grid, int64_t first_slice, corner first) {
                     return launch<KERNEL>(grid, Tile::BLOCK, BYTES, stream, p, a_chunks, b_chunks, pairs,
                                           first_slice, first);
                 });
}

// Launches the kernel for the operands' layouts.
template <class Tile, class Products>
[[nodiscard]] static cudaError_t launch_mma(const matmul_args *args, cudaStream_t stream)
{
    using T = typename Tile::Element;
    const product<T> p = product_of<T>(args);
    const mma_layout a = tile_layout_of(p.a, p.m, p.k), b = tile_layout_of(p.b.transposed(), p.n, p.k);
    const auto multiply = a.along_k   ? b.along_k ? launch_mma<Tile, Products, true, true, T>
                                                  : launch_mma<Tile, Products, true, false, T>
                            : b.along_k ? launch_mma<Tile, Products, false, true, T>
                                      : launch_mma<Tile, Products, false, false, T>;

    return multiply_and_add_slices(p, stream, [&] { return multiply(p, a.chunks, b.chunks, stream); });
}

// Launches the kernel for the operands' dtype.
template <template <class T> class Tile>
[[nodiscard]] static cudaError_t launch_mma_of_dtype(const matmul_args *args, cudaStream_t stream)
{
    return args->dtype == FLOAT16   ? launch_mma<Tile<__half>, single_products<__half>>(args, stream)
           : args->dtype == FLOAT32 ? launch_mma<Tile<float>, single_products<float>>(args, stream)
           : args->dtype == FLOAT64
               ? launch_mma<Tile<double>, single_products<double>>(args, stream)
               : launch_mma<Tile<__nv_bfloat16>, single_products<__nv_bfloat16>>(args, stream);
}
