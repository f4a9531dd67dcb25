// The transpose by vectors of 16 bytes, of matrices that lie anyhow.
//
// The idea: a block loads its tile of x in vectors, all of them before the first is needed, into shared memory,
// and stores it to out in vectors: a warp 128 bytes of each of four rows. A thread makes a vector out of V
// elements of a column of the tile; small elements it reads as words of E, which it turns with those of E rows by
// byte permutes. Where all vectors are whole, the tile is known when this is compiled, and its vectors come
// through registers. Where rows begin anywhere, words of 4 bytes are the vectors, or elements: see words.cuh.
// Tiles then move up from row to row of out, for each sector to be written by one block; of bytes, each half. Of
// small elements in rows of odd lengths a sector is also read by as few blocks as can be: see sectors.cuh.
// Elements of 8 bytes or more are moved one by one through a padded tile, and so is what there is little of, which
// waits for its loads and not for their number. Tiles are numbered along the rows of out, for what two of them
// share to be written at about the same time: memory is slow to write a part of a sector.
// In place, where x is out, a block exchanges two tiles; every row has to begin at a multiple of 16 then.
// What the rung below wasted: an instruction for each element, most of the bytes that could be on their way, and
// on rows of odd lengths a sector at either end of whatever a warp moves.
// Launch: blocks of up to 256 threads, one for each tile of each x, or for two of them in place; a tile of vectors
// has about 16 KB, or 4 KB of little, one of words 16 or 32 KB, and they are as narrow or as low as x is; one of
// sectors 40 KB; one of elements has 32 by 32 of them.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "sectors.cuh"
#include "tiles.cuh"
#include "vectors.cuh"
#include "words.cuh"

constexpr int LEAST_BLOCK = 64, LOADS = 4; // vectors that a thread of a full tile loads
constexpr int64_t FEW_VECTORS = 1 << 17;   // of which tiles are smaller, and a thread loads one
constexpr int64_t FEW_ELEMENTS = 1 << 18;  // which are moved one by one
constexpr int64_t FEW_BYTES = 5 << 20;     // of whole vectors: their tiles are smaller, too
constexpr int64_t FEW_TILES = 64;          // of words: they are smaller
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ / 100 == 10)
constexpr int ELEMENT_BLOCKS = 8; // of a multiprocessor, which has 2048 threads
#else
constexpr int ELEMENT_BLOCKS = BLOCKS_AN_SM;
#endif

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_vectorized(const __grid_constant__ transpose_args args, tile_shape tile, int64_t batch, corner first)
{
    extern __shared__ uint4 memory[];

    wait_for_earlier();
    const plane begin = plane_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const corner turned = corner_of_block(first, tile.columns, tile.rows);
    const corner at = {turned.column, turned.row};

    load_tile(args, tile, x, at, memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it
    store_tile(args, tile, out, at, memory);
}

// A tile that is known when this is compiled, of matrices that are whole vectors: one of little, with two of them
// a thread, or a full one.
template <class T, bool FEW>
struct whole_tile {
    static constexpr int V = pieces<T>::V, VECTORS = FEW ? BLOCK : TILE_VECTORS, THREADS = FEW ? BLOCK / 2 : BLOCK;
    static constexpr int ROWS = FEW || V * SPREAD > 64 ? V *SPREAD : 64;
    static constexpr tile_shape SHAPE = make_shape<T>(ROWS, VECTORS / ROWS);
    static constexpr int BLOCKS = FEW ? 2 * BLOCKS_AN_SM : 4; // for which there are registers
};

template <class T, bool FEW, bool BATCHED>
__global__ void __launch_bounds__(whole_tile<T, FEW>::THREADS, whole_tile<T, FEW>::BLOCKS)
    transpose_whole(const __grid_constant__ transpose_args args, int64_t batch, corner first)
{
    constexpr tile_shape tile = whole_tile<T, FEW>::SHAPE;
    constexpr int V = pieces<T>::V, E = pieces<T>::E;
    constexpr int THREADS = whole_tile<T, FEW>::THREADS, STEP = THREADS >> tile.across_log2;
    __shared__ uint4 memory[tile.rows / V * tile.group_vectors];

    const plane begin = BATCHED ? plane_of(args, batch + blockIdx.z) : plane{0, 0};
    const corner turned = corner_of_block(first, tile.columns, tile.rows);
    const corner at = {turned.column, turned.row};
    const int i = threadIdx.x >> tile.across_log2, v = threadIdx.x & ((1 << tile.across_log2) - 1);
    const int rows = (int)min((int64_t)tile.rows, args.rows - at.row);
    const T *x = (const T *)args.x + begin.x + (at.row + i) * args.x_pitch + at.column + v * V;
    const int64_t out_pitch = args.out_pitch / V; // vectors
    uint4 *out = (uint4 *)((T *)args.out + begin.out) + at.column * out_pitch + at.row / V;
    uint4 moving[tile.rows / STEP];

    wait_for_earlier();
#pragma unroll
    for (int k = 0; k < tile.rows; k += STEP)
        if (i + k < rows && at.column + v * V < args.columns)
            moving[k / STEP] = *(const uint4 *)(x + k * args.x_pitch);
#pragma unroll
    for (int k = 0; k < tile.rows; k += STEP)
        memory[(i + k) / V * tile.group_vectors + ((i + k) % V << tile.across_log2) + v] = moving[k / STEP];
    __syncthreads(); // the tile is complete before anyone reads a column of it
#pragma unroll
    for (int first = 0; first < tile.tasks; first += THREADS / LANES) {
        const int task = first + threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const int octet = task & ((1 << tile.octets_log2) - 1), quad = task >> tile.octets_log2;
        const int group = octet * SPREAD + lane % SPREAD, c = (quad * ACROSS + lane / SPREAD) * E;

        if (task < tile.tasks && group * V < rows && at.column + c < args.columns) {
            uint4 vectors[E];

            turn_rows<T>(tile, memory + group * tile.group_vectors, c, vectors);
#pragma unroll
            for (int e = 0; e < E; e++)
                out[(c + e) * out_pitch + group] = vectors[e];
        }
    }
}

constexpr int WORD_BLOCKS = 4; // more would leave too little of the cache that words come through

// The windows of a tile's rows of out begin at multiples of so many bytes, a sector or, not to load too much
// twice, half of one: up to UP groups above the tile, and those of every 2^PERIOD_LOG2-th row as many.
template <class T>
struct windows {
    static constexpr int ALIGNED = sizeof(T) == 1 ? 16 : 32;
    static constexpr int UP = ALIGNED / word_of<T>::W - (word_of<T>::V == 1);
    static constexpr int PERIOD_LOG2 = sizeof(T) <= 2 ? 4 : sizeof(T) == 4 ? 3 : 2;
    static_assert(ALIGNED == sizeof(T) << PERIOD_LOG2);
};

// Where rows begin anywhere: a tile of words.
struct word_tile {
    int across_log2, down_log2; // words, groups
    int columns;                // that are sure to be there, wherever rows begin
    int group;                  // words from one to the next in shared memory
    int64_t dense;              // see count_dense
};

// Rows of a tile as their words lie, from those of the UP groups above it on. A thread has one word of every so
// many rows, a multiple of V: they are shifted alike.
template <class T>
static __device__ void load_words(const transpose_args &args, const word_tile &tile, const T *x, corner at,
                                  typename word_of<T>::type *memory)
{
    constexpr int V = word_of<T>::V, ABOVE = windows<T>::UP * V;
    const int w = threadIdx.x & ((1 << tile.across_log2) - 1), step_log2 = BLOCK_LOG2 - tile.across_log2;
    const int begin = at.row > 0 ? 0 : ABOVE; // x has no rows above the first
    const int end = (int)min((int64_t)V << tile.down_log2, args.rows - at.row) + ABOVE;
    int first = threadIdx.x >> tile.across_log2;

    first += count_steps(first, begin, step_log2) << step_log2;

    int count = count_steps(first, end, step_log2);
    const int64_t from_step = args.x_pitch << step_log2;
    const int to_step = (tile.group << step_log2) / V;
    const T *from = x + (first - ABOVE) * args.x_pitch;
    const int c = w * V - elements_past_word(from);
    const int64_t column = at.column + c;
    typename word_of<T>::type *to = memory + first / V * tile.group + ((first % V) << tile.across_log2) + w;

    from += c;

    int begin_whole = 0, end_whole = count; // rows of which all of this word may be read
    if (column < 0 || column + V > args.columns) {
        const T *const all = (const T *)args.x, *const last = from + (count - 1) * from_step;

        if (column <= -V || column >= args.columns)
            count = 0;
        begin_whole = from < all;
        end_whole = tile.dense ? count - (last + V > all + tile.dense) : 0;
    }
    if (begin_whole > 0 || end_whole < count) // rows begin or end in it
#pragma unroll 1
        for (int k = 0; k < count; k++)
            for (int e = 0; e < V; e++)
                if ((k < begin_whole || k >= end_whole) && column + e >= 0 && column + e < args.columns)
                    ((T *)(to + k * to_step))[e] = from[k * from_step + e];
    from += begin_whole * from_step;
    to += begin_whole * to_step;
#pragma unroll 4
    for (int k = begin_whole; k < end_whole; k++) {
        __pipeline_memcpy_async(to, from, word_of<T>::W); // through no register
        from += from_step;
        to += to_step;
    }
    __pipeline_commit();
    __pipeline_wait_prior(0); // for this thread's; a barrier is still to come
}

template <class T>
__global__ void __launch_bounds__(BLOCK, WORD_BLOCKS)
    transpose_words(const __grid_constant__ transpose_args args, word_tile tile, int64_t batch, corner first)
{
    wait_for_earlier();
    constexpr int V = word_of<T>::V;
    using word = typename word_of<T>::type;
    extern __shared__ uint4 memory[];

    const plane begin = plane_of(args, batch + blockIdx.z);
    const corner turned = corner_of_block(first, tile.columns, V << tile.down_log2);
    const corner at = {turned.column, turned.row};
    const T *x = (const T *)args.x + begin.x + at.row * args.x_pitch + at.column;
    T *out = (T *)args.out + begin.out + at.column * args.out_pitch + at.row;

    load_words(args, tile, x, at, (word *)memory);
    __syncthreads(); // the tile is complete before anyone reads a column of it

    constexpr int PERIOD_LOG2 = windows<T>::PERIOD_LOG2;
    const int group = threadIdx.x & ((1 << tile.down_log2) - 1), step = BLOCK >> tile.down_log2;
    const int columns = (int)min((int64_t)tile.columns, args.columns - at.column);
    int column = threadIdx.x >> tile.down_log2;

    out += column * args.out_pitch;

    const int past = elements_past_word(out);
    const word *above = (word *)memory + (windows<T>::UP - 1 + group) * tile.group;
    const T *places[V];

#pragma unroll
    for (int q = 0; q < V; q++) {
        const int own = V == 1 || q + past < V; // else it is of the group above

        places[q] = (const T *)(above + own * tile.group + (q << tile.across_log2)) +
                    elements_past_word(x + q * args.x_pitch) + column;
    }
#pragma unroll 1
    for (const int end = min(columns, column + (1 << PERIOD_LOG2)); column < end; column += step) {
        const int up = (int)((uintptr_t)out % windows<T>::ALIGNED / sizeof(word)), row = (group - up) * V - past;
        const T *shifted[V];

#pragma unroll
        for (int q = 0; q < V; q++) {
            shifted[q] = places[q] - up * tile.group * V;
            places[q] += step;
        }
        store_windows(args, out + row, at.row + row, past, shifted, count_steps(column, columns, PERIOD_LOG2),
                      PERIOD_LOG2);
        out += step * args.out_pitch;
    }
}

constexpr int SECTOR_BLOCKS = 4; // for which there are registers

// likewise, where rows of x begin at all the words of a sector
template <class T>
__global__ void __launch_bounds__(BLOCK, SECTOR_BLOCKS)
    transpose_sectors(const __grid_constant__ transpose_args args, int64_t dense, int64_t batch, corner first)
{
    wait_for_earlier();
    using tile = sector_tile<T>;
    extern __shared__ uint4 memory[];

    const plane begin = plane_of(args, batch + blockIdx.z);
    const corner turned = corner_of_block(first, tile::COLUMNS, tile::ROWS);
    const corner at = {turned.column, turned.row};
    const T *x = (const T *)args.x + begin.x + at.row * args.x_pitch + at.column;
    T *out = (T *)args.out + begin.out + at.column * args.out_pitch + at.row;
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
    constexpr int V = word_of<T>::V, W = word_of<T>::W, MOST_PAST = windows<T>::ALIGNED / (int)sizeof(T) - 1;
    constexpr int ACROSS_LOG2 = sizeof(T) == 1 ? 5 : 6, DOWN_LOG2 = ACROSS_LOG2;
    constexpr int LEAST_DOWN_LOG2 = BLOCK_LOG2 - windows<T>::PERIOD_LOG2; // of a period's rows one a thread
    word_tile tile = {ACROSS_LOG2, DOWN_LOG2, 0, 0, count_dense(args)};

    while (tile.across_log2 > 3 && V << (tile.across_log2 - 1) >= args->columns)
        tile.across_log2--;
    while (tile.down_log2 > LEAST_DOWN_LOG2 && V << (tile.down_log2 - 1) >= args->rows + MOST_PAST)
        tile.down_log2--;
    if (tile.down_log2 > std::max(5, LEAST_DOWN_LOG2) &&
        count_tiles(args, V << tile.down_log2, V << tile.across_log2) < FEW_TILES)
        tile.down_log2--;
    if (tile.across_log2 > 4 && count_tiles(args, V << tile.down_log2, V << tile.across_log2) < FEW_TILES)
        tile.across_log2--;
    tile.columns = (V << tile.across_log2) - (V - 1);
    tile.group = (V << tile.across_log2) + (tile.down_log2 < 5 ? 32 >> tile.down_log2 : 1);
    const int bytes = ((1 << tile.down_log2) + windows<T>::UP) * tile.group * W;

    return cover(args->batches, args->columns, args->rows + MOST_PAST, tile.columns, V << tile.down_log2,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_words<T>>(grid, BLOCK, bytes, stream, *args, tile, batch, first);
                 });
}

// whether rows of x begin at all the words of a sector, and tiles are many and mostly full
template <class T>
static bool takes_sectors(const transpose_args *args)
{
    using tile = sector_tile<T>;
    constexpr int64_t FEW = sizeof(T) == 1 ? 1 << 22 : 0;
    const int64_t elements = args->batches * args->rows * args->columns;
    const int64_t rows = ceil_div(args->rows + tile::ABOVE - 1, tile::ROWS) * tile::ROWS;
    const int64_t columns = ceil_div(args->columns, tile::COLUMNS) * tile::COLUMNS;

    return args->x_pitch % 2 != 0 && count_dense(args) && elements > FEW &&
           2 * elements > args->batches * rows * columns;
}

template <class T>
static cudaError_t launch_sectors(const transpose_args *args, cudaStream_t stream)
{
    using tile = sector_tile<T>;

    return cover(args->batches, args->columns, args->rows + tile::ABOVE - 1, tile::COLUMNS, tile::ROWS,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_sectors<T>>(grid, BLOCK, tile::BYTES, stream, *args,
                                                         count_dense(args), batch, first);
                 });
}

// Element by element, padded: what is large enough for it, or what there is little of. Then every instruction
// counts that stands before the first load.
template <class T, bool BATCHED>
__global__ void __launch_bounds__(BLOCK, sizeof(T) <= 4 ? ELEMENT_BLOCKS : 1)
    transpose_elements(const __grid_constant__ transpose_args args, int64_t batch, corner first)
{
    constexpr int TILE = 32, TILE_ROWS = BLOCK / TILE;
    __shared__ T tile[TILE][TILE + pieces<T>::E]; // a word more: columns are without conflicts

    const int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
    const plane begin = BATCHED ? plane_of(args, batch + blockIdx.z) : plane{0, 0};
    const corner turned = corner_of_block(first, TILE);
    const int64_t row = turned.column, column = turned.row; // of the tile
    const T *x = (const T *)args.x + begin.x + (row + ty) * args.x_pitch + column + tx;
    T *out = (T *)args.out + begin.out + (column + ty) * args.out_pitch + row + tx;
    const int rows = (int)min((int64_t)TILE, args.rows - row),
              columns = (int)min((int64_t)TILE, args.columns - column);
    T moving[TILE / TILE_ROWS];

    wait_for_earlier();
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < rows && tx < columns)
            moving[j] = x[j * TILE_ROWS * args.x_pitch];
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < rows && tx < columns)
            tile[ty + j * TILE_ROWS][tx] = moving[j];
    __syncthreads(); // the tile is complete before anyone reads a column of it
#pragma unroll
    for (int j = 0; j < TILE / TILE_ROWS; j++)
        if (ty + j * TILE_ROWS < columns && tx < rows)
            out[j * TILE_ROWS * args.out_pitch] = tile[tx][ty + j * TILE_ROWS];
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

// In place: a block exchanges a tile with the one on the other side of the diagonal. The tiles of the half above
// it, whose rows have `side` of them, which is odd, are folded to a rectangle of (side + 1) / 2 rows.
template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_exchanged(const __grid_constant__ transpose_args args, tile_shape tile, int side, int64_t batch,
                        corner first)
{
    extern __shared__ uint4 memory[]; // two tiles

    wait_for_earlier();
    T *x = (T *)args.out + plane_of(args, batch + blockIdx.z).out;
    const corner block = corner_of_block(first, 1);
    const bool folded = block.column < block.row;
    const int64_t i = (folded ? side - block.row : block.row) * tile.rows;
    const int64_t j = (folded ? side - 1 - block.column : block.column) * tile.rows;
    const corner upper = {i, j}, lower = {j, i};
    uint4 *other = memory + tile.rows / pieces<T>::V * tile.group_vectors;

    load_tile(args, tile, x, upper, memory);
    if (i != j)
        load_tile(args, tile, x, lower, other);
    __syncthreads(); // both have been read before either is overwritten
    store_tile(args, tile, x, upper, memory);
    if (i != j)
        store_tile(args, tile, x, lower, other);
}

// The tile for matrices of this shape: about as many bytes side by side in x as in out, unless a matrix has fewer
// rows or columns than that.
template <class T>
static tile_shape shape_of(const transpose_args *args, int vectors)
{
    constexpr int V = pieces<T>::V, OCTET = SPREAD * V, QUAD = ACROSS * pieces<T>::E;
    constexpr int LEAST = QUAD > V ? QUAD / V : 1;                         // vectors a row
    constexpr int BALANCED = sizeof(T) == 1 ? 8 : sizeof(T) < 8 ? 16 : 32; // likewise
    int across = std::min(vectors < TILE_VECTORS ? BALANCED / 2 : BALANCED, vectors / OCTET), rows;

    while (across > LEAST && across / 2 * V >= args->columns)
        across /= 2;
    rows = vectors / across;
    while (rows > OCTET && rows / 2 >= args->rows)
        rows /= 2;
    while (std::min<int64_t>(rows, args->rows) * across < vectors && rows * across < 2 * vectors &&
           across * V < args->columns)
        across *= 2;
    return make_shape<T>(rows, across);
}

template <class T, bool FEW>
static cudaError_t launch_whole(const transpose_args *args, cudaStream_t stream)
{
    using whole = whole_tile<T, FEW>;

    return dispatch<0, 1>(args->batches > 1, [&](auto batched) {
        return cover(args->batches, args->columns, args->rows, whole::SHAPE.columns, whole::SHAPE.rows,
                     [&](dim3 grid, int64_t batch, corner first) {
                         return launch<transpose_whole<T, FEW, decltype(batched)::value>>(
                             grid, whole::THREADS, 0, stream, *args, batch, first);
                     });
    });
}

// whether the tile for matrices of this shape is this one, and they are whole vectors
template <class T, bool FEW>
static bool takes_whole(const transpose_args *args)
{
    constexpr tile_shape whole = whole_tile<T, FEW>::SHAPE;
    const tile_shape tile = shape_of<T>(args, whole_tile<T, FEW>::VECTORS);

    return tile.rows == whole.rows && tile.columns == whole.columns && args->rows % pieces<T>::V == 0 &&
           args->columns % pieces<T>::V == 0;
}

template <class T>
static cudaError_t launch_vectors(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V;
    const bool few = args->batches * args->rows * args->columns <= FEW_VECTORS * V;
    const tile_shape tile = shape_of<T>(args, few ? BLOCK : TILE_VECTORS);
    const int vectors = tile.rows << tile.across_log2;
    const int block = std::max(LEAST_BLOCK, std::min(BLOCK, few ? vectors : vectors / LOADS));
    const int bytes = tile.rows / V * tile.group_vectors * VECTOR;

    return cover(args->batches, args->columns, args->rows, tile.columns, tile.rows,
                 [&](dim3 grid, int64_t batch, corner first) {
                     return launch<transpose_vectorized<T>>(grid, block, bytes, stream, *args, tile, batch, first);
                 });
}

template <class T>
static cudaError_t launch_exchange(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V, SIDE = sizeof(T) == 1 ? 128 : sizeof(T) < 8 ? 64 : 32;
    const tile_shape tile = make_shape<T>(SIDE, SIDE / V);
    const int side = (int)ceil_div(args->rows, SIDE) | 1;

    return cover(args->batches, (side + 1) / 2, side, 1, [&](dim3 grid, int64_t batch, corner first) {
        return launch<transpose_exchanged<T>>(grid, BLOCK, 2 * SIDE / V * tile.group_vectors * VECTOR, stream,
                                              *args, tile, side, batch, first);
    });
}

cudaError_t launch_transpose_vectorized(const transpose_args *args, cudaStream_t stream)
{
    const bool x_aligned = are_aligned(args->x, args->x_pitch, args, &batch_dimension::x_step);
    const bool out_aligned = are_aligned(args->out, args->out_pitch, args, &batch_dimension::out_step);

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        if (args->x == args->out)
            return x_aligned ? launch_exchange<T>(args, stream) : cudaErrorInvalidValue;
        const bool aligned = x_aligned && out_aligned;
        const int64_t elements = args->batches * args->rows * args->columns;
        if constexpr (sizeof(T) < 8)
            if (aligned && elements > FEW_ELEMENTS) {
                if (elements * (int)sizeof(T) <= FEW_BYTES && takes_whole<T, true>(args))
                    return launch_whole<T, true>(args, stream);
                if (elements * (int)sizeof(T) > FEW_BYTES && takes_whole<T, false>(args))
                    return launch_whole<T, false>(args, stream);
            }
        const int64_t few = sizeof(T) >= 8 ? INT64_MAX : sizeof(T) == 4 ? 1 << 21 : aligned ? 1 << 18 : 1 << 20;
        if (elements <= few && transpose_fills_tiles(args))
            return launch_elements<T>(args, stream);
        if constexpr (sizeof(T) < 4)
            if (!aligned && takes_sectors<T>(args))
                return launch_sectors<T>(args, stream);
        if constexpr (sizeof(T) < VECTOR)
            if (!aligned)
                return launch_words<T>(args, stream);
        return launch_vectors<T>(args, stream);
    });
}
