// The transpose of matrices of few columns, or of few rows, as pieces.
//
// The idea: some whole rows of few columns are one piece of x, which a block loads as it lies. V of its rows fill
// `columns` words, whatever their number: they are a group. Out has few and long rows, for which words are
// gathered from the piece as from any tile. Of few rows, a block loads the same columns of each, by vectors; V
// columns are a group, and its words are turned in registers into those of a piece of out, which is stored as it
// lies. Of a matrix that has many of both, strips of columns are taken for matrices; their pieces are brought
// together element by element. What the rungs below waste on it: the part of each tile that is empty, and the ends
// of short rows, which are no whole words. Launch: of few columns, blocks of 256 threads, one for each piece of up
// to 24 KB, or 33 of the largest elements; of 1 KB at least, where there is little. Of few rows, blocks of 128
// threads, one for each piece of up to 9 KB, or 256 bytes of each row.
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

// of few rows
constexpr int SCATTERING_BLOCK = 128;
constexpr int SCATTERING_BLOCKS = 2 * BLOCKS_AN_SM - 2; // of a multiprocessor, for the registers that they need
constexpr int SCATTERED_BYTES = 9216, LONG_ROW = 256;   // of a piece, or of each row, if that is more
constexpr int LEAST_SCATTERED = 2048, SHORT_ROW = 128;  // the same, where there are few pieces
constexpr int64_t MANY_SCATTERED = 512;
constexpr int KNOWN = 4; // fewer rows than these are known where this is compiled

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

template <class T>
constexpr int WORDS_LOG2 = word_of<T>::W == 4   ? 2
                           : word_of<T>::W == 8 ? 1
                                                : 0; // of a vector

// A piece: `groups` of V rows of x, or columns, by `few`.
struct piece_shape {
    int groups, few;
    int side_log2;    // so many groups, a power of two, are worked on side by side
    unsigned inverse; // of few
    int gap;          // words between its groups, where they can have one
    bool flat;        // the few lie one behind the other, and so do their rows, or columns
};

// How a piece lies in shared memory: one element behind the other, as in global memory, where it begins `past`
// elements behind a vector. Groups have a gap of one word behind them, where they can: to be gathered from, those
// of an even number of words; to be scattered into, of a multiple of 8. A warp takes the same place of 32 groups,
// which are in different banks if an odd number of words lies between them.
struct piece_place {
    int past;
    int gap;
};

template <class T>
static __device__ piece_place place_of(const piece_shape &piece, const T *begin)
{
    if (piece.gap && elements_past_word(begin) == 0)
        return {0, piece.gap};
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

    for (int t = begin + threadIdx.x; t < end; t += blockDim.x)
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

// Few rows in shared memory, `columns` elements of each: element 0 of row r is `past + r * step` bytes behind the
// begin, which is as far behind a vector as it is in global memory.
struct strip {
    int past, step;
    int few, columns;
    int vectors_log2; // that a row has, if its first element begins one
    bool inside;      // all vectors that its rows fall into may be read
};

// bytes from one row to the next, with room for the vectors that a row begins and ends in
template <class T>
static __host__ __device__ int step_of_rows(const piece_shape &piece, int64_t pitch)
{
    return piece.groups * word_of<T>::W + 2 * VECTOR + (int)(pitch * (int64_t)sizeof(T) & (VECTOR - 1));
}

// The columns, from element 0 of a row on, that may be read: x's, and if one row begins where another ends,
// theirs.
struct limits {
    int64_t low, high;
};

static __device__ inline limits limits_of(const transpose_args &args, int64_t column, int r)
{
    const int64_t more = args.x_pitch == args.columns ? args.columns : 0;

    return {-column - r * more, args.columns - column + (args.rows - 1 - r) * more};
}

// Vector v of row r, if all of it may be read.
template <class T>
static __device__ void fetch_vector(const transpose_args &args, const strip &strip, const T *x, int64_t column,
                                    int r, int v, char *memory)
{
    constexpr int V = pieces<T>::V;
    const T *row = x + r * args.x_pitch;
    const int c = v * V - elements_past(row);
    bool all = strip.inside;

    if (!strip.inside) {
        const limits limits = limits_of(args, column, r);

        all = c < strip.columns && c >= limits.low && c + V <= limits.high;
    }
    if (all)
        __pipeline_memcpy_async((T *)(memory + strip.past + r * strip.step) + c, row + c, VECTOR);
}

// Of x from `column` on.
template <class T>
static __device__ void fetch_strip(const transpose_args &args, const strip &strip, const T *x, int64_t column,
                                   char *memory)
{
    constexpr int V = pieces<T>::V, BOTH = 2 * V;
    const int vectors = 1 << strip.vectors_log2;

    for (int t = threadIdx.x; t < strip.few << strip.vectors_log2; t += blockDim.x)
        fetch_vector(args, strip, x, column, t >> strip.vectors_log2, t & (vectors - 1), memory);
    for (int r = threadIdx.x; r < strip.few; r += blockDim.x) // the rest of rows that begin inside of a vector
        if (elements_past(x + r * args.x_pitch))
            fetch_vector(args, strip, x, column, r, vectors, memory);
    __pipeline_commit();
    if (!strip.inside) // what is left of them: a thread an element
#pragma unroll 4
        for (int t = threadIdx.x; t < strip.few * BOTH; t += blockDim.x) {
            const int r = t / BOTH;
            const T *row = x + r * args.x_pitch;
            const limits limits = limits_of(args, column, r);
            const int begin = -elements_past(row), end = begin + (strip.columns - 1 - begin) / V * V;
            const int vector = t % BOTH < V ? begin : end, c = vector + t % V;

            if ((vector < limits.low || vector + V > limits.high) && (t % BOTH < V || end > begin))
                ((T *)(memory + strip.past + r * strip.step))[c] =
                    c >= limits.low && c < limits.high ? row[c] : T();
        }
    __pipeline_wait_prior(0); // for this thread's; a barrier is still to come
}

// element e of each of V words; e is known where this is compiled
template <int V, class Word>
static __device__ Word column_of(const Word *words, int e)
{
    if constexpr (V == 4)
        return __byte_perm(__byte_perm(words[0], words[1], e | (4 + e) << 4),
                           __byte_perm(words[2], words[3], e | (4 + e) << 4), 0x5410);
    else if constexpr (V == 2)
        return __byte_perm(words[0], words[1], e ? 0x7632 : 0x5410);
    else
        return words[0];
}

// The words that a group's V columns are in out, V rows a step, from `step` on: write(at, word) the one that
// begins at element `at` of the group. It belongs to the column that it ends in: those of column e begin at its
// rows -e * few modulo V, the first one in the column before. REST: few modulo V; read(r): the group's word of row
// r.
template <class T, int REST, class F, class G>
static __device__ void turn_group(int few, int step, int end, F read, G write)
{
    constexpr int V = word_of<T>::V, BEFORE = V - 1;
    using word = typename word_of<T>::type;
    word rows[BEFORE + V]; // from row step * V - BEFORE on

    if constexpr (V > 1)
#pragma unroll
        for (int i = 0; i < BEFORE; i++) {
            int r = step * V - BEFORE + i, columns = 0;

            for (; r < 0; r += few)
                columns++;
            rows[i] = read(r) << columns * (32 / V);
        }
    for (; step < end; step++) {
#pragma unroll
        for (int i = 0; i < V; i++)
            rows[BEFORE + i] = read(min(step * V + i, few - 1)); // no word has what is not there
#pragma unroll
        for (int e = 0; e < V; e++) {
            const int above = e * REST % V, r = step * V - above;

            if (V == 1 || r + V <= few)
                write(e * few + r, column_of<V>(rows + BEFORE - above, e));
        }
#pragma unroll
        for (int i = 0; i < BEFORE; i++)
            rows[i] = rows[V + i];
    }
}

// FEW: few, if that is less than KNOWN; else KNOWN + few % V
template <class T, int FEW>
__global__ void __launch_bounds__(SCATTERING_BLOCK, SCATTERING_BLOCKS)
    transpose_scattered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch,
                        corner first)
{
    wait_for_earlier();
    constexpr int V = word_of<T>::V, W = word_of<T>::W;
    static_assert(KNOWN % V == 0, "FEW tells few modulo V");
    using word = typename word_of<T>::type;
    extern __shared__ uint4 memory[]; // the strip, and behind it the piece

    const plane begin = plane_of(args, batch + blockIdx.z);
    const int few = FEW < KNOWN ? FEW : piece.few;
    const int64_t column = first.column + (int64_t)blockIdx.x * piece.groups * V; // of the piece
    const int columns = (int)min((int64_t)piece.groups * V, args.columns - column);
    const T *x = (const T *)args.x + begin.x + column;
    T *out = (T *)args.out + begin.out + column * few;
    const strip strip = {(int)((uintptr_t)x % VECTOR),
                         step_of_rows<T>(piece, args.x_pitch),
                         few,
                         columns,
                         piece.side_log2 - WORDS_LOG2<T>,
                         column >= VECTOR && args.columns - column >= piece.groups * V + VECTOR};
    char *rows = (char *)memory;
    T *turned = (T *)(memory + few * strip.step / VECTOR + 2);

    fetch_strip(args, strip, x, column, rows);
    __syncthreads(); // all rows are there before anyone reads them

    const piece_place place = place_of(piece, (const T *)out);
    const bool whole = place.past % V == 0;                                          // words of out
    const int parts = FEW < KNOWN ? 1 : max(1, SCATTERING_BLOCK >> piece.side_log2); // of a group
    const int part = threadIdx.x >> piece.side_log2;
    const int steps = (few + V - 1) / V, share = (steps + parts - 1) / parts;
    const int step = FEW < KNOWN ? 0 : part * share, end = FEW < KNOWN ? steps : min(steps, step + share);

    if (part < parts && step < end)
        for (int group = threadIdx.x & (piece.groups - 1); group < columns / V; group += SCATTERING_BLOCK) {
            const char *from = rows + strip.past + group * W;
            T *to = turned + find_place<T>(piece, place, group, 0);

            if (whole && (strip.past | strip.step) % W == 0)
                turn_group<T, FEW % V>(
                    few, step, end, [&](int r) { return *(const word *)(from + r * strip.step); },
                    [&](int at, word turned_word) { *(word *)(to + at) = turned_word; });
            else
                turn_group<T, FEW % V>(
                    few, step, end,
                    [&](int r) {
                        const uintptr_t at = (uintptr_t)(from + r * strip.step);
                        const word *two = (const word *)(at / W * W);

                        if constexpr (V > 1)
                            return at % W ? __funnelshift_r(two[0], two[1], at % W * 8) : two[0];
                        else
                            return *two;
                    },
                    [&](int at, word turned_word) {
                        if (whole) {
                            *(word *)(to + at) = turned_word;
                        } else {
#pragma unroll
                            for (int e = 0; e < V; e++)
                                to[at + e] = element_of<T>(turned_word, e);
                        }
                    });
        }
    for (int t = threadIdx.x; t < columns % V * few; t += SCATTERING_BLOCK) { // columns that fill no group
        const int c = columns / V * V + t % (columns % V), r = t / (columns % V);

        turned[find_place<T>(piece, place, c / V, c % V) + r] =
            ((const T *)(rows + strip.past + r * strip.step))[c];
    }
    __syncthreads(); // the piece is complete before anyone stores a vector of it

    for_flat<T>(
        piece, place, 0, columns * few,
        [&](auto unit, int at, int to) { *(decltype(unit) *)(out + at) = ((const decltype(unit) *)turned)[to]; },
        [&](int at, int to) { out[at] = turned[to]; });
}

// The piece of matrices with `many` rows of `few` columns. A thread's rows of out are a multiple of V apart, or it
// has one: they are shifted alike.
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
    return {(int)std::min(most, ceil_div(many + V, V << side_log2)) << side_log2,
            few,
            side_log2,
            inverse_of(few),
            few % 2 == 0,
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
                     return launch<transpose_gathered<T>>(grid, BLOCK, bytes_of<T>(piece), stream, *args, piece,
                                                          batch, first);
                 });
}

// The piece of matrices with few rows of `many` columns.
template <class T>
static piece_shape shape_of_scattered(int64_t batches, int64_t many, int few)
{
    constexpr int V = word_of<T>::V, W = word_of<T>::W;
    const int64_t share = batches * many * few * (int)sizeof(T) / MANY_SCATTERED;
    const int most = std::max(SCATTERED_BYTES, few * LONG_ROW);
    const int room = (int)std::max<int64_t>(LEAST_SCATTERED, std::min<int64_t>(most, share));
    int side_log2 = 0;

    while (W << side_log2 < SHORT_ROW || (few * W << (side_log2 + 1) <= room && V << side_log2 < many))
        side_log2++;
    return {1 << side_log2, few, side_log2, inverse_of(few), few % 8 == 0, true};
}

template <class T>
static cudaError_t scatter(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_of<T>::V, W = word_of<T>::W;
    const int few = (int)args->rows;
    const piece_shape piece = shape_of_scattered<T>(args->batches, args->columns, few);
    const int bytes =
        few * step_of_rows<T>(piece, args->x_pitch) + piece.groups * (few + piece.gap) * W + 4 * VECTOR;

    return dispatch<1, 2, 3, 4, 5, 6, 7>(V > 1 && few < KNOWN ? few : KNOWN + few % V, [&](auto value) {
        constexpr int VALUE = decltype(value)::value;
        constexpr int FEW = V > 1 && VALUE < KNOWN + V ? VALUE : KNOWN; // of others there are none

        return cover(args->batches, 1, args->columns, 1, piece.groups * V,
                     [&](dim3 grid, int64_t batch, corner first) {
                         return launch<transpose_scattered<T, FEW>>(grid, SCATTERING_BLOCK, bytes, stream, *args,
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
