// The transpose by vectors of 16 bytes, of matrices that lie anyhow.
//
// The idea: a block loads its tile of x in vectors, all of a thread's before the first of them is needed, and
// stores it to out in vectors: a warp 128 bytes of each of four rows. A thread makes a vector out of V elements of
// a column of the tile; small elements it reads as words of E, which it turns with those of E rows by byte
// permutes. Where rows of x begin anywhere, the tile keeps them as they lie in their vectors. Where rows of out
// do, each has a window of its own on the tile, up to V - 1 elements further up, and begins at a multiple of 16
// for that: which elements a block moves depends on where out lies, what comes out does not. What the rung below
// wasted: an instruction for each element, most of the bytes that could be on their way, and on rows of odd
// lengths a sector at each end of everything a warp moves. Launch: blocks of up to 256 threads, one for each tile
// of each x; a tile has 16 KB or less, and is as narrow or as low as x is.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int LEAST_BLOCK = 64;

// A tile, and how it lies in shared memory: `groups` of V rows each, of which the first is above the tile.
struct tile_shape {
    int rows, columns;      // rows: SPREAD * V times a power of two; columns: ACROSS * E times one
    int above;              // rows above it that are read too
    int row_vectors;        // of a row; one more than `columns` needs, where rows of x begin anywhere
    int group_vectors;      // from one group to the next
    unsigned inverse;       // of row_vectors
    int octets_log2, tasks; // a task of a warp is SPREAD groups of ACROSS * E columns
};

// One vector of x, and its place in the tile.
template <class T>
struct source {
    const T *from;
    int64_t column; // of its first element, in x
    int place;      // in vectors
    bool here;      // it has something that the tile needs
};

template <class T, bool ALIGNED>
static __device__ source<T> find_source(const transpose_args &args, const tile_shape &tile, const T *x, corner at,
                                        int t)
{
    constexpr int V = pieces<T>::V, ABOVE = ALIGNED ? 0 : V;
    const int i = divide(t, tile.inverse), v = t - i * tile.row_vectors;
    const int64_t row = at.row - ABOVE + i;
    const T *begin = x + row * args.x_pitch + at.column;
    const int shift = (ALIGNED ? 0 : -elements_past(begin)) + v * V; // from the tile's first column

    return {begin + shift, at.column + shift, i / V * tile.group_vectors + i % V * tile.row_vectors + v,
            i < ABOVE + tile.rows && i >= ABOVE - tile.above && row >= 0 && row < args.rows &&
                shift < tile.columns};
}

template <class T, bool ALIGNED>
static __device__ void load_tile(const transpose_args &args, const tile_shape &tile, const T *x, corner at,
                                 uint4 *memory)
{
    constexpr int V = pieces<T>::V, ABOVE = ALIGNED ? 0 : V;
    const int count = (ABOVE + tile.rows) * tile.row_vectors;

    for (int first = threadIdx.x; first < count; first += IN_FLIGHT * blockDim.x) {
        uint4 moving[IN_FLIGHT];

#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++) {
            const source<T> s = find_source<T, ALIGNED>(args, tile, x, at, first + l * blockDim.x);

            if (s.here && s.column >= 0 && s.column + V <= args.columns)
                moving[l] = *(const uint4 *)s.from;
        }
#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++) {
            const source<T> s = find_source<T, ALIGNED>(args, tile, x, at, first + l * blockDim.x);

            if (s.here && s.column >= 0 && s.column + V <= args.columns) {
                memory[s.place] = moving[l];
            } else if (s.here) { // a row begins or ends in it
#pragma unroll 1
                for (int e = 0; e < V; e++)
                    if (s.column + e >= 0 && s.column + e < args.columns)
                        ((T *)&memory[s.place])[e] = s.from[e];
            }
        }
    }
}

// Vector `group` of the tile's columns from `c` on, E of them, where every row of x and of out begins at a
// multiple of 16.
template <class T>
static __device__ void store_aligned(const transpose_args &args, const tile_shape &tile, T *out, corner at,
                                     const uint4 *memory, int group, int c)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    using Word = std::conditional_t<(E > 1), uint32_t, T>;
    const uint4 *rows = memory + group * tile.group_vectors;
    const int64_t column = at.column + c, row = at.row + group * V;

    if (is_inside(args, column, E, row, V)) {
        uint4 vectors[E];
        Word words[V];

#pragma unroll
        for (int j = 0; j < V; j++)
            words[j] = *(const Word *)((const T *)(rows + j * tile.row_vectors) + c);
        turn(words, vectors, T());
#pragma unroll
        for (int e = 0; e < E; e++)
            *(uint4 *)(out + (column + e) * args.out_pitch + row) = vectors[e];
    } else {
#pragma unroll 1
        for (int e = 0; e < E; e++)
            store_some(args, out, column + e, row,
                       [&](int j) { return ((const T *)(rows + j * tile.row_vectors))[c + e]; });
    }
}

// Likewise, wherever rows begin.
template <class T>
static __device__ void store_shifted(const transpose_args &args, const tile_shape &tile, const T *x, T *out,
                                     corner at, const uint4 *memory, int group, int c)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    const char *rows =
        (const char *)(memory + group * tile.group_vectors); // of the group above, which comes first
    const unsigned begin = (unsigned)(uintptr_t)(x + at.row * args.x_pitch + at.column);
    const unsigned pitch = (unsigned)(args.x_pitch * sizeof(T)); // as much of it as counts modulo 16

    store_windows<T, E>(args, out, at.column + c, at.row + group * V, tile.group_vectors, [&](int j) {
        return (const T *)(rows + j * tile.row_vectors * VECTOR + (begin + j * pitch) % VECTOR) + c;
    });
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_vectorized(const __grid_constant__ transpose_args args, tile_shape tile, int64_t batch, corner first)
{
    constexpr int E = pieces<T>::E;
    extern __shared__ uint4 memory[];

    const plane begin = plane_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const corner at = corner_of_block(first, tile.rows, tile.columns);

    load_tile<T, ALIGNED>(args, tile, x, at, memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it

    const int lane = threadIdx.x % LANES;
    for (int task = threadIdx.x / LANES; task < tile.tasks; task += blockDim.x / LANES) {
        const int octet = task & ((1 << tile.octets_log2) - 1), quad = task >> tile.octets_log2;
        const int group = octet * SPREAD + lane % SPREAD, c = (quad * ACROSS + lane / SPREAD) * E;

        if constexpr (ALIGNED)
            store_aligned(args, tile, out, at, memory, group, c);
        else
            store_shifted(args, tile, x, out, at, memory, group, c);
    }
}

// The tile for matrices of this shape: about as many bytes side by side in x as in out, unless a matrix has fewer
// rows or columns than that.
template <class T, bool ALIGNED>
static tile_shape shape_of(const transpose_args *args, bool out_aligned)
{
    constexpr int V = pieces<T>::V, E = pieces<T>::E, OCTET = SPREAD * V, QUAD = ACROSS * E;
    constexpr int LEAST = QUAD > V ? QUAD / V : 1;                         // vectors a row
    constexpr int BALANCED = sizeof(T) == 1 ? 8 : sizeof(T) < 8 ? 16 : 32; // likewise
    int across = BALANCED, rows, log2 = 0;

    while (across > LEAST && across / 2 * V >= args->columns)
        across /= 2;
    rows = TILE_VECTORS / across;
    while (rows > OCTET && rows / 2 >= args->rows)
        rows /= 2;
    while (rows * across < TILE_VECTORS && across * V < args->columns)
        across *= 2;
    while (OCTET << log2 < rows)
        log2++;

    const int row_vectors = across + !ALIGNED;
    return {rows,
            across * V,
            out_aligned ? 0 : V - 1,
            row_vectors,
            V * row_vectors | 1,
            inverse_of(row_vectors),
            log2,
            (across * V / QUAD) << log2};
}

template <class T, bool ALIGNED>
static cudaError_t launch(const transpose_args *args, bool out_aligned, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V;
    const tile_shape tile = shape_of<T, ALIGNED>(args, out_aligned);
    const int vectors = tile.rows * (tile.columns / V), groups = tile.rows / V + !ALIGNED;
    const int block = std::max(LEAST_BLOCK, std::min(BLOCK, vectors / IN_FLIGHT));
    const int64_t rows = args->rows + (out_aligned ? 0 : V - 1); // the windows are up to V - 1 further up

    return cover(
        args->batches, rows, args->columns, tile.rows, tile.columns, [&](dim3 grid, int64_t batch, corner first) {
            transpose_vectorized<T, ALIGNED>
                <<<grid, block, groups * tile.group_vectors * VECTOR, stream>>>(*args, tile, batch, first);
        });
}

cudaError_t launch_transpose_vectorized(const transpose_args *args, cudaStream_t stream)
{
    const bool x_aligned = are_aligned(args->x, args->x_pitch, args, &batch_dimension::x_step);
    const bool out_aligned = are_aligned(args->out, args->out_pitch, args, &batch_dimension::out_step);

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        if constexpr (sizeof(T) < VECTOR)
            if (!x_aligned || !out_aligned)
                return launch<T, false>(args, out_aligned, stream);
        return launch<T, true>(args, true, stream);
    });
}
