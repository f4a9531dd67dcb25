// A reduction along a strided axis at memory bandwidth: the sums of a matrix's columns.
//
// The idea: threads are spread along the columns, each with a vector of up to 16 bytes of them, and walk down the
// rows with one state per column in registers and several rows in flight. The states of threads in the same
// columns are combined in shared memory at the end. Narrow rows are folded: several of them are treated as one row
// of whole vectors, in which a thread still always reads the same columns, and a warp's loads are contiguous.
// If there are enough vectors for all threads, each thread has whole columns and nothing is combined. That has its
// own kernel where rows are whole, aligned vectors. Two to four such rows have a kernel for that number of rows,
// which issues all of a thread's loads at once; it pays even with fewer vectors.
// Launch: blocks of 256 threads, divided into units of `lanes` along the columns by `height` down the rows; each
// unit has its own tile of columns. Along x are the units, along y the chunks of n, whose partial results the last
// block combines, as in rows. Whole, aligned columns: blocks of 128 threads along x, or 64 for long columns, one
// thread per vector.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/reduce_block.cuh"
#include "../../common/reduce_finish.cuh"
#include "../../common/reduce_running.cuh"
#include "../../common/vector.cuh"
#include "../traits.h"
#include "kernels.h"

constexpr int WHOLE_COLUMNS_BLOCK = 128; // threads per block for whole columns
constexpr int LONG_COLUMN_ROWS = 512;    // rows; longer columns take half as many threads per block, for balance
template <class State, class In>
constexpr bool doubles_loads_in_flight = sizeof(In) == 4 && sizeof(State) <= 8; // the registers suffice

template <class State, class In>
constexpr int vector_bytes = reduce_column_vector_bytes(sizeof(State), sizeof(In)); // of a thread

// resident blocks per multiprocessor, as many as their states' registers allow
template <class State, class In>
constexpr int state_bytes_per_thread = vector_bytes<State, In> / sizeof(In) * sizeof(State);
template <class State, class In>
constexpr int min_blocks_per_sm = sizeof(State) > 16 || state_bytes_per_thread<State, In> > 64 ? 2
                                  : state_bytes_per_thread<State, In> > 32                     ? 3
                                                                           : (int)REDUCE_RESIDENT_BLOCKS;

// the same, for whole columns
template <class State, class In>
constexpr int whole_columns_min_blocks_per_sm =
    (sizeof(State) > 16 || state_bytes_per_thread<State, In> > 64 ? 3 : (int)REDUCE_RESIDENT_BLOCKS) * REDUCE_BLOCK
    / WHOLE_COLUMNS_BLOCK;

// States in shared memory, padded by one after as many as span the banks, so that states V apart have fewer bank
// conflicts.
template <class State>
struct PaddedStates {
    State *states;
    static constexpr int RUN = 128 / sizeof(State);

    static __host__ __device__ constexpr int size(int count)
    {
        return count + count / RUN;
    }
    __device__ State &operator[](int i) const
    {
        return states[size(i)];
    }
};

// The part of the array that a thread reads: columns [column, column + count) of its unit, every `height`th row
// from row ty on.
struct thread_tile {
    int64_t unit, o, column;
    int count, ty;
};

// how many of a vector's V columns exist, if `left` columns are left
template <int V>
static __device__ int columns_remaining(int64_t left)
{
    return (int)max(min(left, (int64_t)V), (int64_t)0);
}

template <int V>
static __device__ thread_tile tile_of_thread(const reduce_args &args)
{
    const reduce_work &work = args.work;
    const int area = work.lanes * work.height, units = REDUCE_BLOCK / area;
    const int of_block = threadIdx.x / area, at = threadIdx.x % area;
    const int64_t width = args.inner * work.fold, tiles = (width + work.lanes * V - 1) / (work.lanes * V);
    thread_tile tile;

    tile.unit = (int64_t)blockIdx.x * units + of_block;
    tile.o = args.outer > 1 ? tile.unit / tiles : 0;
    tile.column = ((tile.unit - tile.o * tiles) * work.lanes + at % work.lanes) * V;
    tile.ty = at / work.lanes;
    tile.count = of_block < units && tile.o < args.outer ? columns_remaining<V>(width - tile.column) : 0;
    return tile;
}

// Adds the thread's columns of `rows` rows, `pitch` bytes apart from x on. Each vector takes one aligned load, or
// two if rows are aligned differently. The first row's elements are element j + row_in_fold[c] of their columns;
// each further row's are `step` further down. If a vector extends past the last column, the surplus states are not
// used.
template <bool ALIGNED, int BYTES, int IN_FLIGHT, class Operation, class In>
static __device__ void accumulate_columns(RunningColumn<Operation, In> *running, const unsigned char *x, int rows,
                                          int64_t pitch, int64_t j, int step, const int *row_in_fold)
{
    constexpr int ROWS = ALIGNED ? IN_FLIGHT / (BYTES > 4 ? BYTES : 8) : IN_FLIGHT / 2 / BYTES;
    constexpr int V = BYTES / sizeof(In);

    for (int row = 0; row < rows; row += ROWS, x += ROWS * pitch, j += ROWS * step) {
        UnalignedLoad<In, BYTES> loading[ROWS];

        each_row<ROWS>(rows - row, [&](int u) {
            if constexpr (ALIGNED)
                loading[u].low = load_aligned<BYTES>(x + u * pitch);
            else
                loading[u].begin(x + u * pitch);
        });
        make_room<V, ROWS>(running);
        each_row<ROWS>(rows - row, [&](int u) {
            const Vector<BYTES> vector = ALIGNED ? loading[u].low : loading[u].end();
#pragma unroll
            for (int c = 0; c < V; c++)
                running[c].add_element(vector, c, j + u * step + row_in_fold[c]);
        });
    }
}

// Adds `count` of the thread's columns at any address. Nothing outside the array is read: rows whose vectors have
// neighbours inside the array are read by vectors, the others by elements.
template <int BYTES, int IN_FLIGHT, class Operation, class In>
static __device__ void accumulate_unaligned_columns(RunningColumn<Operation, In> *running, const unsigned char *x,
                                                    int count, int rows, int64_t pitch, ByteRange array, int64_t j,
                                                    int step, const int *row_in_fold)
{
    constexpr int V = BYTES / sizeof(In);

    if (((uintptr_t)x | (uintptr_t)pitch) % BYTES == 0 && count == V) {
        accumulate_columns<true, BYTES, IN_FLIGHT>(running, x, rows, pitch, j, step, row_in_fold);
        return;
    }
    int row = 0, end = rows;

    while (end > 0 && x + (end - 1) * pitch + 2 * BYTES > array.end)
        end--;
#pragma unroll 1
    while (row < rows) {
        const unsigned char *of_row = x + row * pitch;

        if (of_row >= array.begin + BYTES && row < end) {
            accumulate_columns<false, BYTES, IN_FLIGHT>(running, of_row, end - row, pitch, j + (int64_t)row * step,
                                                        step, row_in_fold);
            row = end;
        } else {
            make_room<V, 1>(running);
#pragma unroll
            for (int c = 0; c < V; c++)
                if (c < count)
                    running[c].add(((const In *)of_row)[c], j + (int64_t)row * step + row_in_fold[c]);
            row++;
        }
    }
}

static __device__ ByteRange x_byte_range(const reduce_args &args, int element)
{
    const reduce_work &work = args.work;
    const auto *begin = (const unsigned char *)args.x;
    const int64_t last = (args.outer - 1) * work.outer_stride + (args.count - 1) * work.step + args.inner;

    return {begin, begin + last * element};
}

// Reads the thread's columns in this block's chunk of n.
template <int BYTES, class Operation, class In>
static __device__ void read_thread_tile(RunningColumn<Operation, In> *running, const thread_tile &tile,
                                        const reduce_args &args)
{
    constexpr int V = BYTES / sizeof(In);
    const reduce_work &work = args.work;
    // from here on a row is `fold` rows of x, a power of two
    const int shift = __ffs(work.fold) - 1;
    const int64_t chunk = work.chunk >> shift, rows = args.count >> shift;
    const int64_t first = blockIdx.y * chunk + tile.ty, left = min((blockIdx.y + 1) * chunk, rows) - first;
    const int64_t pitch = work.step * work.fold * (int64_t)sizeof(In);
    const int count = ((int)max(left, (int64_t)0) + work.height - 1) / work.height; // rows of the thread
    const In *x = (const In *)args.x + tile.o * work.outer_stride + tile.column;
    int row_in_fold[V]; // which of the folded rows a column belongs to, [0, fold)

#pragma unroll
    for (int c = 0; c < V; c++)
        row_in_fold[c] = work.fold > 1 ? (int)(tile.column + c) / (int)args.inner : 0;
    accumulate_unaligned_columns<BYTES, REDUCE_BYTES_IN_FLIGHT>(
        running, (const unsigned char *)x + first * pitch, tile.count, count, work.height * pitch,
        x_byte_range(args, sizeof(In)), args.first + first * work.fold, work.height * work.fold, row_in_fold);
    if (rows * work.fold < args.count && blockIdx.y == gridDim.y - 1 &&
        tile.ty == 0) { // rows that do not fill a fold
        const int64_t elements = (args.count - rows * work.fold) * args.inner;

        make_room<V, 1>(running);
#pragma unroll
        for (int c = 0; c < V; c++)
            if (tile.column + c < elements)
                running[c].add(x[rows * work.fold * work.step + c],
                               args.first + rows * work.fold + row_in_fold[c]);
    }
}

// Combines, in each of `units` units, the states of `columns` columns and m rows; states[0 ... columns) are the
// result. Consecutive units are `stride` apart. Not inlined: one copy per operation instead of two per kernel, as
// fast on an H200.
template <class Operation>
static __device__ __noinline__ void combine_tile_rows(PaddedStates<typename Operation::State> states, int m,
                                                      int columns, int units, int stride)
{
    while (m > 1) {
        const int half = (m + 1) / 2, work = (m - half) * columns;

        for (int i = threadIdx.x; i < units * work; i += REDUCE_BLOCK) {
            const int at = i / work * stride + i % work;
            states[at] = Operation::combine(states[at], states[at + half * columns]);
        }
        __syncthreads(); // this half is complete before the next is added
        m = half;
    }
}

template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, min_blocks_per_sm<typename Operation::State, In>)
    reduce_columns(const __grid_constant__ reduce_args args)
{
    pdl_wait();
    using State = typename Operation::State;
    constexpr int BYTES = vector_bytes<State, In>, V = BYTES / sizeof(In);
    __shared__ __align__(16) unsigned char shared[PaddedStates<State>::size(REDUCE_BLOCK * V) * sizeof(State)];
    const PaddedStates<State> states = {(State *)shared};
    const reduce_work &work = args.work;
    const int area = work.lanes * work.height, units = REDUCE_BLOCK / area, t = threadIdx.x;
    const int columns = work.lanes * V / work.fold; // per unit
    const int64_t tiles = (args.inner + columns - 1) / columns;
    const thread_tile tile = tile_of_thread<V>(args);
    bool stores_result = true;

    {
        RunningColumn<Operation, In> running[V];

        if (tile.count)
            read_thread_tile<BYTES>(running, tile, args);
#pragma unroll
        for (int c = 0; c < V; c++)
            states[t * V + c] = running[c].result();
    }
    __syncthreads(); // all states are stored before they are read
    combine_tile_rows<Operation>(states, work.height * work.fold, columns, units, area * V);

    if (work.splits > 1) { // then the block has one unit
        State *partials = (State *)args.scratch + (int64_t)blockIdx.x * work.splits * columns; // (splits, columns)
        const int64_t split = args.first / work.chunk + blockIdx.y;

        for (int i = t; i < columns; i += REDUCE_BLOCK)
            partials[split * columns + i] = states[i];
        stores_result = is_last_block(&work.counters[blockIdx.x], (unsigned)work.splits);
        if (stores_result) {
            const int deep = max(REDUCE_BLOCK / columns, 1);

            for (int i = t; i < deep * columns; i += REDUCE_BLOCK) {
                State state = Operation::identity();
#pragma unroll 4
                for (int64_t s = i / columns; s < work.splits; s += deep)
                    state = Operation::combine(state, partials[s * columns + i % columns]);
                states[i] = state;
            }
            __syncthreads(); // as above
            combine_tile_rows<Operation>(states, deep, columns, 1, 0);
        }
    }
    for (int i = t; stores_result && i < units * columns; i += REDUCE_BLOCK) {
        const int64_t unit = (int64_t)blockIdx.x * units + i / columns, o = args.outer > 1 ? unit / tiles : 0;
        const int64_t column = (unit - o * tiles) * columns + i % columns;

        if (o < args.outer && column < args.inner)
            finish(Operation(), states[i / columns * area * V + i % columns], o * args.inner + column, args);
    }
}

// Adds the thread's columns of `rows` rows with aligned vectors: elements j, j + 1, ... of the columns.
template <int BYTES, int ROWS, class Operation, class In>
static __device__ void accumulate_whole_columns(RunningColumn<Operation, In> *running, const unsigned char *x,
                                                int rows, int64_t pitch, int64_t j)
{
    constexpr int V = BYTES / sizeof(In);
    Vector<BYTES> loaded[ROWS];
    const auto add = [&](int u) {
#pragma unroll
        for (int c = 0; c < V; c++)
            running[c].add_element(loaded[u], c, j + u);
    };

    for (; rows >= ROWS; rows -= ROWS, j += ROWS) {
#pragma unroll
        for (int u = 0; u < ROWS; u++, x += pitch)
            loaded[u] = load_aligned<BYTES>(x);
        make_room<V, ROWS>(running);
#pragma unroll
        for (int u = 0; u < ROWS; u++)
            add(u);
    }
    each_row<ROWS>(rows, [&](int u) { loaded[u] = load_aligned<BYTES>(x + u * pitch); });
    make_room<V, ROWS>(running);
    each_row<ROWS>(rows, add);
}

// Enough columns that each thread reduces whole columns; all rows are whole, aligned vectors. Results of x's dtype
// are stored as vectors; others are exchanged within the warp so that its stores are contiguous.
template <class Operation, class In>
__global__ void __launch_bounds__(WHOLE_COLUMNS_BLOCK,
                                  whole_columns_min_blocks_per_sm<typename Operation::State, In>)
    reduce_whole_columns(const __grid_constant__ reduce_args args)
{
    pdl_wait();
    using State = typename Operation::State;
    constexpr int BYTES = vector_bytes<State, In>, V = BYTES / sizeof(In);
    __shared__ __align__(
        16) unsigned char shared[PaddedStates<State>::size(WHOLE_COLUMNS_BLOCK * V) * sizeof(State)];
    const PaddedStates<State> states = {(State *)shared};
    const int t = threadIdx.x, warp = t & ~31, lane = t % 32;
    const int64_t vectors = args.inner / V, at = (int64_t)blockIdx.x * blockDim.x + t;
    const int64_t o = args.outer > 1 ? at / vectors : 0, column = (at - o * vectors) * V;
    const bool inside = o < args.outer && column < args.inner;

    {
        constexpr int ROWS =
            (doubles_loads_in_flight<State, In> ? 2 : 1) * REDUCE_BYTES_IN_FLIGHT / (BYTES > 4 ? BYTES : 8);
        RunningColumn<Operation, In> running[V];
        const auto *x = (const unsigned char *)((const In *)args.x + o * args.work.outer_stride + column);
        const int rows = inside ? (int)args.count : 0;
        const int64_t pitch = args.work.step * (int64_t)sizeof(In);

        accumulate_whole_columns<BYTES, ROWS>(running, x, rows, pitch, args.first);
        if (can_store_result_vectors(args)) {
            if (inside)
                finish_vector<In, V>(Operation(), o * args.inner + column, args,
                                     [&](int c) { return running[c].result(); });
            return;
        }
#pragma unroll
        for (int c = 0; c < V; c++)
            states[t * V + c] = running[c].result();
    }
    __syncwarp();                          // the warp's states are stored
    const int64_t first = (at - lane) * V; // index of the warp's first result

#pragma unroll 1
    for (int i = lane; i < 32 * V; i += 32)
        if (first + i < args.outer * args.inner)
            finish(Operation(), states[warp * V + i], first + i, args);
}

// Columns of ROWS rows, where rows and results are whole vectors.
template <class Operation, class In, int ROWS>
__global__ void __launch_bounds__(WHOLE_COLUMNS_BLOCK, THREADS_PER_SM / WHOLE_COLUMNS_BLOCK)
    reduce_few_rows(const __grid_constant__ reduce_args args)
{
    pdl_wait();
    constexpr int BYTES = vector_bytes<typename Operation::State, In>, V = BYTES / sizeof(In);
    const int64_t vectors = args.inner / V, at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t o = args.outer > 1 ? at / vectors : 0, column = (at - o * vectors) * V;
    const auto *x = (const unsigned char *)((const In *)args.x + o * args.work.outer_stride + column);
    const int64_t pitch = args.work.step * (int64_t)sizeof(In);
    Vector<BYTES> loaded[ROWS];
    RunningColumn<Operation, In> running[V];

    if (o >= args.outer || column >= args.inner)
        return;
#pragma unroll
    for (int u = 0; u < ROWS; u++)
        loaded[u] = load_aligned<BYTES>(x + u * pitch);
#pragma unroll
    for (int u = 0; u < ROWS; u++) // no make_room(): var and std have other kernels
#pragma unroll
        for (int c = 0; c < V; c++)
            running[c].add_element(loaded[u], c, args.first + u);
    finish_vector<In, V>(Operation(), o * args.inner + column, args, [&](int c) { return running[c].result(); });
}

// whether all rows consist of whole vectors, aligned to `bytes` bytes
static bool columns_are_aligned_vectors(const reduce_args &args, int vector, int bytes)
{
    return args.inner % vector == 0 && args.work.step % vector == 0 && (uintptr_t)args.x % bytes == 0 &&
           (args.outer == 1 || args.work.outer_stride % vector == 0);
}

// Whole columns of any alignment, as tiles of one thread per vector, so that nothing is combined.
static reduce_args as_tiles(reduce_args args)
{
    const int64_t vectors = ceil_div(args.inner, args.work.vector);

    args.work.lanes = (int)ceil_div(vectors, ceil_div(vectors, REDUCE_BLOCK));
    return args;
}

static dim3 grid_of_tiles(const reduce_args &args)
{
    const reduce_work &work = args.work;
    const int units = REDUCE_BLOCK / (work.lanes * work.height); // per block
    const int64_t tiles = ceil_div(args.inner, work.lanes * work.vector / work.fold);

    return dim3((unsigned)ceil_div(args.outer * tiles, units), (unsigned)ceil_div(args.count, work.chunk));
}

// Whole columns whose rows are whole, aligned vectors.
template <class Operation, class In>
static cudaError_t launch_whole_columns(const reduce_args &args, cudaStream_t stream)
{
    const int threads = args.count < LONG_COLUMN_ROWS ? WHOLE_COLUMNS_BLOCK : WHOLE_COLUMNS_BLOCK / 2;
    const auto blocks = (unsigned)ceil_div(args.outer * (args.inner / args.work.vector), threads);

    if constexpr (result_may_have_x_dtype<Operation, In>)
        if (can_store_result_vectors(args) && 1 < args.count && args.count <= REDUCE_MAX_UNROLLED_ROWS)
            return dispatch<2, 3, REDUCE_MAX_UNROLLED_ROWS>((int)args.count, [&](auto rows) {
                return launch<reduce_few_rows<Operation, In, rows>>(blocks, threads, 0, stream, args);
            });
    return launch<reduce_whole_columns<Operation, In>>(blocks, threads, 0, stream, args);
}

cudaError_t launch_reduce_columns(const reduce_args *args, cudaStream_t stream)
{
    const bool whole = args->work.lanes == REDUCE_BLOCK;
    const reduce_args tiled = whole ? as_tiles(*args) : *args;
    const dim3 grid = grid_of_tiles(tiled);

    return dispatch_reduce_widest<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);
        constexpr int V = vector_bytes<typename Operation::State, In> / sizeof(In);

        if (args->work.vector != V) // state_bytes() in csrc/ops/reduce/work_split.c must agree with State
            return cudaErrorInvalidValue;
        if (whole && columns_are_aligned_vectors(*args, V, V * (int)sizeof(In)))
            return launch_whole_columns<Operation, In>(*args, stream);
        return launch<reduce_columns<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, tiled);
    });
}
