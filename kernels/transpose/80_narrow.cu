// The transpose of matrices of few columns, or of few rows, as pieces.
//
// The idea: some whole rows of few columns are one piece of x, which a block loads as it lies. V of its rows fill
// `columns` words, whatever their number: they are a group. Out has few and long rows, for which words are
// gathered from the piece as from any tile. Few rows are the same the other way round: words of x are scattered
// into a piece of out, which is stored as it lies. Of a matrix that has many of both, strips of columns are taken
// for matrices; their pieces are brought together element by element. What the rungs below waste on it: the part
// of each tile that is empty, and the ends of short rows, which are no whole words. Launch: blocks of 256 threads,
// one for each piece of up to 24 KB, or 33 of the largest elements; of 1 KB at least, where there is little.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"
#include "words.cuh"

constexpr int NARROW = 64;         // few
constexpr int PIECE_BYTES = 24576; // unless the 32 groups that it has at least are more
constexpr int LEAST_PIECE = 1024;  // bytes, where there are few
constexpr int64_t MANY_PIECES = 256;

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
// elements behind a vector. Groups of an even number of words have a gap of one behind them, where they can: a
// warp takes the same place of 32 groups, which are in different banks if an odd number of words lies between
// them.
struct piece_place {
    int past;
    int gap;
};

template <class T>
static __device__ piece_place place_of(const piece_shape &piece, const T *begin)
{
    if (piece.few % 2 == 0 && elements_past_word(begin) == 0)
        return {0, 1};
    return {elements_past(begin), 0};
}

// where row `q` of a group begins, or column q, in elements
template <class T>
static __device__ int find_place(const piece_shape &piece, const piece_place &place, int group, int q)
{
    return group * (piece.few + place.gap) * word_of<T>::V + q * piece.few + place.past;
}

// element e of a word; e is known where this is compiled
template <class T>
static __device__ T element_of(typename word_of<T>::type word, int e)
{
    if constexpr (word_of<T>::V > 1)
        return (T)(word >> e * (32 / word_of<T>::V));
    else
        return word;
}

// What there is of a piece, elements [low, high) of it, Unit by Unit as they lie in global memory: move(Unit(),
// at, to) those from `at` on that are whole, from or to unit `to` of shared memory, and others element by element.
template <class Unit, class T, class F, class G>
static __device__ void for_units(const piece_shape &piece, const piece_place &place, int low, int high, F move,
                                 G move_element)
{
    constexpr int N = sizeof(Unit) / sizeof(T);
    const auto unit_place = [&](int t) { return place.gap ? t + divide(t, piece.inverse) : t; };
    const int begin = (place.past + low + N - 1) / N, end = (place.past + high) / N; // of whole units

    for (int t = begin + threadIdx.x; t < end; t += BLOCK)
        move(Unit(), t * N - place.past, unit_place(t));
    if (threadIdx.x < 2 * N) { // a thread an element, not to wait for one after the other
        const int f = (threadIdx.x < N ? begin - 1 : max(begin, end)) * N + threadIdx.x % N;

        if (f >= place.past + low && f < place.past + high)
            move_element(f - place.past, unit_place(f / N) * N + f % N);
    }
}

template <class T, class F, class G>
static __device__ void for_flat(const piece_shape &piece, const piece_place &place, int low, int high, F move,
                                G move_element)
{
    if (place.gap)
        for_units<typename word_of<T>::type, T>(piece, place, low, high, move, move_element);
    else
        for_units<uint4, T>(piece, place, low, high, move, move_element);
}

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_gathered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch, corner first)
{
    wait_for_earlier();
    constexpr int V = word_of<T>::V, ABOVE = word_of<T>::MORE * V;
    extern __shared__ uint4 memory[]; // a group above the piece, and the piece

    const plane begin = plane_of(args, batch + blockIdx.z);
    const corner turned = corner_of_block(first, piece.few, piece.groups * V);
    const int64_t row = turned.column, column = turned.row; // of the piece
    const int64_t from = (row - ABOVE) * args.x_pitch + column;
    const T *x = (const T *)args.x + begin.x + from; // the group above
    const piece_place place = place_of(piece, piece.flat ? x : (const T *)nullptr);
    const int low = row > 0 ? 0 : ABOVE; // rows of these that there are
    const int high = (int)min((int64_t)ABOVE + piece.groups * V, args.rows - row + ABOVE);
    const int few = (int)min((int64_t)piece.few, args.columns - column);

    if (piece.flat) {
        for_flat<T>(
            piece, place, low * few, high * few,
            [&](auto unit, int at, int to) {
                __pipeline_memcpy_async((decltype(unit) *)memory + to, x + at, sizeof unit);
            },
            [&](int at, int to) { ((T *)memory)[to] = x[at]; });
        __pipeline_commit();
        __pipeline_wait_prior(0);
    } else {
        for (int t = low * few + threadIdx.x; t < high * few; t += BLOCK) {
            const int i = t / few, c = t % few;

            ((T *)memory)[find_place<T>(piece, place, i / V, i % V) + c] = x[i * args.x_pitch + c];
        }
    }
    __syncthreads(); // the piece is complete before anyone reads a column of it

    const int c = threadIdx.x >> piece.side_log2, side = 1 << piece.side_log2;
    const int step_log2 = BLOCK_LOG2 - piece.side_log2;
    T *out = (T *)args.out + begin.out + (column + c) * args.out_pitch + row;
    const int past = elements_past_word(out);

    const int group0 = threadIdx.x & (side - 1), count = count_steps(c, few, step_log2);
    const T *places[V];

#pragma unroll
    for (int q = 0; q < V; q++) // of the group itself, or of the one above
        places[q] = (const T *)memory + find_place<T>(piece, place, group0 + (V > 1 && q + past < V), q) + c;
    for (int group = group0; group < piece.groups; group += side) {
        const int up = group * V - past;

        store_windows(args, out + up, row + up, past, places, count, step_log2);
#pragma unroll
        for (int q = 0; q < V; q++)
            places[q] += side * (piece.few + place.gap) * V;
    }
}

// `count` words, x_step elements apart in x, of which element e of the k-th goes to places[e][at + k * step].
// MOVING of them are on their way at once.
template <int MOVING, class T>
static __device__ void scatter_words(const T *from, int64_t x_step, T *const (&places)[word_of<T>::V], int at,
                                     int count, int step)
{
    using word = typename word_of<T>::type;

    for (int k = 0; k < count; k += MOVING) {
        word moving[MOVING];

#pragma unroll
        for (int l = 0; l < MOVING; l++)
            if (k + l < count)
                moving[l] = *(const word *)(from + l * x_step);
#pragma unroll
        for (int l = 0; l < MOVING; l++)
            if (k + l < count)
#pragma unroll
                for (int e = 0; e < word_of<T>::V; e++)
                    places[e][at + (k + l) * step] = element_of<T>(moving[l], e);
        from += MOVING * x_step;
    }
}

// likewise, element by element, what of words at `shift` there is: x has the elements [low, high)
template <class T>
static __device__ void scatter_some(const T *from, int64_t x_step, T *const (&places)[word_of<T>::V], int at,
                                    int count, int step, int shift, int low, int high)
{
#pragma unroll 1
    for (int k = 0; k < count; k++) {
#pragma unroll
        for (int e = 0; e < word_of<T>::V; e++)
            if (shift + e >= low && shift + e < high)
                places[e][at + k * step] = from[e];
        from += x_step;
    }
}

// blocks of a multiprocessor, for the registers that hold words on their way
template <class T>
constexpr int SCATTERING_BLOCKS = sizeof(T) == 2 ? BLOCKS_AN_SM : BLOCKS_AN_SM - 1;

// BY_ROUNDS: a thread has one or two rows, and words of these on their way; else words of several rows
template <class T, bool BY_ROUNDS>
__global__ void __launch_bounds__(BLOCK, SCATTERING_BLOCKS<T>)
    transpose_scattered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch,
                        corner first)
{
    wait_for_earlier();
    constexpr int V = word_of<T>::V, BEFORE = word_of<T>::MORE * V;
    constexpr int MANY = 32 / word_of<T>::W, FEW = MANY / 2; // words on their way at once
    extern __shared__ uint4 memory[]; // a group before the piece, and the piece, with some of a group behind it

    const plane begin = plane_of(args, batch + blockIdx.z);
    const int length = piece.groups * V - BEFORE;
    const int64_t column = first.column + (int64_t)blockIdx.x * length; // of the piece
    T *out = (T *)args.out + begin.out + (column - BEFORE) * piece.few; // the group before
    const piece_place place = place_of(piece, (const T *)out);
    const int r0 = threadIdx.x >> piece.side_log2, side = 1 << piece.side_log2;
    const int step_log2 = BLOCK_LOG2 - piece.side_log2, step = 1 << step_log2;
    const int count = count_steps(r0, piece.few, step_log2);
    const int64_t x_step = args.x_pitch << step_log2;
    const T *x = (const T *)args.x + begin.x + r0 * args.x_pitch + column;
    const int past = elements_past_word(x); // of every row that this thread loads

    const int group0 = threadIdx.x & (side - 1);
    const int low = column > 0 ? -V : 0; // columns that x has, from this one on
    const int high = (int)min((int64_t)piece.groups * V, args.columns - column);
    T *places[V]; // of element e of a word

#pragma unroll
    for (int e = 0; e < V; e++)
        places[e] =
            (T *)memory + find_place<T>(piece, place, group0 + (V > 1 && e >= past), (e - past + V) % V) + r0;
    if constexpr (BY_ROUNDS) {
        const int round = side * V, to_round = round * (piece.few + place.gap); // elements from one to the next
        const int shift0 = group0 * V - past, rounds = piece.groups >> piece.side_log2;
        const int first = shift0 >= low ? 0 : 1; // of those in which this thread's words are whole
        const int end = shift0 + V <= high ? min(rounds, (high - V - shift0) / round + 1) : 0;

        for (int k = 0; k < count; k++)
            scatter_words<MANY>(x + shift0 + first * round + k * x_step, round, places,
                                first * to_round + k * step, end - first, to_round);
        for (int r = 0; r < rounds; r++)
            if (r < first || r >= end)
                scatter_some(x + shift0 + r * round, x_step, places, r * to_round, count, step, shift0 + r * round,
                             low, high);
    } else {
        for (int group = group0; group < piece.groups; group += side) {
            const int shift = group * V - past;
            const T *from = x + shift;

            if (shift >= low && shift + V <= high) {
                if (V > 1 && count <= FEW)
                    scatter_words<FEW>(from, x_step, places, 0, count, step);
                else
                    scatter_words<MANY>(from, x_step, places, 0, count, step);
            } else { // rows begin or end in it
                scatter_some(from, x_step, places, 0, count, step, shift, low, high);
            }
#pragma unroll
            for (int e = 0; e < V; e++)
                places[e] += side * (piece.few + place.gap) * V;
        }
    }
    __syncthreads(); // the piece is complete before anyone stores a vector of it

    const int stop = BEFORE + (int)min((int64_t)length, args.columns - column);
    for_flat<T>(
        piece, place, BEFORE * piece.few, stop * piece.few,
        [&](auto unit, int at, int to) { *(decltype(unit) *)(out + at) = ((const decltype(unit) *)memory)[to]; },
        [&](int at, int to) { out[at] = ((const T *)memory)[to]; });
}

// The piece of matrices with `many` rows of `few` columns, or columns of few rows. A thread's rows of out, or of
// x, are a multiple of V apart, or it has one: they are shifted alike.
template <class T>
static piece_shape shape_of_piece(int64_t batches, int64_t many, int few, bool flat)
{
    constexpr int V = word_of<T>::V, WARP_LOG2 = 5;
    const int group = few * word_of<T>::W; // bytes
    const int64_t share = batches * many * few * (int)sizeof(T) / MANY_PIECES;
    const int room = (int)std::max<int64_t>(LEAST_PIECE, std::min<int64_t>(PIECE_BYTES, share));
    int side_log2 = WARP_LOG2;

    while (BLOCK >> (side_log2 + 1) >= std::min(V, few) && group << (side_log2 + 1) <= room &&
           V << side_log2 < many)
        side_log2++;

    const int64_t most = std::max(1, room / (group << side_log2));
    return {(int)std::min(most, ceil_div(many + V, V << side_log2)) << side_log2, few, side_log2, inverse_of(few),
            flat};
}

template <class T>
static int bytes_of(const piece_shape &piece)
{
    return (piece.groups + word_of<T>::MORE) * (piece.few | 1) * word_of<T>::W + VECTOR;
}

template <class T>
static cudaError_t gather(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_of<T>::V;
    const piece_shape piece =
        shape_of_piece<T>(args->batches, args->rows, (int)std::min<int64_t>(args->columns, NARROW),
                          args->columns <= NARROW && args->x_pitch == args->columns);

    return cover(args->batches, args->columns, args->rows + V - 1, piece.few, piece.groups * V,
                 [&](dim3 grid, int64_t batch, corner first) {
                     launch<transpose_gathered<T>>(grid, BLOCK, bytes_of<T>(piece), stream, *args, piece, batch,
                                                   first);
                 });
}

template <class T>
static cudaError_t scatter(const transpose_args *args, cudaStream_t stream)
{
    const piece_shape piece = shape_of_piece<T>(args->batches, args->columns, (int)args->rows, true);

    return dispatch<0, 1>(piece.few <= 2 * (BLOCK >> piece.side_log2), [&](auto by_rounds) {
        constexpr bool BY_ROUNDS = decltype(by_rounds)::value;

        return cover(args->batches, 1, args->columns, 1, (piece.groups - word_of<T>::MORE) * word_of<T>::V,
                     [&](dim3 grid, int64_t batch, corner first) {
                         launch<transpose_scattered<T, BY_ROUNDS>>(grid, BLOCK, bytes_of<T>(piece), stream, *args,
                                                                   piece, batch, first);
                     });
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
