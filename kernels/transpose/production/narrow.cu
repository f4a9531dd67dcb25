// The transpose of matrices with few columns or few rows, in packed chunks.
//
// The idea, for few columns: some whole rows are one contiguous chunk of x, which a block loads in memory order. V
// of its rows fill `columns` words exactly: they are a group. Out has few, long rows, whose words are gathered
// from the chunk as from a tile.
// For few rows: a block loads the same columns of each row by vectors. V columns are a group, whose words are
// transposed in registers into those of a chunk of out, which is stored in memory order.
// A matrix with many rows and columns is divided into strips of columns, which are treated as matrices; their
// chunks are loaded element by element.
// What `tiles` wastes on it: the empty part of each tile, and partial words at the ends of short rows.
// Launch: for few columns, blocks of 256 threads, one block per chunk of up to 24 KB, or 33 KB for 16-byte
// elements; at least 1 KB for small arrays. For few rows, blocks of 128 threads, one block per chunk of up to 9
// KB, or of 256 bytes of each row.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../../common/dispatch.cuh"
#include "../../common/division.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"
#include "words.cuh"

constexpr int NARROW = 64;            // at most this many columns or rows are few
constexpr int CHUNK_BYTES = 24576;    // unless 32 groups, the minimum, are larger
constexpr int MIN_CHUNK_BYTES = 1024; // bytes, for small arrays
constexpr int64_t MANY_CHUNKS = 256;

// for few rows
constexpr int FEW_ROWS_BLOCK = 128;
constexpr int FEW_ROWS_BLOCKS_PER_SM = 2 * BLOCKS_PER_SM - 2; // per multiprocessor, as many as the registers allow
constexpr int FEW_ROWS_TILE_BYTES = 9216, LONG_ROW = 256;     // per chunk, or per row, whichever is larger
constexpr int FEW_ROWS_MIN_TILE_BYTES = 2048,
              FEW_ROWS_MIN_ROW_BYTES = 128; // the same, where there are few chunks
constexpr int64_t FEW_ROWS_TARGET_BLOCKS = 512;
constexpr int UNROLLED_ROWS = 4; // fewer rows than this are a compile-time constant

template <class T>
constexpr int WORDS_PER_VECTOR_LOG2 = word_traits<T>::W == 4   ? 2
                                      : word_traits<T>::W == 8 ? 1
                                                               : 0; // of the words per vector

// A chunk: `groups` groups of V rows (or columns) of x, each of `width` elements.
struct chunk_shape {
    int groups, width;
    int parallel_groups_log2; // groups worked on at the same time, a power of two
    unsigned inverse;         // of width
    int gap;                  // words of padding between groups, where possible
    bool flat;                // the chunk is contiguous in memory
};

// The layout of a chunk in shared memory: as in global memory, starting `past` elements past a vector boundary.
// Groups are padded by one word where possible: for gathering, groups of an even number of words; for scattering,
// groups of a multiple of 8 words. A warp accesses the same position of 32 groups, which are in different banks if
// they are an odd number of words apart.
struct chunk_layout {
    int past;
    int gap;
};

template <class T>
static __device__ chunk_layout layout_of(const chunk_shape &chunk, const T *begin)
{
    if (chunk.gap && word_misalignment(begin) == 0)
        return {0, chunk.gap};
    return {vector_misalignment(begin), 0};
}

// offset of row (or column) q of a group, in elements
template <class T>
static __device__ int offset_in_chunk(const chunk_shape &chunk, const chunk_layout &layout, int group, int q)
{
    return group * (chunk.width + layout.gap) * word_traits<T>::V + q * chunk.width + layout.past;
}

// element e of a word; e is a compile-time constant
template <class T>
static __device__ T element_of(typename word_traits<T>::type word, int e)
{
    if constexpr (word_traits<T>::V > 1)
        return (T)(word >> e * (32 / word_traits<T>::V));
    else
        return word;
}

// Moves elements [low, high) of a chunk, Unit by Unit in memory order: move(Unit(), at, to) moves the whole unit
// that starts at element `at` from or to unit `to` of shared memory; move_element does the same for single
// elements at both ends.
template <class Unit, class T, class F, class G>
static __device__ void for_each_unit(const chunk_shape &chunk, const chunk_layout &layout, int low, int high,
                                     F move, G move_element)
{
    constexpr int N = sizeof(Unit) / sizeof(T);
    const auto unit_place = [&](int t) { return layout.gap ? t + (int)divide_small(t, chunk.inverse) : t; };
    const int begin = (layout.past + low + N - 1) / N, end = (layout.past + high) / N; // of the whole units

    for (int t = begin + threadIdx.x; t < end; t += blockDim.x)
        move(Unit(), t * N - layout.past, unit_place(t));
    if (threadIdx.x < 2 * N) { // one thread per element, so that the loads overlap
        const int f = (threadIdx.x < N ? begin - 1 : max(begin, end)) * N + threadIdx.x % N;

        if (f >= layout.past + low && f < layout.past + high)
            move_element(f - layout.past, unit_place(f / N) * N + f % N);
    }
}

template <class T, class F, class G>
static __device__ void for_each_packed_unit(const chunk_shape &chunk, const chunk_layout &layout, int low,
                                            int high, F move, G move_element)
{
    if (layout.gap)
        for_each_unit<typename word_traits<T>::type, T>(chunk, layout, low, high, move, move_element);
    else
        for_each_unit<uint4, T>(chunk, layout, low, high, move, move_element);
}

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    transpose_few_columns(const __grid_constant__ transpose_args args, chunk_shape chunk, int64_t batch,
                          corner first)
{
    pdl_wait();
    constexpr int V = word_traits<T>::V, HALO_ROWS = word_traits<T>::EXTRA_GROUPS * V;
    extern __shared__ uint4 memory[]; // the group above the chunk, and the chunk

    const matrix_origin begin = matrix_origin_of(args, batch + blockIdx.z);
    const corner transposed = block_tile_origin(first, chunk.width, chunk.groups * V);
    const int64_t row = transposed.column, column = transposed.row; // of the chunk
    const int64_t from = (row - HALO_ROWS) * args.x_row_stride + column;
    const T *x = (const T *)args.x + begin.x + from; // the group above
    const chunk_layout layout = layout_of(chunk, chunk.flat ? x : (const T *)nullptr);
    const int low = row > 0 ? 0 : HALO_ROWS; // [low, high): the rows that exist
    const int high = (int)min((int64_t)HALO_ROWS + chunk.groups * V, args.rows - row + HALO_ROWS);
    const int width = (int)min((int64_t)chunk.width, args.columns - column);

    if (chunk.flat) {
        for_each_packed_unit<T>(
            chunk, layout, low * width, high * width,
            [&](auto unit, int at, int to) {
                __pipeline_memcpy_async((decltype(unit) *)memory + to, x + at, sizeof unit);
            },
            [&](int at, int to) { ((T *)memory)[to] = x[at]; });
        __pipeline_commit();
        __pipeline_wait_prior(0);
    } else {
        for (int t = low * width + threadIdx.x; t < high * width; t += BLOCK) {
            const int i = t / width, c = t % width;

            ((T *)memory)[offset_in_chunk<T>(chunk, layout, i / V, i % V) + c] = x[i * args.x_row_stride + c];
        }
    }
    __syncthreads(); // the chunk is complete before any thread reads a column of it

    const int c = threadIdx.x >> chunk.parallel_groups_log2, side = 1 << chunk.parallel_groups_log2;
    const int step_log2 = BLOCK_LOG2 - chunk.parallel_groups_log2;
    T *out = (T *)args.out + begin.out + (column + c) * args.out_row_stride + row;
    const int past = word_misalignment(out);

    const int group0 = threadIdx.x & (side - 1), count = steps_below(c, width, step_log2);
    const T *sources[V];

#pragma unroll
    for (int q = 0; q < V; q++) // row q of the group itself, or of the one above
        sources[q] =
            (const T *)memory + offset_in_chunk<T>(chunk, layout, group0 + (V > 1 && q + past < V), q) + c;
    for (int group = group0; group < chunk.groups; group += side) {
        const int up = group * V - past;

        store_windows(args, out + up, row + up, past, sources, count, step_log2);
#pragma unroll
        for (int q = 0; q < V; q++)
            sources[q] += side * (chunk.width + layout.gap) * V;
    }
}

// Few rows in shared memory, `columns` elements of each. Element 0 of row r is `past + r * step` bytes from the
// start, so that it has the same offset from a vector boundary as in global memory.
struct strip {
    int past, step;
    int rows, columns;
    int vectors_log2; // vectors per row, if the row is aligned
    bool inside;      // all vectors that contain elements of the rows may be read
};

// bytes from one row to the next, including partial vectors at both ends
template <class T>
static __host__ __device__ int strip_row_bytes(const chunk_shape &chunk, int64_t pitch)
{
    return chunk.groups * word_traits<T>::W + 2 * VECTOR + (int)(pitch * (int64_t)sizeof(T) & (VECTOR - 1));
}

// The range of columns, relative to element 0 of a row, that may be read: those of x's row and, if rows are
// contiguous, of its neighbours.
struct limits {
    int64_t low, high;
};

static __device__ inline limits readable_columns(const transpose_args &args, int64_t column, int r)
{
    const int64_t more = args.x_row_stride == args.columns ? args.columns : 0;

    return {-column - r * more, args.columns - column + (args.rows - 1 - r) * more};
}

// Loads vector v of row r if all of it may be read.
template <class T>
static __device__ void fetch_vector(const transpose_args &args, const strip &strip, const T *x, int64_t column,
                                    int r, int v, char *memory)
{
    constexpr int V = vector_traits<T>::V;
    const T *row = x + r * args.x_row_stride;
    const int c = v * V - vector_misalignment(row);
    bool all = strip.inside;

    if (!strip.inside) {
        const limits limits = readable_columns(args, column, r);

        all = c < strip.columns && c >= limits.low && c + V <= limits.high;
    }
    if (all)
        __pipeline_memcpy_async((T *)(memory + strip.past + r * strip.step) + c, row + c, VECTOR);
}

// Loads a strip of x from `column` on.
template <class T>
static __device__ void fetch_strip(const transpose_args &args, const strip &strip, const T *x, int64_t column,
                                   char *memory)
{
    constexpr int V = vector_traits<T>::V, BOTH = 2 * V;
    const int vectors = 1 << strip.vectors_log2;

    for (int t = threadIdx.x; t < strip.rows << strip.vectors_log2; t += blockDim.x)
        fetch_vector(args, strip, x, column, t >> strip.vectors_log2, t & (vectors - 1), memory);
    for (int r = threadIdx.x; r < strip.rows; r += blockDim.x) // the last vector of unaligned rows
        if (vector_misalignment(x + r * args.x_row_stride))
            fetch_vector(args, strip, x, column, r, vectors, memory);
    __pipeline_commit();
    if (!strip.inside) // partial vectors at both ends: one thread per element
#pragma unroll 4
        for (int t = threadIdx.x; t < strip.rows * BOTH; t += blockDim.x) {
            const int r = t / BOTH;
            const T *row = x + r * args.x_row_stride;
            const limits limits = readable_columns(args, column, r);
            const int begin = -vector_misalignment(row), end = begin + (strip.columns - 1 - begin) / V * V;
            const int vector = t % BOTH < V ? begin : end, c = vector + t % V;

            if ((vector < limits.low || vector + V > limits.high) && (t % BOTH < V || end > begin))
                ((T *)(memory + strip.past + r * strip.step))[c] =
                    c >= limits.low && c < limits.high ? row[c] : T();
        }
    __pipeline_wait_prior(0); // for this thread's copies; the caller adds a barrier
}

// element e of each of V words; e is a compile-time constant
template <int V, class Word>
static __device__ Word extract_column(const Word *words, int e)
{
    if constexpr (V == 4)
        return __byte_perm(__byte_perm(words[0], words[1], e | (4 + e) << 4),
                           __byte_perm(words[2], words[3], e | (4 + e) << 4), 0x5410);
    else if constexpr (V == 2)
        return __byte_perm(words[0], words[1], e ? 0x7632 : 0x5410);
    else
        return words[0];
}

// Transposes a group of V columns into words of out, V rows per step, steps [step, end): write(at, word) stores
// the word that starts at element `at` of the group's part of out. A word belongs to the column in which it ends;
// the first one of a column may start in the previous column. Words of column e start at its rows -e * width
// modulo V. REST: width modulo V; read(r): the group's word of row r.
template <class T, int REST, class F, class G>
static __device__ void transpose_group(int width, int step, int end, F read, G write)
{
    constexpr int V = word_traits<T>::V, BEFORE = V - 1;
    using word = typename word_traits<T>::type;
    word rows[BEFORE + V]; // from row step * V - BEFORE on

    if constexpr (V > 1)
#pragma unroll
        for (int i = 0; i < BEFORE; i++) {
            int r = step * V - BEFORE + i, columns = 0;

            for (; r < 0; r += width)
                columns++;
            rows[i] = read(r) << columns * (32 / V);
        }
    for (; step < end; step++) {
#pragma unroll
        for (int i = 0; i < V; i++)
            rows[BEFORE + i] = read(min(step * V + i, width - 1)); // rows past the end are not used
#pragma unroll
        for (int e = 0; e < V; e++) {
            const int above = e * REST % V, r = step * V - above;

            if (V == 1 || r + V <= width)
                write(e * width + r, extract_column<V>(rows + BEFORE - above, e));
        }
#pragma unroll
        for (int i = 0; i < BEFORE; i++)
            rows[i] = rows[V + i];
    }
}

// WIDTH: width, if that is less than UNROLLED_ROWS; otherwise UNROLLED_ROWS + width % V
template <class T, int WIDTH>
__global__ void __launch_bounds__(FEW_ROWS_BLOCK, FEW_ROWS_BLOCKS_PER_SM)
    transpose_few_rows(const __grid_constant__ transpose_args args, chunk_shape chunk, int64_t batch, corner first)
{
    pdl_wait();
    constexpr int V = word_traits<T>::V, W = word_traits<T>::W;
    static_assert(UNROLLED_ROWS % V == 0, "WIDTH determines width modulo V");
    using word = typename word_traits<T>::type;
    extern __shared__ uint4 memory[]; // the strip, then the chunk

    const matrix_origin begin = matrix_origin_of(args, batch + blockIdx.z);
    const int width = WIDTH < UNROLLED_ROWS ? WIDTH : chunk.width;
    const int64_t column = first.column + (int64_t)blockIdx.x * chunk.groups * V; // of the chunk
    const int columns = (int)min((int64_t)chunk.groups * V, args.columns - column);
    const T *x = (const T *)args.x + begin.x + column;
    T *out = (T *)args.out + begin.out + column * width;
    const strip strip = {(int)((uintptr_t)x % VECTOR),
                         strip_row_bytes<T>(chunk, args.x_row_stride),
                         width,
                         columns,
                         chunk.parallel_groups_log2 - WORDS_PER_VECTOR_LOG2<T>,
                         column >= VECTOR && args.columns - column >= chunk.groups * V + VECTOR};
    char *rows = (char *)memory;
    T *transposed = (T *)(memory + width * strip.step / VECTOR + 2);

    fetch_strip(args, strip, x, column, rows);
    __syncthreads(); // all rows are loaded before they are read

    const chunk_layout layout = layout_of(chunk, (const T *)out);
    const bool whole = layout.past % V == 0; // out has whole words
    const int parts =
        WIDTH < UNROLLED_ROWS ? 1 : max(1, FEW_ROWS_BLOCK >> chunk.parallel_groups_log2); // per group
    const int part = threadIdx.x >> chunk.parallel_groups_log2;
    const int steps = (width + V - 1) / V, share = (steps + parts - 1) / parts;
    const int step = WIDTH < UNROLLED_ROWS ? 0 : part * share,
              end = WIDTH < UNROLLED_ROWS ? steps : min(steps, step + share);

    if (part < parts && step < end)
        for (int group = threadIdx.x & (chunk.groups - 1); group < columns / V; group += FEW_ROWS_BLOCK) {
            const char *from = rows + strip.past + group * W;
            T *to = transposed + offset_in_chunk<T>(chunk, layout, group, 0);

            if (whole && (strip.past | strip.step) % W == 0)
                transpose_group<T, WIDTH % V>(
                    width, step, end, [&](int r) { return *(const word *)(from + r * strip.step); },
                    [&](int at, word transposed_word) { *(word *)(to + at) = transposed_word; });
            else
                transpose_group<T, WIDTH % V>(
                    width, step, end,
                    [&](int r) {
                        const uintptr_t at = (uintptr_t)(from + r * strip.step);
                        const word *two = (const word *)(at / W * W);

                        if constexpr (V > 1)
                            return at % W ? __funnelshift_r(two[0], two[1], at % W * 8) : two[0];
                        else
                            return *two;
                    },
                    [&](int at, word transposed_word) {
                        if (whole) {
                            *(word *)(to + at) = transposed_word;
                        } else {
#pragma unroll
                            for (int e = 0; e < V; e++)
                                to[at + e] = element_of<T>(transposed_word, e);
                        }
                    });
        }
    for (int t = threadIdx.x; t < columns % V * width; t += FEW_ROWS_BLOCK) { // columns that do not fill a group
        const int c = columns / V * V + t % (columns % V), r = t / (columns % V);

        transposed[offset_in_chunk<T>(chunk, layout, c / V, c % V) + r] =
            ((const T *)(rows + strip.past + r * strip.step))[c];
    }
    __syncthreads(); // the chunk is complete before vectors of it are stored

    for_each_packed_unit<T>(
        chunk, layout, 0, columns * width,
        [&](auto unit, int at, int to) {
            *(decltype(unit) *)(out + at) = ((const decltype(unit) *)transposed)[to];
        },
        [&](int at, int to) { out[at] = transposed[to]; });
}

// The chunk for matrices with `many` rows of `width` columns. A thread stores rows of out that are a multiple of V
// apart, or just one, so that they have the same misalignment.
template <class T>
static chunk_shape gathered_shape(int64_t batches, int64_t many, int width, bool flat)
{
    constexpr int V = word_traits<T>::V, WARP_LOG2 = 5;
    const int group = width * word_traits<T>::W; // bytes
    const int64_t share = batches * many * width * (int)sizeof(T) / MANY_CHUNKS;
    const int fitting = (int)std::max<int64_t>(MIN_CHUNK_BYTES, std::min<int64_t>(CHUNK_BYTES, share));
    int parallel_groups_log2 = WARP_LOG2;

    while (BLOCK >> (parallel_groups_log2 + 1) >= std::min(V, width) &&
           group << (parallel_groups_log2 + 1) <= fitting && V << parallel_groups_log2 < many)
        parallel_groups_log2++;

    const int64_t most = std::max(1, fitting / (group << parallel_groups_log2));
    return {(int)std::min(most, ceil_div(many + V, V << parallel_groups_log2)) << parallel_groups_log2,
            width,
            parallel_groups_log2,
            small_reciprocal(width),
            width % 2 == 0,
            flat};
}

template <class T>
static int bytes_of(const chunk_shape &chunk)
{
    return (chunk.groups + word_traits<T>::EXTRA_GROUPS) * (chunk.width | 1) * word_traits<T>::W + VECTOR;
}

// Few columns: words of out are gathered from a chunk of x.
template <class T>
static cudaError_t gather(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_traits<T>::V;
    const chunk_shape chunk =
        gathered_shape<T>(args->batches, args->rows, (int)std::min<int64_t>(args->columns, NARROW),
                          args->columns <= NARROW && args->x_row_stride == args->columns);

    return cover(args->batches, args->columns, args->rows + V - 1, chunk.width, chunk.groups * V,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_few_columns<T>>(grid, BLOCK, bytes_of<T>(chunk), stream, *args, chunk,
                                                             batch, first);
                 });
}

// The chunk for matrices with few rows of `many` columns.
template <class T>
static chunk_shape scattered_shape(int64_t batches, int64_t many, int width)
{
    constexpr int V = word_traits<T>::V, W = word_traits<T>::W;
    const int64_t share = batches * many * width * (int)sizeof(T) / FEW_ROWS_TARGET_BLOCKS;
    const int most = std::max(FEW_ROWS_TILE_BYTES, width * LONG_ROW);
    const int fitting = (int)std::max<int64_t>(FEW_ROWS_MIN_TILE_BYTES, std::min<int64_t>(most, share));
    int parallel_groups_log2 = 0;

    while (W << parallel_groups_log2 < FEW_ROWS_MIN_ROW_BYTES ||
           (width * W << (parallel_groups_log2 + 1) <= fitting && V << parallel_groups_log2 < many))
        parallel_groups_log2++;
    return {1 << parallel_groups_log2, width, parallel_groups_log2, small_reciprocal(width), width % 8 == 0, true};
}

// Few rows: words of x are scattered to a chunk of out.
template <class T>
static cudaError_t scatter(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_traits<T>::V, W = word_traits<T>::W;
    const int width = (int)args->rows;
    const chunk_shape chunk = scattered_shape<T>(args->batches, args->columns, width);
    const int bytes = width * strip_row_bytes<T>(chunk, args->x_row_stride) +
                      chunk.groups * (width + chunk.gap) * W + 4 * VECTOR;

    return dispatch<1, 2, 3, 4, 5, 6, 7>(
        V > 1 && width < UNROLLED_ROWS ? width : UNROLLED_ROWS + width % V, [&](auto value) {
            constexpr int VALUE = decltype(value)::value;
            constexpr int WIDTH =
                V > 1 && VALUE < UNROLLED_ROWS + V ? VALUE : UNROLLED_ROWS; // other values do not occur

            return cover(args->batches, 1, args->columns, 1, chunk.groups * V,
                         [&](dim3 grid, int64_t batch, corner first) {
                             return launch<transpose_few_rows<T, WIDTH>>(grid, FEW_ROWS_BLOCK, bytes, stream,
                                                                         *args, chunk, batch, first);
                         });
        });
}

cudaError_t launch_transpose_narrow(const transpose_args *args, cudaStream_t stream)
{
    const bool few_rows = args->rows <= NARROW && args->rows < args->columns && args->out_row_stride == args->rows;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        return few_rows ? scatter<T>(args, stream) : gather<T>(args, stream);
    });
}
