// A warpgroup's part of a tile of C, for wgmma: the products and the sums.
//
// Of 16 bits, wgmma reads both operands from shared memory, and transposes B's on the way. It transposes no other
// elements, but wants its second operand's rows along k. A has such rows, and B has not. So products in TF32 and
// of bytes are turned around: C^T = B^T @ A^T. The second operand is A; the first, B^T, comes from registers,
// where lanes may load B's elements in any order. They load neighbours in a row of B, for two products that take
// turns with C's columns, so that they have neighbours of C in the end.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "../common/grid.cuh"
#include "../common/ptx/wgmma.cuh"
#include "bytes.cuh"
#include "tiles.cuh"

constexpr int MM = 64;                // rows of a wgmma's first operand
constexpr int GROUP = 128, WARP = 32; // threads

static __device__ inline int lane()
{
    return threadIdx.x % WARP;
}

static __device__ inline int warp_of_group()
{
    return threadIdx.x % GROUP / WARP;
}

// ROWS x COLUMNS of C, in 16 bits.
template <class T, int ROWS_, int COLUMNS_>
struct straight_part {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_;
    static constexpr int NEIGHBOURS = 2; // in a row of C, that a thread has
    static constexpr int PENDING = 1;    // groups of products in flight when the next one's are started
    static constexpr int MK = 16;        // of a wgmma
    using Sum = float;

    Sum sum[ROWS / MM][COLUMNS / 2];

    // Starts a group of products, of rows of A's tile and panels of B's. `add`: otherwise they begin the sums.
    __device__ void multiply(const T (*a)[BK<T>], const T (*b)[BK<T>][BK<T>], bool add)
    {
        ptx::wgmma_fence();
#pragma unroll
        for (int q = 0; q < BK<T>; q += MK)
#pragma unroll
            for (int i = 0; i < ROWS / MM; i++)
                ptx::wgmma_mma_async<false, true>(sum[i], ptx::wgmma_descriptor(&a[i * MM][q]),
                                                  ptx::wgmma_descriptor(b[0][q], sizeof b[0]), add || q > 0, T());
        ptx::wgmma_commit_group();
    }

    // After the wait for all products: the sums may be read.
    __device__ void fence()
    {
        for (auto &of_product : sum)
            ptx::wgmma_fence_registers(of_product);
    }

    // Calls store(row, column, sums of neighbours) for all that the thread has.
    template <class Store>
    __device__ void for_each(Store store) const
    {
#pragma unroll
        for (int i = 0; i < ROWS / MM; i++)
#pragma unroll
            for (int e = 0; e < COLUMNS / 2; e += 2) {
                const Sum pair[NEIGHBOURS] = {sum[i][e], sum[i][e + 1]};

                store(i * MM + warp_of_group() * 16 + lane() / 4 + e / 2 % 2 * 8, e / 4 * 8 + lane() % 4 * 2,
                      pair);
            }
    }
};

// What a lane loads for the first operands of two products: pairs of neighbours in MK rows of B's panels, from row
// q on, one column for each product. Lanes read rows q + {0, 5, 2, 7}, and then the others: as the TMA stores them
// they are in different banks.
struct fragment_pairs {
    float2 pair[2][2]; // half of a warp's 16 columns, turn of rows

    __device__ void load(const float (*b)[BK<float>][BK<float>], int q)
    {
        const bool odd = lane() % 2;

#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int k = q + lane() % 4 + (i ^ odd) * 4, x = half * 16 + lane() / 4 * 2;

                pair[half][i] = *(const float2 *)&b[warp_of_group()][k][x ^ k % 8 * 4];
            }
    }

    // Keeps the compiler from moving uses of what is loaded across this.
    __device__ void fence()
    {
        for (auto &of_half : pair)
            for (float2 &x : of_half)
                asm volatile("" : "+f"(x.x), "+f"(x.y)::"memory");
    }

    __device__ void order(uint32_t (&words)[2][4]) const
    {
        const bool odd = lane() % 2;

#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                words[0][i * 2 + half] = __float_as_uint(i ^ odd ? pair[half][1].x : pair[half][0].x);
                words[1][i * 2 + half] = __float_as_uint(i ^ odd ? pair[half][1].y : pair[half][0].y);
            }
    }
};

static __device__ inline void load_fragments(uint32_t (&words)[2][4], const float (*b)[BK<float>][BK<float>],
                                             int q)
{
    fragment_pairs pairs;

    pairs.load(b, q);
    pairs.order(words);
}

// The same of bytes: lanes have words of four rows, and exchange their bytes for words of four neighbours along k.
template <class T>
static __device__ inline void load_fragments(uint32_t (&words)[2][4], const T (*b)[BK<T>][BK<T>], int q)
{
    const int turn = lane() & 2; // the order of rows in which those that lanes read are in different banks

#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t rows[4], columns[4];

#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int k = q + i * 16 + lane() % 4 * 4 + (r ^ turn), x = warp_of_group() * WARP + lane() / 4 * 4;

            rows[r] = *(const uint32_t *)&b[0][k][x ^ k % 8 * 16];
        }
        const uint32_t in_order[4] = {turn ? rows[2] : rows[0], turn ? rows[3] : rows[1], turn ? rows[0] : rows[2],
                                      turn ? rows[1] : rows[3]};

        transpose_bytes(columns, in_order);
        for (int c = 0; c < 4; c++)
            words[c % 2][i * 2 + c / 2] = columns[c];
    }
}

// ROWS x 128 of C, in TF32 or of bytes: a product has every other column of each warp's 32.
template <class T, int ROWS_ = 128>
struct turned_part {
    static constexpr bool BYTES = sizeof(T) == 1;
    static constexpr int ROWS = ROWS_, COLUMNS = 128, NEIGHBOURS = BYTES ? 4 : 2;
    static constexpr int PENDING = 0; // the registers of the first operands are needed
    static constexpr int MK = 32 / (int)sizeof(T);
    using Sum = std::conditional_t<BYTES, uint32_t, float>;

    Sum sum[COLUMNS / MM][ROWS / 2];

    __device__ void multiply(const T (*a)[BK<T>], const T (*b)[BK<T>][BK<T>], bool add)
    {
        uint32_t words[BK<T> / MK][COLUMNS / MM][4];

#pragma unroll
        for (int i = 0; i < BK<T> / MK; i++)
            load_fragments(words[i], b, i * MK);
        multiply_loaded(words, a, add);
    }

    // The same with the first operands.
    __device__ void multiply_loaded(uint32_t (&words)[BK<T> / MK][COLUMNS / MM][4], const T (*a)[BK<T>], bool add)
    {
        for (auto &of_products : words)
            for (auto &of_product : of_products)
                ptx::wgmma_fence_registers(of_product);
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < BK<T> / MK; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS / MM; j++)
                ptx::wgmma_mma_async(sum[j], words[i][j], ptx::wgmma_descriptor(&a[0][i * MK]), add || i > 0, T());
        ptx::wgmma_commit_group();
    }

    __device__ void fence()
    {
        for (auto &of_product : sum)
            ptx::wgmma_fence_registers(of_product);
    }

    template <class Store>
    __device__ void for_each(Store store) const
    {
#pragma unroll
        for (int e = 0; e < ROWS / 2; e += BYTES && e % 2 ? 3 : 1) { // of bytes, e + 2 is two columns further
            const int row = e / 4 * 8 + lane() % 4 * 2 + e % 2;
            const int column = warp_of_group() * WARP + lane() / 4 * NEIGHBOURS + (BYTES ? 0 : e / 2 % 2 * 16);
            Sum elements[NEIGHBOURS];

            for (int i = 0; i < NEIGHBOURS; i++)
                elements[i] = sum[i % 2][e + i / 2 * 2];
            store(row, column, elements);
        }
    }
};

template <class T, int ROWS, int COLUMNS>
using part_of = std::conditional_t<sizeof(T) == 2, straight_part<T, ROWS, COLUMNS>, turned_part<T>>;

// Neighbours in a row of C, stored together
template <class T, int N>
struct alignas(N * sizeof(T)) neighbours {
    T element[N];
};

// Stores the sums of a part that begins at a corner of c (m, n).
template <class Part, class C>
static __device__ void store_sums(C *c, const Part &part, corner at, int64_t m, int64_t n)
{
    constexpr int N = Part::NEIGHBOURS;
    const bool whole = n % N == 0 && (uintptr_t)c % sizeof(neighbours<C, N>) == 0;

    part.for_each([&](int row, int column, const typename Part::Sum(&sums)[N]) {
        const int64_t y = at.row + row, x = at.column + column;
        neighbours<C, N> elements;

        for (int i = 0; i < N; i++)
            elements.element[i] = C(sums[i]);
        if (y >= m || x >= n)
            return;
        if (whole)
            *(neighbours<C, N> *)&c[y * n + x] = elements;
        else
            for (int i = 0; i < N && x + i < n; i++)
                c[y * n + x + i] = elements.element[i];
    });
}

// Calls f(an element of A and B, one of C) with the types of a product.
template <class F>
[[nodiscard]] static cudaError_t with_element_types(const matmul_args *args, F f)
{
    const bool wide = args->dtype & (INT32 | UINT32);

    switch (args->operands) {
    case FLOAT16:
        return f(__half(), __half());
    case BFLOAT16:
        return f(__nv_bfloat16(), __nv_bfloat16());
    case INT8:
        return wide ? f(int8_t(), int32_t()) : f(int8_t(), int8_t());
    case UINT8:
        return wide ? f(uint8_t(), uint32_t()) : f(uint8_t(), uint8_t());
    default:
        return f(float(), float());
    }
}
