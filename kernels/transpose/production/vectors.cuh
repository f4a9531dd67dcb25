// 16-byte vectors: shared by the rungs that move them.
//
// Vectors are aligned to 16 bytes in global memory, whatever the alignment of the row: a row is covered by the
// vectors that contain its bytes, and only its first and last may be partial. In shared memory V rows (or columns)
// of x are a group; groups are an odd number of vectors apart, so that elements at the same position of 8 groups
// are in different banks.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK_LOG2 = 8, BLOCK = 1 << BLOCK_LOG2;
constexpr int BLOCKS_PER_SM = THREADS_PER_SM / BLOCK;
constexpr int MAX_TILE_VECTORS = 1024;            // vectors of a full tile
constexpr int VECTOR = 16;                        // bytes
constexpr int GROUPS_PER_REQUEST = 8, LANES = 32; // groups that a warp reads at once: 8 x 16 bytes cover all banks
constexpr int ACROSS = LANES / GROUPS_PER_REQUEST; // words that it reads of each
constexpr int64_t FEW_MATRICES = UINT32_MAX;       // counted in 32 bits

// V: elements per vector. E: adjacent elements in the word that a thread reads from shared memory
template <class T>
struct vector_traits {
    static constexpr int V = VECTOR / sizeof(T), E = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
};

// offset of the first element of a matrix of a batch, in elements
struct matrix_origin {
    int64_t x, out;
};

template <class Index>
static __device__ matrix_origin find_matrix_origin(const transpose_args &args, Index batch)
{
    matrix_origin found = {0, 0};

    for (int d = args.batch_ndim - 1; d >= 0; d--) {
        const Index count = (Index)args.batch[d].count, at = d > 0 ? batch % count : batch;

        batch = d > 0 ? batch / count : 0;
        found.x += (int64_t)at * args.batch[d].x_stride;
        found.out += (int64_t)at * args.batch[d].out_stride;
    }
    return found;
}

static __device__ inline matrix_origin matrix_origin_of(const transpose_args &args, int64_t batch)
{
    return args.batches <= FEW_MATRICES ? find_matrix_origin<uint32_t>(args, (uint32_t)batch)
                                        : find_matrix_origin<uint64_t>(args, (uint64_t)batch);
}

// whether every row of every matrix is 16-byte aligned
static inline bool rows_are_vector_aligned(const void *array, int64_t pitch, const transpose_args *args,
                                           int64_t batch_dimension::*step)
{
    bool aligned = (uintptr_t)array % VECTOR == 0 && pitch * args->element_size % VECTOR == 0;

    for (int d = 0; d < args->batch_ndim; d++)
        aligned = aligned && args->batch[d].*step * args->element_size % VECTOR == 0;
    return aligned;
}

// the number of elements of x if they form one contiguous block without gaps, otherwise 0
static inline int64_t count_contiguous(const transpose_args *args)
{
    int64_t reach = args->columns + (args->rows - 1) * args->x_row_stride;
    bool forward = args->rows == 1 || args->x_row_stride > 0;

    for (int d = 0; d < args->batch_ndim; d++) {
        reach += (args->batch[d].count - 1) * args->batch[d].x_stride;
        forward = forward && (args->batch[d].count == 1 || args->batch[d].x_stride > 0);
    }
    return forward && reach == args->batches * args->rows * args->columns ? reach : 0;
}

// how many elements an element is past a multiple of 16 bytes
template <class T>
static __device__ int vector_misalignment(const T *element)
{
    return (int)((uintptr_t)element % VECTOR / sizeof(T));
}

// sets element j of a zeroed vector, given as words; j must be a compile-time constant
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

// 16 bytes of low and high, from byte `bytes` on; bytes: [0, 16), a multiple of SIZE
template <int SIZE>
static __device__ uint4 extract_vector(uint4 low, uint4 high, int bytes)
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

// Transposes E x E blocks of elements within words, by byte permutes: words[j] holds E columns of row j;
// vectors[e] gets column e of all V rows.
static __device__ inline void transpose_in_words(const uint32_t (&words)[16], uint4 (&vectors)[4], uint8_t)
{
    uint32_t transposed[4][4]; // [column][row / 4]

#pragma unroll
    for (int b = 0; b < 4; b++) {
        const uint32_t *w = words + 4 * b;
        const uint32_t low01 = __byte_perm(w[0], w[1], 0x5140), low23 = __byte_perm(w[2], w[3], 0x5140);
        const uint32_t high01 = __byte_perm(w[0], w[1], 0x7362), high23 = __byte_perm(w[2], w[3], 0x7362);

        transposed[0][b] = __byte_perm(low01, low23, 0x5410);
        transposed[1][b] = __byte_perm(low01, low23, 0x7632);
        transposed[2][b] = __byte_perm(high01, high23, 0x5410);
        transposed[3][b] = __byte_perm(high01, high23, 0x7632);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        vectors[e] = {transposed[e][0], transposed[e][1], transposed[e][2], transposed[e][3]};
}

static __device__ inline void transpose_in_words(const uint32_t (&w)[8], uint4 (&vectors)[2], uint16_t)
{
    vectors[0] = {__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410),
                  __byte_perm(w[4], w[5], 0x5410), __byte_perm(w[6], w[7], 0x5410)};
    vectors[1] = {__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632),
                  __byte_perm(w[4], w[5], 0x7632), __byte_perm(w[6], w[7], 0x7632)};
}

// elements of a word or more: only collected
template <class T, int V>
static __device__ void transpose_in_words(const T (&elements)[V], uint4 (&vectors)[1], T)
{
    uint32_t words[4] = {};

#pragma unroll
    for (int j = 0; j < V; j++)
        put(words, j, elements[j]);
    vectors[0] = {words[0], words[1], words[2], words[3]};
}

// Whether `columns` columns from `column` on and `rows` rows from `row` on are inside x.
static __device__ bool is_inside(const transpose_args &args, int64_t column, int columns, int64_t row, int rows)
{
    return column + columns <= args.columns && row + rows <= args.rows;
}

// Stores the part of a vector that is inside out: V elements of out's row `column`, from out's column `row` on.
template <class T, class F>
static __device__ void store_partial_vector(const transpose_args &args, T *out, int64_t column, int64_t row,
                                            F element)
{
#pragma unroll 1
    for (int j = 0; j < vector_traits<T>::V; j++)
        if (column < args.columns && row + j < args.rows)
            out[column * args.out_row_stride + row + j] = element(j);
}
