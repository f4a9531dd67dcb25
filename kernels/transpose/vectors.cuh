// Vectors of 16 bytes: what the rungs have in common that move them.
//
// In global memory a vector lies at a multiple of 16, wherever the row begins that it is a piece of: a row is
// covered by the vectors that its bytes fall into, and only its first and its last may be there in part. In shared
// memory V rows of x, or columns, are a group; groups lie an odd number of vectors apart, so that the elements
// which 8 groups have at the same place of theirs are in different banks.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK_LOG2 = 8, BLOCK = 1 << BLOCK_LOG2;
constexpr int BLOCKS_AN_SM = THREADS_AN_SM / BLOCK;
constexpr int TILE_VECTORS = 1024;         // of a full tile
constexpr int VECTOR = 16;                 // bytes
constexpr int SPREAD = 8, LANES = 32;      // so many groups are read by a warp at once: 8 x 16 bytes are all banks
constexpr int ACROSS = LANES / SPREAD;     // and so many words of each
constexpr int64_t FEW_PLANES = UINT32_MAX; // which are counted in 32 bits

// elements of a vector, and elements that are side by side in what a thread reads of shared memory at once
template <class T>
struct pieces {
    static constexpr int V = VECTOR / sizeof(T), E = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
};

// where a matrix of a batch begins, in elements
struct plane {
    int64_t x, out;
};

template <class Index>
static __device__ plane find_plane(const transpose_args &args, Index batch)
{
    plane found = {0, 0};

    for (int d = args.batch_ndim - 1; d >= 0; d--) {
        const Index count = (Index)args.batch[d].count, at = d > 0 ? batch % count : batch;

        batch = d > 0 ? batch / count : 0;
        found.x += (int64_t)at * args.batch[d].x_step;
        found.out += (int64_t)at * args.batch[d].out_step;
    }
    return found;
}

static __device__ inline plane plane_of(const transpose_args &args, int64_t batch)
{
    return args.batches <= FEW_PLANES ? find_plane<uint32_t>(args, (uint32_t)batch)
                                      : find_plane<uint64_t>(args, (uint64_t)batch);
}

// whether every row of every matrix begins at a multiple of 16 bytes
static inline bool are_aligned(const void *array, int64_t pitch, const transpose_args *args,
                               int64_t batch_dimension::*step)
{
    bool aligned = (uintptr_t)array % VECTOR == 0 && pitch * args->element_size % VECTOR == 0;

    for (int d = 0; d < args->batch_ndim; d++)
        aligned = aligned && args->batch[d].*step * args->element_size % VECTOR == 0;
    return aligned;
}

// how many elements lie from x on without one among them that is none of x's; 0: there are gaps
static inline int64_t count_dense(const transpose_args *args)
{
    int64_t reach = args->columns + (args->rows - 1) * args->x_pitch;
    bool forward = args->rows == 1 || args->x_pitch > 0;

    for (int d = 0; d < args->batch_ndim; d++) {
        reach += (args->batch[d].count - 1) * args->batch[d].x_step;
        forward = forward && (args->batch[d].count == 1 || args->batch[d].x_step > 0);
    }
    return forward && reach == args->batches * args->rows * args->columns ? reach : 0;
}

// how many elements behind a multiple of 16 bytes this one lies
template <class T>
static __device__ int elements_past(const T *element)
{
    return (int)((uintptr_t)element % VECTOR / sizeof(T));
}

// element j of a vector in words; j is known where this is compiled
static __device__ inline void put(uint32_t (&words)[4], int j, uint8_t element)
{
    words[j / 4] |= (uint32_t)element << j % 4 * 8;
}

static __device__ inline void put(uint32_t (&words)[4], int j, uint16_t element)
{
    words[j / 2] |= (uint32_t)element << j % 2 * 16;
}

static __device__ inline void put(uint32_t (&words)[4], int j, uint32_t element)
{
    words[j] = element;
}

static __device__ inline void put(uint32_t (&words)[4], int j, uint64_t element)
{
    words[2 * j] = (uint32_t)element;
    words[2 * j + 1] = (uint32_t)(element >> 32);
}

static __device__ inline void put(uint32_t (&words)[4], int, uint4 element)
{
    words[0] = element.x;
    words[1] = element.y;
    words[2] = element.z;
    words[3] = element.w;
}

// the 16 bytes from byte `bytes` of low and high on; bytes: [0, 16), a multiple of SIZE
template <int SIZE>
static __device__ uint4 extracted(uint4 low, uint4 high, int bytes)
{
    uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};

    if (bytes & 8)
#pragma unroll
        for (int i = 0; i < 6; i++)
            w[i] = w[i + 2];
    if (SIZE <= 4 && bytes & 4)
#pragma unroll
        for (int i = 0; i < 5; i++)
            w[i] = w[i + 1];
    if (SIZE < 4)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = __funnelshift_r(w[i], w[i + 1], bytes % 4 * 8);
    return {w[0], w[1], w[2], w[3]};
}

// Square blocks of E x E elements turned inside of words: words[j], of row j, has the elements of E columns, and
// vectors[e] has the elements of column e of all V rows.
static __device__ inline void turn(const uint32_t (&words)[16], uint4 (&vectors)[4], uint8_t)
{
    uint32_t turned[4][4]; // [column][row / 4]

#pragma unroll
    for (int b = 0; b < 4; b++) {
        const uint32_t *w = words + 4 * b;
        const uint32_t low01 = __byte_perm(w[0], w[1], 0x5140), low23 = __byte_perm(w[2], w[3], 0x5140);
        const uint32_t high01 = __byte_perm(w[0], w[1], 0x7362), high23 = __byte_perm(w[2], w[3], 0x7362);

        turned[0][b] = __byte_perm(low01, low23, 0x5410);
        turned[1][b] = __byte_perm(low01, low23, 0x7632);
        turned[2][b] = __byte_perm(high01, high23, 0x5410);
        turned[3][b] = __byte_perm(high01, high23, 0x7632);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        vectors[e] = {turned[e][0], turned[e][1], turned[e][2], turned[e][3]};
}

static __device__ inline void turn(const uint32_t (&w)[8], uint4 (&vectors)[2], uint16_t)
{
    vectors[0] = {__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                  __byte_perm(w[4], w[5], 0x5410), __byte_perm(w[6], w[7], 0x5410)};
    vectors[1] = {__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632),
                  __byte_perm(w[4], w[5], 0x7632), __byte_perm(w[6], w[7], 0x7632)};
}

// larger elements are the words
template <class T, int V>
static __device__ void turn(const T (&elements)[V], uint4 (&vectors)[1], T)
{
    uint32_t words[4] = {};

#pragma unroll
    for (int j = 0; j < V; j++)
        put(words, j, elements[j]);
    vectors[0] = {words[0], words[1], words[2], words[3]};
}

// The first of E columns from which a thread makes vectors, and whether these have no element outside of out.
static __device__ bool is_inside(const transpose_args &args, int64_t column, int columns, int64_t row, int rows)
{
    return column + columns <= args.columns && row + rows <= args.rows;
}

// What of a vector is inside of out: V elements of its row `column`, from column `row` on.
template <class T, class F>
static __device__ void store_some(const transpose_args &args, T *out, int64_t column, int64_t row, F element)
{
#pragma unroll 1
    for (int j = 0; j < pieces<T>::V; j++)
        if (column < args.columns && row + j < args.rows)
            out[column * args.out_pitch + row + j] = element(j);
}
