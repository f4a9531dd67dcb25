// The transpose by 16-byte vectors, of matrices with any strides.
//
// The idea: a block loads its tile of x in vectors, all of them in flight at once, into shared memory, and stores
// it to out in vectors: each warp stores 128 bytes of four rows. A thread makes a vector out of V elements of a
// column of the tile; it reads small elements as words of E elements and transposes E x E of them by byte
// permutes.
// Where all vectors are whole, the tile size is a compile-time constant and vectors pass through registers. Where
// rows are unaligned, tiles consist of 4-byte words, or of elements: see words.cuh. Tiles are then shifted up from
// row to row of out, so that each sector is written by one block (for 1-byte elements, each half sector). For
// small elements in rows of odd lengths, each sector is also read by as few blocks as possible: see sectors.cuh.
// Elements of 8 bytes or more are moved one by one through a padded tile. So are small arrays, where latency
// dominates. Tiles are numbered along the rows of out, so that two tiles that share a sector are written at about
// the same time: partial sector writes are slow.
// Launch: blocks of up to 256 threads, one block per tile of each x. A tile of vectors has about 16 KB, or 4 KB
// for small arrays; one of words 16 or 32 KB; they are no wider and no taller than x requires. A tile of sectors
// has 40 KB, one of elements 32 x 32 elements.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "sectors.cuh"
#include "tiles.cuh"
#include "vectors.cuh"
#include "words.cuh"

constexpr int MIN_BLOCK = 64, LOADS = 4;            // vectors per thread of a full tile
constexpr int64_t SMALL_TILE_MAX_VECTORS = 1 << 17; // up to this, tiles are smaller and a thread loads one vector
constexpr int64_t ELEMENTWISE_MAX_ELEMENTS = 1 << 18; // up to this, elements are moved one by one
constexpr int64_t FEW_BYTES = 5 << 20;                // up to this, tiles of whole vectors are smaller
constexpr int64_t SMALL_WORD_TILE_MAX_TILES = 64;     // fewer tiles of words than this are made smaller
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ / 100 == 10)
constexpr int ELEMENTS_BLOCKS_PER_SM = 8; // per multiprocessor, which has 2048 threads
#else
constexpr int ELEMENTS_BLOCKS_PER_SM = BLOCKS_PER_SM;
#endif

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    transpose_tiles(const __grid_constant__ transpose_args args, tile_layout tile, int64_t batch, corner first)
{
    extern __shared__ uint4 memory[];

    pdl_wait();
    const matrix_origin begin = matrix_origin_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const corner transposed = block_tile_origin(first, tile.columns, tile.rows);
    const corner at = {transposed.column, transposed.row};

    load_tile(args, tile, x, at, memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it
    store_tile(args, tile, out, at, memory);
}

// A tile of compile-time size, for matrices of whole vectors: a small one with two vectors per thread (SMALL), or
// a full one.
template <class T, bool SMALL>
struct static_tile {
    static constexpr int V = vector_traits<T>::V, VECTORS = SMALL ? BLOCK : MAX_TILE_VECTORS,
                         THREADS = SMALL ? BLOCK / 2 : BLOCK;
    static constexpr int ROWS = SMALL || V * GROUPS_PER_REQUEST > 64 ? V *GROUPS_PER_REQUEST : 64;
    static constexpr tile_layout SHAPE = make_tile_layout<T>(ROWS, VECTORS / ROWS);
    static constexpr int BLOCKS = SMALL ? 2 * BLOCKS_PER_SM : 4; // as many as the registers allow
};

template <class T, bool SMALL, bool BATCHED>
__global__ void __launch_bounds__(static_tile<T, SMALL>::THREADS, static_tile<T, SMALL>::BLOCKS)
    transpose_static_tile(const __grid_constant__ transpose_args args, int64_t batch, corner first)
{
    constexpr tile_layout tile = static_tile<T, SMALL>::SHAPE;
    constexpr int V = vector_traits<T>::V, E = vector_traits<T>::E;
    constexpr int THREADS = static_tile<T, SMALL>::THREADS, STEP = THREADS >> tile.across_log2;
    __shared__ uint4 memory[tile.rows / V * tile.group_stride];

    const matrix_origin begin = BATCHED ? matrix_origin_of(args, batch + blockIdx.z) : matrix_origin{0, 0};
    const corner transposed = block_tile_origin(first, tile.columns, tile.rows);
    const corner at = {transposed.column, transposed.row};
    const int i = threadIdx.x >> tile.across_log2, v = threadIdx.x & ((1 << tile.across_log2) - 1);
    const int rows = (int)min((int64_t)tile.rows, args.rows - at.row);
    const T *x = (const T *)args.x + begin.x + (at.row + i) * args.x_row_stride + at.column + v * V;
    const int64_t out_row_stride = args.out_row_stride / V; // vectors
    uint4 *out = (uint4 *)((T *)args.out + begin.out) + at.column * out_row_stride + at.row / V;
    uint4 moving[tile.rows / STEP];

    pdl_wait();
#pragma unroll
    for (int k = 0; k < tile.rows; k += STEP)
        if (i + k < rows && at.column + v * V < args.columns)
            moving[k / STEP] = *(const uint4 *)(x + k * args.x_row_stride);
#pragma unroll
    for (int k = 0; k < tile.rows; k += STEP)
        memory[(i + k) / V * tile.group_stride + ((i + k) % V << tile.across_log2) + v] = moving[k / STEP];
    __syncthreads(); // the tile is complete before anyone reads a column of it
#pragma unroll
    for (int first = 0; first < tile.tasks; first += THREADS / LANES) {
        const int task = first + threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const int octet = task & ((1 << tile.group_tasks_log2) - 1), quad = task >> tile.group_tasks_log2;
        const int group = octet * GROUPS_PER_REQUEST + lane % GROUPS_PER_REQUEST,
                  c = (quad * ACROSS + lane / GROUPS_PER_REQUEST) * E;

        if (task < tile.tasks && group * V < rows && at.column + c < args.columns) {
            uint4 vectors[E];

            transpose_group_of_tile<T>(tile, memory + group * tile.group_stride, c, vectors);
#pragma unroll
            for (int e = 0; e < E; e++)
                out[(c + e) * out_row_stride + group] = vectors[e];
        }
    }
}

constexpr int WORDS_BLOCKS_PER_SM = 4; // more would leave too little L1 cache, through which words are loaded

// The windows of out's rows start at multiples of ALIGNED bytes: a sector, or half of one for 1-byte elements, to
// limit redundant loads. A window is shifted up by up to UP groups; rows of out 2^PERIOD_LOG2 apart have the same
// shift.
template <class T>
struct windows {
    static constexpr int ALIGNED = sizeof(T) == 1 ? 16 : 32;
    static constexpr int UP = ALIGNED / word_traits<T>::W - (word_traits<T>::V == 1);
    static constexpr int PERIOD_LOG2 = sizeof(T) <= 2 ? 4 : sizeof(T) == 4 ? 3 : 2;
    static_assert(ALIGNED == sizeof(T) << PERIOD_LOG2);
};

// A tile of words, for unaligned rows.
struct word_tile {
    int across_log2, groups_log2; // words, groups
    int columns;                  // columns that the words contain for any alignment
    int group;                    // words between groups in shared memory
    int64_t dense;                // see count_contiguous
};

// Loads the rows of a tile as aligned words, including those of the UP groups above it. A thread loads the same
// word of rows that are a multiple of V apart, which have the same misalignment.
template <class T>
static __device__ void load_word_tile(const transpose_args &args, const word_tile &tile, const T *x, corner at,
                                      typename word_traits<T>::type *memory)
{
    constexpr int V = word_traits<T>::V, HALO_ROWS = windows<T>::UP * V;
    const int w = threadIdx.x & ((1 << tile.across_log2) - 1), step_log2 = BLOCK_LOG2 - tile.across_log2;
    const int begin = at.row > 0 ? 0 : HALO_ROWS; // x has no rows above the first
    const int end = (int)min((int64_t)V << tile.groups_log2, args.rows - at.row) + HALO_ROWS;
    int first = threadIdx.x >> tile.across_log2;

    first += steps_below(first, begin, step_log2) << step_log2;

    int count = steps_below(first, end, step_log2);
    const int64_t from_step = args.x_row_stride << step_log2;
    const int to_step = (tile.group << step_log2) / V;
    const T *from = x + (first - HALO_ROWS) * args.x_row_stride;
    const int c = w * V - word_misalignment(from);
    const int64_t column = at.column + c;
    typename word_traits<T>::type *to = memory + first / V * tile.group + ((first % V) << tile.across_log2) + w;

    from += c;

    int begin_whole = 0, end_whole = count; // rows whose whole word may be read
    if (column < 0 || column + V > args.columns) {
        const T *const all = (const T *)args.x, *const last = from + (count - 1) * from_step;

        if (column <= -V || column >= args.columns)
            count = 0;
        begin_whole = from < all;
        end_whole = tile.dense ? count - (last + V > all + tile.dense) : 0;
    }
    if (begin_whole > 0 || end_whole < count) // rows that start or end within the word
#pragma unroll 1
        for (int k = 0; k < count; k++)
            for (int e = 0; e < V; e++)
                if ((k < begin_whole || k >= end_whole) && column + e >= 0 && column + e < args.columns)
                    ((T *)(to + k * to_step))[e] = from[k * from_step + e];
    from += begin_whole * from_step;
    to += begin_whole * to_step;
#pragma unroll 4
    for (int k = begin_whole; k < end_whole; k++) {
        __pipeline_memcpy_async(to, from, word_traits<T>::W); // bypasses registers
        from += from_step;
        to += to_step;
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's copies; the caller adds a barrier
}

template <class T>
__global__ void __launch_bounds__(BLOCK, WORDS_BLOCKS_PER_SM)
    transpose_words(const __grid_constant__ transpose_args args, word_tile tile, int64_t batch, corner first)
{
    pdl_wait();
    constexpr int V = word_traits<T>::V;
    using word = typename word_traits<T>::type;
    extern __shared__ uint4 memory[];

    const matrix_origin begin = matrix_origin_of(args, batch + blockIdx.z);
    const corner transposed = block_tile_origin(first, tile.columns, V << tile.groups_log2);
    const corner at = {transposed.column, transposed.row};
    const T *x = (const T *)args.x + begin.x + at.row * args.x_row_stride + at.column;
    T *out = (T *)args.out + begin.out + at.column * args.out_row_stride + at.row;

    load_word_tile(args, tile, x, at, (word *)memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it

    constexpr int PERIOD_LOG2 = windows<T>::PERIOD_LOG2;
    const int group = threadIdx.x & ((1 << tile.groups_log2) - 1), step = BLOCK >> tile.groups_log2;
    const int columns = (int)min((int64_t)tile.columns, args.columns - at.column);
    int column = threadIdx.x >> tile.groups_log2;

    out += column * args.out_row_stride;

    const int past = word_misalignment(out);
    const word *above = (word *)memory + (windows<T>::UP - 1 + group) * tile.group;
    const T *sources[V];

#pragma unroll
    for (int q = 0; q < V; q++) {
        const int own = V == 1 || q + past < V; // otherwise of the group above

        sources[q] = (const T *)(above + own * tile.group + (q << tile.across_log2)) +
                     word_misalignment(x + q * args.x_row_stride) + column;
    }
#pragma unroll 1
    for (const int end = min(columns, column + (1 << PERIOD_LOG2)); column < end; column += step) {
        const int up = (int)((uintptr_t)out % windows<T>::ALIGNED / sizeof(word)), row = (group - up) * V - past;
        const T *shifted[V];

#pragma unroll
        for (int q = 0; q < V; q++) {
            shifted[q] = sources[q] - up * tile.group * V;
            sources[q] += step;
        }
        store_windows(args, out + row, at.row + row, past, shifted, steps_below(column, columns, PERIOD_LOG2),
                      PERIOD_LOG2);
        out += step * args.out_row_stride;
    }
}

constexpr int SECTORS_BLOCKS_PER_SM = 4; // as many as the registers allow

// the same, where rows of x start at every word of a sector
template <class T>
__global__ void __launch_bounds__(BLOCK, SECTORS_BLOCKS_PER_SM)
    transpose_sectors(const __grid_constant__ transpose_args args, int64_t dense, int64_t batch, corner first)
{
    pdl_wait();
    using tile = sector_tile<T>;
    extern __shared__ uint4 memory[];

    const matrix_origin begin = matrix_origin_of(args, batch + blockIdx.z);
    const corner transposed = block_tile_origin(first, tile::COLUMNS, tile::ROWS);
    const corner at = {transposed.column, transposed.row};
    const T *x = (const T *)args.x + begin.x + at.row * args.x_row_stride + at.column;
    T *out = (T *)args.out + begin.out + at.column * args.out_row_stride + at.row;
    const int columns = (int)min((int64_t)tile::COLUMNS, args.columns - at.column);

    load_sectors(args, dense, x, at, columns, memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it
    store_sectors(args, x, out, at, columns, memory);
}

static int64_t count_tiles(const transpose_args *args, int rows, int columns)
{
    return args->batches * ceil_div(args->rows, rows) * ceil_div(args->columns, columns);
}

template <class T>
static cudaError_t launch_words(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_traits<T>::V, W = word_traits<T>::W,
                  MAX_PAST = windows<T>::ALIGNED / (int)sizeof(T) - 1;
    constexpr int ACROSS_LOG2 = sizeof(T) == 1 ? 5 : 6, DOWN_LOG2 = ACROSS_LOG2;
    constexpr int MIN_DOWN_LOG2 = BLOCK_LOG2 - windows<T>::PERIOD_LOG2; // one row of a period per thread
    word_tile tile = {ACROSS_LOG2, DOWN_LOG2, 0, 0, count_contiguous(args)};

    while (tile.across_log2 > 3 && V << (tile.across_log2 - 1) >= args->columns)
        tile.across_log2--;
    while (tile.groups_log2 > MIN_DOWN_LOG2 && V << (tile.groups_log2 - 1) >= args->rows + MAX_PAST)
        tile.groups_log2--;
    if (tile.groups_log2 > std::max(5, MIN_DOWN_LOG2) &&
        count_tiles(args, V << tile.groups_log2, V << tile.across_log2) < SMALL_WORD_TILE_MAX_TILES)
        tile.groups_log2--;
    if (tile.across_log2 > 4 &&
        count_tiles(args, V << tile.groups_log2, V << tile.across_log2) < SMALL_WORD_TILE_MAX_TILES)
        tile.across_log2--;
    tile.columns = (V << tile.across_log2) - (V - 1);
    tile.group = (V << tile.across_log2) + (tile.groups_log2 < 5 ? 32 >> tile.groups_log2 : 1);
    const int bytes = ((1 << tile.groups_log2) + windows<T>::UP) * tile.group * W;

    return cover(args->batches, args->columns, args->rows + MAX_PAST, tile.columns, V << tile.groups_log2,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_words<T>>(grid, BLOCK, bytes, stream, *args, tile, batch, first);
                 });
}

// whether rows of x start at every word of a sector, and there are many, mostly full tiles
template <class T>
static bool suits_sectors(const transpose_args *args)
{
    using tile = sector_tile<T>;
    constexpr int64_t FEW_ELEMENTS = sizeof(T) == 1 ? 1 << 22 : 0;
    const int64_t elements = args->batches * args->rows * args->columns;
    const int64_t rows = ceil_div(args->rows + tile::HALO_ROWS - 1, tile::ROWS) * tile::ROWS;
    const int64_t columns = ceil_div(args->columns, tile::COLUMNS) * tile::COLUMNS;

    return args->x_row_stride % 2 != 0 && count_contiguous(args) && elements > FEW_ELEMENTS &&
           2 * elements > args->batches * rows * columns;
}

template <class T>
static cudaError_t launch_sectors(const transpose_args *args, cudaStream_t stream)
{
    using tile = sector_tile<T>;

    return cover(args->batches, args->columns, args->rows + tile::HALO_ROWS - 1, tile::COLUMNS, tile::ROWS,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_sectors<T>>(grid, BLOCK, tile::BYTES, stream, *args,
                                                         count_contiguous(args), batch, first);
                 });
}

// Element by element through a padded tile: for elements of 8 bytes or more, and for small arrays, where every
// instruction before the first load counts.
template <class T, bool BATCHED>
__global__ void __launch_bounds__(BLOCK, sizeof(T) <= 4 ? ELEMENTS_BLOCKS_PER_SM : 1)
    transpose_elements(const __grid_constant__ transpose_args args, int64_t batch, corner first)
{
    constexpr int TILE = 32, TILE_ROWS = BLOCK / TILE;
    __shared__ T tile[TILE][TILE + vector_traits<T>::E]; // padded by a word: no bank conflicts in columns

    const int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
    const matrix_origin begin = BATCHED ? matrix_origin_of(args, batch + blockIdx.z) : matrix_origin{0, 0};
    const corner transposed = block_tile_origin(first, TILE);
    const int64_t row = transposed.column, column = transposed.row; // of the tile
    const T *x = (const T *)args.x + begin.x + (row + ty) * args.x_row_stride + column + tx;
    T *out = (T *)args.out + begin.out + (column + ty) * args.out_row_stride + row + tx;
    const int rows = (int)min((int64_t)TILE, args.rows - row),
              columns = (int)min((int64_t)TILE, args.columns - column);
    T moving[TILE / TILE_ROWS];

    pdl_wait();
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < rows && tx < columns)
            moving[j] = x[j * TILE_ROWS * args.x_row_stride];
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < rows && tx < columns)
            tile[ty + j * TILE_ROWS][tx] = moving[j];
    __syncthreads(); // the tile is complete before anyone reads a column of it
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < columns && tx < rows)
            out[j * TILE_ROWS * args.out_row_stride] = tile[tx][ty + j * TILE_ROWS];
}

template <class T>
static cudaError_t launch_elements(const transpose_args *args, cudaStream_t stream)
{
    constexpr int TILE = 32;

    return dispatch<0, 1>(args->batches > 1, [&](auto batched) {
        return cover(args->batches, args->columns, args->rows, TILE, [&](dim3 grid, int64_t batch, corner first) {
            return launch<transpose_elements<T, decltype(batched)::value>>(grid, BLOCK, 0, stream, *args, batch,
                                                                           first);
        });
    });
}

// The tile for matrices of this shape: about as many contiguous bytes in x as in out, unless a matrix has fewer
// rows or columns.
template <class T>
static tile_layout choose_tile_layout(const transpose_args *args, int vectors)
{
    constexpr int V = vector_traits<T>::V, TASK_ROWS = GROUPS_PER_REQUEST * V,
                  TASK_COLUMNS = ACROSS * vector_traits<T>::E;
    constexpr int MIN_ACROSS = TASK_COLUMNS > V ? TASK_COLUMNS / V : 1;    // vectors per row
    constexpr int BALANCED = sizeof(T) == 1 ? 8 : sizeof(T) < 8 ? 16 : 32; // vectors per row
    int across = std::min(vectors < MAX_TILE_VECTORS ? BALANCED / 2 : BALANCED, vectors / TASK_ROWS), rows;

    while (across > MIN_ACROSS && across / 2 * V >= args->columns)
        across /= 2;
    rows = vectors / across;
    while (rows > TASK_ROWS && rows / 2 >= args->rows)
        rows /= 2;
    while (std::min<int64_t>(rows, args->rows) * across < vectors && rows * across < 2 * vectors &&
           across * V < args->columns)
        across *= 2;
    return make_tile_layout<T>(rows, across);
}

template <class T, bool SMALL>
static cudaError_t launch_static_tile(const transpose_args *args, cudaStream_t stream)
{
    using whole = static_tile<T, SMALL>;

    return dispatch<0, 1>(args->batches > 1, [&](auto batched) {
        return cover(args->batches, args->columns, args->rows, whole::SHAPE.columns, whole::SHAPE.rows,
                     [&](dim3 grid, int64_t batch, corner first) {
                         return launch<transpose_static_tile<T, SMALL, decltype(batched)::value>>(
                             grid, whole::THREADS, 0, stream, *args, batch, first);
                     });
    });
}

// whether the tile for matrices of this shape is the compile-time one, and they consist of whole vectors
template <class T, bool SMALL>
static bool static_tile_fits(const transpose_args *args)
{
    constexpr tile_layout whole = static_tile<T, SMALL>::SHAPE;
    const tile_layout tile = choose_tile_layout<T>(args, static_tile<T, SMALL>::VECTORS);

    return tile.rows == whole.rows && tile.columns == whole.columns && args->rows % vector_traits<T>::V == 0 &&
           args->columns % vector_traits<T>::V == 0;
}

template <class T>
static cudaError_t launch_vectors(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = vector_traits<T>::V;
    const bool few = args->batches * args->rows * args->columns <= SMALL_TILE_MAX_VECTORS * V;
    const tile_layout tile = choose_tile_layout<T>(args, few ? BLOCK : MAX_TILE_VECTORS);
    const int vectors = tile.rows << tile.across_log2;
    const int block = std::max(MIN_BLOCK, std::min(BLOCK, few ? vectors : vectors / LOADS));
    const int bytes = tile.rows / V * tile.group_stride * VECTOR;

    return cover(args->batches, args->columns, args->rows, tile.columns, tile.rows,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_tiles<T>>(grid, block, bytes, stream, *args, tile, batch, first);
                 });
}

cudaError_t launch_transpose_tiles(const transpose_args *args, cudaStream_t stream)
{
    const bool aligned =
        rows_are_vector_aligned(args->x, args->x_row_stride, args, &batch_dimension::x_stride) &&
        rows_are_vector_aligned(args->out, args->out_row_stride, args, &batch_dimension::out_stride);

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        const int64_t elements = args->batches * args->rows * args->columns;
        if constexpr (sizeof(T) < 8)
            if (aligned && elements > ELEMENTWISE_MAX_ELEMENTS) {
                if (elements * (int)sizeof(T) <= FEW_BYTES && static_tile_fits<T, true>(args))
                    return launch_static_tile<T, true>(args, stream);
                if (elements * (int)sizeof(T) > FEW_BYTES && static_tile_fits<T, false>(args))
                    return launch_static_tile<T, false>(args, stream);
            }
        const int64_t few = sizeof(T) >= 8 ? INT64_MAX : sizeof(T) == 4 ? 1 << 21 : aligned ? 1 << 18 : 1 << 20;
        if (elements <= few && transpose_fills_tiles(args))
            return launch_elements<T>(args, stream);
        if constexpr (sizeof(T) < 4)
            if (!aligned && suits_sectors<T>(args))
                return launch_sectors<T>(args, stream);
        if constexpr (sizeof(T) < VECTOR)
            if (!aligned)
                return launch_words<T>(args, stream);
        return launch_vectors<T>(args, stream);
    });
}
