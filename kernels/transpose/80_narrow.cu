// The transpose of matrices of few columns, or of few rows, as pieces.
//
// The idea: some whole rows of few columns are one piece of x, which a block loads as it lies, word by word. V of
// its rows fill `columns` words, whatever their number: they are a group. Out has few and long rows, for which
// words are gathered from the piece as from any tile. Few rows are the same the other way round: words of x are
// scattered into a piece of out, which is stored as it lies. Of a matrix that has many of both, strips of columns
// are taken for matrices; their pieces are brought together element by element.
// What the rungs below waste on it: the part of each tile that is empty, and the ends of short rows, which are
// no whole words.
// Launch: blocks of 256 threads, one for each piece of about 8 KB.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"
#include "vectors.cuh"
#include "words.cuh"

constexpr int NARROW = 64;                          // few
constexpr int PIECE_BYTES = 12288;                  // at most, if 32 groups are no more
constexpr int MOVING_BYTES = 32;                    // that a thread holds in registers,
constexpr int SCATTERING_BLOCKS = BLOCKS_AN_SM - 1; // and blocks an SM that those leave

// t / few by a multiplication with inverse_of(few), for t < 8192; few: (1, NARROW]
constexpr int INVERSE_BITS = 20;

static inline unsigned inverse_of(int few)
{
    return (1u << INVERSE_BITS) / few + 1;
}

static __device__ inline int divide(int t, unsigned inverse)
{
    return (int)(t * inverse >> INVERSE_BITS);
}

// A piece: `groups` of V rows of x, or columns, by `few`.
struct piece_shape {
    int groups, few;
    int side_log2;    // so many groups, a power of two, are worked on side by side
    unsigned inverse; // of few
    bool flat;        // the few lie one behind the other, and so do their rows, or columns
};

// How a piece lies in shared memory: one element behind the other, as in global memory, where it begins `past`
// elements behind a word. If it can be, groups are an odd number of words apart.
struct piece_place {
    int past;
    int gap; // words behind a group
};

template <class T>
static __device__ piece_place place_of(const piece_shape &piece, const T *begin)
{
    const int past = elements_past_word(begin);

    return {past, past == 0 && piece.few % 2 == 0};
}

// where row `q` of a group begins, or column q, in elements
template <class T>
static __device__ int find_place(const piece_shape &piece, const piece_place &place, int group, int q)
{
    return group * (piece.few + place.gap) * word_of<T>::V + q * piece.few + place.past;
}

// element e of a word, which is known where this is compiled
template <class T>
static __device__ T element_of(uint32_t word, int e, T)
{
    return (T)(word >> e * (32 / word_of<T>::V));
}

static __device__ inline uint64_t element_of(uint64_t word, int, uint64_t)
{
    return word;
}

static __device__ inline uint4 element_of(uint4 word, int, uint4)
{
    return word;
}

// Rows of x from `row` on into shared memory, as many as there are groups for, each with `piece.few` of x's
// columns.
template <class T>
static __device__ void load_piece(const transpose_args &args, const piece_shape &piece, const piece_place &place,
                                  const T *x, int64_t row, int64_t column, typename word_of<T>::type *memory)
{
    constexpr int V = word_of<T>::V;
    const int groups = piece.groups + word_of<T>::MORE;

    if (piece.flat) {
        const int64_t from = row * piece.few - place.past, elements = args.rows * piece.few; // of x

        for (int t = threadIdx.x; t < groups * piece.few + (place.past > 0); t += BLOCK) {
            const int64_t at = from + t * V;
            typename word_of<T>::type *to = memory + t + divide(t, piece.inverse) * place.gap;

            if (at >= 0 && at + V <= elements) {
                __pipeline_memcpy_async(to, x + at, word_of<T>::W);
            } else { // x begins or ends in it
#pragma unroll 1
                for (int e = 0; e < V; e++)
                    if (at + e >= 0 && at + e < elements)
                        ((T *)to)[e] = x[at + e];
            }
        }
    } else {
        for (int t = threadIdx.x; t < groups * V * piece.few; t += BLOCK) {
            const int i = t / piece.few, c = t % piece.few;

            if (row + i >= 0 && row + i < args.rows && column + c < args.columns)
                ((T *)memory)[find_place<T>(piece, place, i / V, i % V) + c] =
                    x[(row + i) * args.x_pitch + column + c];
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_gathered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch, corner first)
{
    constexpr int V = word_of<T>::V, ABOVE = word_of<T>::MORE * V;
    extern __shared__ uint4 memory[]; // a group above the piece, and the piece

    const plane begin = plane_of(args, batch + blockIdx.z);
    const corner turned = corner_of_block(first, piece.few, piece.groups * V);
    const int64_t row = turned.column, column = turned.row; // of the piece
    const T *x = (const T *)args.x + begin.x;
    const int c = threadIdx.x >> piece.side_log2, side = 1 << piece.side_log2;
    T *out = (T *)args.out + begin.out + (column + c) * args.out_pitch + row;
    const piece_place place = place_of(piece, piece.flat ? x + (row - ABOVE) * piece.few : (const T *)nullptr);

    load_piece(args, piece, place, x, row - ABOVE, column, (typename word_of<T>::type *)memory);
    __syncthreads(); // the piece is complete before anyone reads a column of it

    const int past = elements_past_word(out);
    for (int group = threadIdx.x & (side - 1); group < piece.groups; group += side) {
        const int up = group * V - past;
        const T *places[V];

#pragma unroll
        for (int q = 0; q < V; q++) // of the group itself, or of the one above
            places[q] = (const T *)memory + find_place<T>(piece, place, group + (V > 1 && q + past < V), q);
        store_windows(args, out + up, row + up, past, places, c, BLOCK >> piece.side_log2,
                      (int)min((int64_t)piece.few, args.columns - column));
    }
}

template <class T>
__global__ void __launch_bounds__(BLOCK, SCATTERING_BLOCKS)
    transpose_scattered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch,
                        corner first)
{
    constexpr int V = word_of<T>::V, MORE = word_of<T>::MORE, MOVING = MOVING_BYTES / word_of<T>::W;
    using word = typename word_of<T>::type;
    extern __shared__ uint4
        memory[]; // a group before the piece, and the piece, of which the last group is not whole

    const plane begin = plane_of(args, batch + blockIdx.z);
    const int length = (piece.groups - MORE) * V;
    const int64_t column = first.column + (int64_t)blockIdx.x * length; // of the piece
    const int r0 = threadIdx.x >> piece.side_log2, side = 1 << piece.side_log2, step = BLOCK >> piece.side_log2;
    const T *x = (const T *)args.x + begin.x + column;
    T *out = (T *)args.out + begin.out + column * piece.few;
    const piece_place place = place_of(piece, out);
    const int past = elements_past_word(x + r0 * args.x_pitch); // of every row that this thread loads

    for (int group = threadIdx.x & (side - 1); group < piece.groups; group += side) {
        const int shift = group * V - past;
        const bool whole = column + shift >= 0 && column + shift + V <= args.columns;
        const T *from = x + r0 * args.x_pitch + shift;
        T *places[V]; // of element e of a word

#pragma unroll
        for (int e = 0; e < V; e++)
            places[e] =
                (T *)memory + find_place<T>(piece, place, group + (V > 1 && e >= past), (e - past + V) % V);
        if (whole) {
            for (int r = r0; r < piece.few; r += MOVING * step) {
                word moving[MOVING];

#pragma unroll
                for (int l = 0; l < MOVING; l++)
                    if (r + l * step < piece.few)
                        moving[l] = *(const word *)(from + l * step * args.x_pitch);
#pragma unroll
                for (int l = 0; l < MOVING; l++)
                    if (r + l * step < piece.few)
#pragma unroll
                        for (int e = 0; e < V; e++)
                            places[e][r + l * step] = element_of(moving[l], e, T());
                from += MOVING * step * args.x_pitch;
            }
        } else { // rows begin or end in it
#pragma unroll 1
            for (int r = r0; r < piece.few; r += step) {
#pragma unroll
                for (int e = 0; e < V; e++)
                    if (column + shift + e >= 0 && column + shift + e < args.columns)
                        places[e][r] = from[e];
                from += step * args.x_pitch;
            }
        }
    }
    __syncthreads(); // the piece is complete before anyone stores a word of it

    const int elements = (int)min((int64_t)length, args.columns - column) * piece.few; // of the piece in out
    const word *words_of_piece = (const word *)memory + MORE * (piece.few + place.gap);
    for (int t = threadIdx.x; t * V - place.past < elements; t += BLOCK) {
        const int at = t * V - place.past;
        const word *from = words_of_piece + t + divide(t, piece.inverse) * place.gap;

        if (at >= 0 && at + V <= elements) {
            *(word *)(out + at) = *from;
        } else {
#pragma unroll 1
            for (int e = 0; e < V; e++)
                if (at + e >= 0 && at + e < elements)
                    out[at + e] = ((const T *)from)[e];
        }
    }
}

// The piece of matrices with `many` rows of `few` columns, or columns of few rows. A thread's rows of out, or of
// x, are a multiple of V apart, or it has one: they are shifted alike.
template <class T>
static piece_shape shape_of_piece(int64_t many, int few, bool flat)
{
    constexpr int V = word_of<T>::V, WARP_LOG2 = 5;
    const int group = few * word_of<T>::W; // bytes
    int side_log2 = WARP_LOG2;

    while (BLOCK >> (side_log2 + 1) >= std::min(V, few) && group << (side_log2 + 1) <= PIECE_BYTES &&
           V << side_log2 < many)
        side_log2++;

    const int64_t most = std::max(1, PIECE_BYTES / (group << side_log2));
    return {(int)std::min(most, ceil_div(many + V, V << side_log2)) << side_log2, few, side_log2, inverse_of(few),
            flat};
}

template <class T>
static int bytes_of(const piece_shape &piece)
{
    return ((piece.groups + word_of<T>::MORE) * (piece.few + 1) + 1) * word_of<T>::W;
}

template <class T>
static cudaError_t gather(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_of<T>::V;
    const piece_shape piece = shape_of_piece<T>(args->rows, (int)std::min<int64_t>(args->columns, NARROW),
                                                args->columns <= NARROW && args->x_pitch == args->columns);

    return cover(args->batches, args->columns, args->rows + V - 1, piece.few, piece.groups * V,
                 [&](dim3 grid, int64_t batch, corner first) {
                     transpose_gathered<T>
                         <<<grid, BLOCK, bytes_of<T>(piece), stream>>>(*args, piece, batch, first);
                 });
}

template <class T>
static cudaError_t scatter(const transpose_args *args, cudaStream_t stream)
{
    const piece_shape piece = shape_of_piece<T>(args->columns, (int)args->rows, true);

    return cover(args->batches, 1, args->columns, 1, (piece.groups - word_of<T>::MORE) * word_of<T>::V,
                 [&](dim3 grid, int64_t batch, corner first) {
                     transpose_scattered<T>
                         <<<grid, BLOCK, bytes_of<T>(piece), stream>>>(*args, piece, batch, first);
                 });
}

cudaError_t launch_transpose_narrow(const transpose_args *args, cudaStream_t stream)
{
    const bool few_rows = args->rows <= NARROW && args->rows < args->columns && args->out_pitch == args->rows;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return few_rows ? scatter<T>(args, stream) : gather<T>(args, stream);
    });
}
