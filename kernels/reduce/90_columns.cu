// A reduction of what lies crosswise, at the speed of memory: the sums of a matrix's columns.
//
// The idea: threads lie along the columns, each with a vector of up to 16 bytes of them, and walk down the rows
// with one state a column in registers and several rows under way. What the threads one below the other have is
// combined in shared memory at the end. Where rows are narrow, some of them make one that is as long as whole
// vectors: then a thread still meets the same columns all the way, and a warp still reads what lies side by side.
// What the rungs below wasted: they read columns an element a thread, or had to have the matrix turned first.
// Where there are vectors enough for all threads, each has all of its own columns, and nothing is combined. Two to
// four rows have a kernel that knows how many they are, with all of a thread's loads under way at once; so they
// are read even where there are fewer vectors.
// Launch: blocks of 256 threads, which are `lanes` along the columns by `height` down the rows; what is left of
// the 256 makes further such units, each for a tile of columns. Along x the units, along y the chunks of n, whose
// partial results the last block combines, as in single_pass. Whole columns: blocks of 128, or 64 if they are
// long, along x, one thread a vector.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "../common/reduce_block.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_running.cuh"
#include "../common/vector.cuh"
#include "kernels.h"

constexpr int BYTES_IN_FLIGHT = 64; // of a thread; half of them where each vector takes two loads
constexpr int WHOLE_BLOCK = 128;    // threads of a block of whole columns
constexpr int LONG_COLUMN = 512;    // rows, which have blocks of half as many: these divide more evenly
template <class State, class In>
constexpr bool reads_twice_as_many = sizeof(In) == 4 && sizeof(State) <= 8; // has registers for them

// A thread's vector: as many columns as its registers have states for, but a word at least and 16 bytes at most.
template <class State>
constexpr int columns_of_thread = sizeof(State) > 16  ? 2
                                  : sizeof(State) > 8 ? 4
                                                      : 16;
template <class State, class In>
constexpr int vector_bytes = columns_of_thread<State> * sizeof(In) > 16  ? 16
                             : columns_of_thread<State> * sizeof(In) < 4 ? 4
                                                                         : columns_of_thread<State> * sizeof(In);

// of a multiprocessor: as many as have registers for their states
template <class State, class In>
constexpr int bytes_of_states = vector_bytes<State, In> / sizeof(In) * sizeof(State);
template <class State, class In>
constexpr int blocks_at_once = sizeof(State) > 16 || bytes_of_states<State, In> > 64 ? 2
                               : bytes_of_states<State, In> > 32                     ? 3
                                                                                     : 4;

// likewise, of threads that have whole columns
template <class State, class In>
constexpr int whole_blocks_at_once = (sizeof(State) > 16 || bytes_of_states<State, In> > 64 ? 3 : 4) * REDUCE_BLOCK
                                     / WHOLE_BLOCK;

// The shared memory's states, with a gap after as many as fill its banks: what lies V apart meets in fewer of
// them.
template <class State>
struct Padded {
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

// Where a thread works: columns [column, column + count) of its unit's rows, every `height`th row.
struct place {
    int64_t unit, o, column;
    int count, ty;
};

// how many of a vector's columns are among `left`
template <int V>
static __device__ int columns_left(int64_t left)
{
    return (int)max(min(left, (int64_t)V), (int64_t)0);
}

template <int V>
static __device__ place place_of_thread(const reduce_args &args)
{
    const reduce_plan &plan = args.plan;
    const int area = plan.lanes * plan.height, units = REDUCE_BLOCK / area;
    const int of_block = threadIdx.x / area, at = threadIdx.x % area;
    const int64_t width = args.inner * plan.fold, tiles = (width + plan.lanes * V - 1) / (plan.lanes * V);
    place place;

    place.unit = (int64_t)blockIdx.x * units + of_block;
    place.o = args.outer > 1 ? place.unit / tiles : 0;
    place.column = ((place.unit - place.o * tiles) * plan.lanes + at % plan.lanes) * V;
    place.ty = at / plan.lanes;
    place.count = of_block < units && place.o < args.outer ? columns_left<V>(width - place.column) : 0;
    return place;
}

// Adds the thread's columns of `rows` rows that lie `pitch` bytes apart from x on, each vector by one aligned
// load, or by two where rows do not begin alike. A row's elements are those from j on of their columns, `below`
// further down, and the next row's `step` further. Where a vector is more than the columns that are left, nobody
// asks for the others' states.
template <bool ALIGNED, int BYTES, int IN_FLIGHT, class Operation, class In>
static __device__ void read_columns(RunningColumn<Operation, In> *running, const unsigned char *x, int rows,
                                    int64_t pitch, int64_t j, int step, const int *below)
{
    constexpr int ROWS = ALIGNED ? IN_FLIGHT / (BYTES > 4 ? BYTES : 8) : IN_FLIGHT / 2 / BYTES;

    for (int row = 0; row < rows; row += ROWS, x += ROWS * pitch, j += ROWS * step) {
        Loading<In, BYTES> loading[ROWS];

        each_row<ROWS>(rows - row, [&](int u) {
            if constexpr (ALIGNED)
                loading[u].low = load_aligned<BYTES>(x + u * pitch);
            else
                loading[u].begin(x + u * pitch);
        });
        each_row<ROWS>(rows - row, [&](int u) {
            const Vector<BYTES> vector = ALIGNED ? loading[u].low : loading[u].end();
#pragma unroll
            for (int c = 0; c < BYTES / (int)sizeof(In); c++)
                running[c].add_of(vector, c, j + u * step + below[c]);
        });
    }
}

// Likewise, of `count` columns, from any address on. What lies outside of the array is not read: rows whose
// vectors have neighbours in there go by these, the others by their elements.
template <int BYTES, int IN_FLIGHT, class Operation, class In>
static __device__ void read_columns_anywhere(RunningColumn<Operation, In> *running, const unsigned char *x,
                                             int count, int rows, int64_t pitch, Extent array, int64_t j, int step,
                                             const int *below)
{
    constexpr int V = BYTES / sizeof(In);

    if (((uintptr_t)x | (uintptr_t)pitch) % BYTES == 0 && count == V) {
        read_columns<true, BYTES, IN_FLIGHT>(running, x, rows, pitch, j, step, below);
        return;
    }
    int row = 0, end = rows;

    while (end > 0 && x + (end - 1) * pitch + 2 * BYTES > array.end)
        end--;
#pragma unroll 1
    while (row < rows) {
        const unsigned char *of_row = x + row * pitch;

        if (of_row >= array.begin + BYTES && row < end) {
            read_columns<false, BYTES, IN_FLIGHT>(running, of_row, end - row, pitch, j + (int64_t)row * step, step,
                                                  below);
            row = end;
        } else {
#pragma unroll
            for (int c = 0; c < V; c++)
                if (c < count)
                    running[c].add(((const In *)of_row)[c], j + (int64_t)row * step + below[c]);
            row++;
        }
    }
}

static __device__ Extent extent_of(const reduce_args &args, int element)
{
    const reduce_plan &plan = args.plan;
    const auto *begin = (const unsigned char *)args.x;
    const int64_t last = (args.outer - 1) * plan.outer_step + (args.count - 1) * plan.step + args.inner;

    return {begin, begin + last * element};
}

// All that a thread makes of its columns, in this block's chunk of n.
template <int BYTES, class Operation, class In>
static __device__ void read_place(RunningColumn<Operation, In> *running, const place &place,
                                  const reduce_args &args)
{
    constexpr int V = BYTES / sizeof(In);
    const reduce_plan &plan = args.plan;
    // from here on a row is what was `fold` rows, a power of two
    const int shift = __ffs(plan.fold) - 1;
    const int64_t chunk = plan.chunk >> shift, rows = args.count >> shift;
    const int64_t first = blockIdx.y * chunk + place.ty, left = min((blockIdx.y + 1) * chunk, rows) - first;
    const int64_t pitch = plan.step * plan.fold * (int64_t)sizeof(In);
    const int count = ((int)max(left, (int64_t)0) + plan.height - 1) / plan.height; // of the thread's rows
    const In *x = (const In *)args.x + place.o * plan.outer_step + place.column;
    int below[V]; // in which of the fold rows a column lies, [0, fold)

#pragma unroll
    for (int c = 0; c < V; c++)
        below[c] = plan.fold > 1 ? (int)(place.column + c) / (int)args.inner : 0;
    read_columns_anywhere<BYTES, BYTES_IN_FLIGHT>(running, (const unsigned char *)x + first * pitch, place.count,
                                                  count, plan.height * pitch, extent_of(args, sizeof(In)),
                                                  args.first + first * plan.fold, plan.height * plan.fold, below);
    if (rows * plan.fold < args.count && blockIdx.y == gridDim.y - 1 && place.ty == 0) { // some rows are left
        const int64_t elements = (args.count - rows * plan.fold) * args.inner;
#pragma unroll
        for (int c = 0; c < V; c++)
            if (place.column + c < elements)
                running[c].add(x[rows * plan.fold * plan.step + c], args.first + rows * plan.fold + below[c]);
    }
}

// For each of `units` the states of `columns` columns that lie `m` deep: states[0 … columns) are all of them after
// it. A unit's lie `stride` from those of the one before.
template <class Operation>
static __device__ void combine_down(Padded<typename Operation::State> states, int m, int columns, int units,
                                    int stride)
{
    while (m > 1) {
        const int half = (m + 1) / 2, work = (m - half) * columns;

        for (int i = threadIdx.x; i < units * work; i += REDUCE_BLOCK) {
            const int at = i / work * stride + i % work;
            states[at] = Operation::combine(states[at], states[at + half * columns]);
        }
        __syncthreads(); // these are there before the next half is added to them
        m = half;
    }
}

template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, blocks_at_once<typename Operation::State, In>)
    reduce_columns(const __grid_constant__ reduce_args args)
{
    wait_for_earlier();
    using State = typename Operation::State;
    constexpr int BYTES = vector_bytes<State, In>, V = BYTES / sizeof(In);
    __shared__ __align__(16) unsigned char shared[Padded<State>::size(REDUCE_BLOCK * V) * sizeof(State)];
    const Padded<State> states = {(State *)shared};
    const reduce_plan &plan = args.plan;
    const int area = plan.lanes * plan.height, units = REDUCE_BLOCK / area, t = threadIdx.x;
    const int columns = plan.lanes * V / plan.fold; // of a unit
    const int64_t tiles = (args.inner + columns - 1) / columns;
    const place place = place_of_thread<V>(args);
    bool finishes = true;

    {
        RunningColumn<Operation, In> running[V];

        if (place.count)
            read_place<BYTES>(running, place, args);
#pragma unroll
        for (int c = 0; c < V; c++)
            states[t * V + c] = running[c].result();
    }
    __syncthreads(); // all are there before some are read
    combine_down<Operation>(states, plan.height * plan.fold, columns, units, area * V);

    if (plan.splits > 1) { // and the block has one unit
        State *partials = (State *)args.scratch + (int64_t)blockIdx.x * plan.splits * columns; // (splits, columns)
        const int64_t split = args.first / plan.chunk + blockIdx.y;

        for (int i = t; i < columns; i += REDUCE_BLOCK)
            partials[split * columns + i] = states[i];
        finishes = is_last_block(&plan.tickets[blockIdx.x], (unsigned)plan.splits);
        if (finishes) {
            const int deep = max(REDUCE_BLOCK / columns, 1);

            for (int i = t; i < deep * columns; i += REDUCE_BLOCK) {
                State state = Operation::identity();
#pragma unroll 4
                for (int64_t s = i / columns; s < plan.splits; s += deep)
                    state = Operation::combine(state, partials[s * columns + i % columns]);
                states[i] = state;
            }
            __syncthreads(); // as above
            combine_down<Operation>(states, deep, columns, 1, 0);
        }
    }
    for (int i = t; finishes && i < units * columns; i += REDUCE_BLOCK) {
        const int64_t unit = (int64_t)blockIdx.x * units + i / columns, o = args.outer > 1 ? unit / tiles : 0;
        const int64_t column = (unit - o * tiles) * columns + i % columns;

        if (o < args.outer && column < args.inner)
            finish(Operation(), states[i / columns * area * V + i % columns], o * args.inner + column, args);
    }
}

// Adds the thread's columns of `rows` rows, whose vectors are aligned: the elements from j on.
template <int BYTES, int ROWS, class Operation, class In>
static __device__ void read_whole_columns(RunningColumn<Operation, In> *running, const unsigned char *x, int rows,
                                          int64_t pitch, int64_t j)
{
    Vector<BYTES> loaded[ROWS];
    const auto add = [&](int u) {
#pragma unroll
        for (int c = 0; c < BYTES / (int)sizeof(In); c++)
            running[c].add_of(loaded[u], c, j + u);
    };

    for (; rows >= ROWS; rows -= ROWS, j += ROWS) {
#pragma unroll
        for (int u = 0; u < ROWS; u++, x += pitch)
            loaded[u] = load_aligned<BYTES>(x);
#pragma unroll
        for (int u = 0; u < ROWS; u++)
            add(u);
    }
    each_row<ROWS>(rows, [&](int u) { loaded[u] = load_aligned<BYTES>(x + u * pitch); });
    each_row<ROWS>(rows, add);
}

// So many columns that each is a thread's from top to bottom; ALIGNED: all of them are whole vectors. Its results
// are a vector if they are elements; else those of a warp change hands, so that they are stored side by side.
template <class Operation, class In, bool ALIGNED>
__global__ void __launch_bounds__(WHOLE_BLOCK, whole_blocks_at_once<typename Operation::State, In>)
    reduce_whole_columns(const __grid_constant__ reduce_args args)
{
    wait_for_earlier();
    using State = typename Operation::State;
    constexpr int BYTES = vector_bytes<State, In>, V = BYTES / sizeof(In);
    __shared__ __align__(16) unsigned char shared[Padded<State>::size(WHOLE_BLOCK * V) * sizeof(State)];
    const Padded<State> states = {(State *)shared};
    const int t = threadIdx.x, warp = t & ~31, lane = t % 32;
    const int64_t vectors = (args.inner + V - 1) / V, at = (int64_t)blockIdx.x * blockDim.x + t;
    const int64_t o = args.outer > 1 ? at / vectors : 0, column = (at - o * vectors) * V;
    const int count = o < args.outer ? columns_left<V>(args.inner - column) : 0;

    {
        RunningColumn<Operation, In> running[V];
        const auto *x = (const unsigned char *)((const In *)args.x + o * args.plan.outer_step + column);
        const int rows = count ? (int)args.count : 0;
        const int64_t pitch = args.plan.step * (int64_t)sizeof(In);

        if constexpr (ALIGNED) {
            constexpr int ROWS =
                (reads_twice_as_many<State, In> ? 2 : 1) * BYTES_IN_FLIGHT / (BYTES > 4 ? BYTES : 8);
            read_whole_columns<BYTES, ROWS>(running, x, rows, pitch, args.first);
        } else {
            const int below[V] = {};
            read_columns_anywhere<BYTES, BYTES_IN_FLIGHT>(running, x, count, rows, pitch,
                                                          extent_of(args, sizeof(In)), args.first, 1, below);
        }
        if (ALIGNED && are_elements(args)) {
            if (count)
                finish_elements<In, V>(Operation(), o * args.inner + column, args,
                                       [&](int c) { return running[c].result(); });
            return;
        }
#pragma unroll
        for (int c = 0; c < V; c++)
            states[t * V + c] = running[c].result();
    }
    __syncwarp();                          // the warp's states are there
    const int64_t first = (at - lane) * V; // of the warp's results, if no vector is cut short between two of them
    const bool side_by_side = args.outer == 1 || args.inner % V == 0;

#pragma unroll 1
    for (int i = lane; i < 32 * V; i += 32) {
        int64_t out = first + i;
        bool there = out < args.outer * args.inner;

        if (!side_by_side) {
            out = __shfl_sync(~0u, o * args.inner + column, i / V) + i % V;
            there = i % V < __shfl_sync(~0u, count, i / V);
        }
        if (there)
            finish(Operation(), states[warp * V + i], out, args);
    }
}

// Columns of so few rows, which are whole vectors, as their results are.
template <class Operation, class In, int ROWS>
__global__ void __launch_bounds__(WHOLE_BLOCK, THREADS_AN_SM / WHOLE_BLOCK)
    reduce_few_rows(const __grid_constant__ reduce_args args)
{
    wait_for_earlier();
    constexpr int BYTES = vector_bytes<typename Operation::State, In>, V = BYTES / sizeof(In);
    const int64_t vectors = args.inner / V, at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t o = args.outer > 1 ? at / vectors : 0, column = (at - o * vectors) * V;
    const auto *x = (const unsigned char *)((const In *)args.x + o * args.plan.outer_step + column);
    const int64_t pitch = args.plan.step * (int64_t)sizeof(In);
    Vector<BYTES> loaded[ROWS];
    RunningColumn<Operation, In> running[V];

    if (o >= args.outer || column >= args.inner)
        return;
#pragma unroll
    for (int u = 0; u < ROWS; u++)
        loaded[u] = load_aligned<BYTES>(x + u * pitch);
#pragma unroll
    for (int u = 0; u < ROWS; u++)
#pragma unroll
        for (int c = 0; c < V; c++)
            running[c].add_of(loaded[u], c, args.first + u);
    finish_elements<In, V>(Operation(), o * args.inner + column, args, [&](int c) { return running[c].result(); });
}

// whether all columns are whole vectors of so many bytes, which begin at a multiple of them
static bool are_whole_vectors(const reduce_args &args, int vector, int bytes)
{
    return args.inner % vector == 0 && args.plan.step % vector == 0 && (uintptr_t)args.x % bytes == 0 &&
           (args.outer == 1 || args.plan.outer_step % vector == 0);
}

cudaError_t launch_reduce_columns(const reduce_args *args, cudaStream_t stream)
{
    const reduce_plan &plan = args->plan;

    return dispatch_running<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);
        constexpr int V = vector_bytes<typename Operation::State, In> / sizeof(In);

        if (plan.vector != V) // the planner knows the launcher
            return cudaErrorInvalidValue;
        if (plan.lanes == REDUCE_BLOCK) {
            const int threads = args->count < LONG_COLUMN ? WHOLE_BLOCK : WHOLE_BLOCK / 2;
            const auto blocks = (unsigned)ceil_div(args->outer * ceil_div(args->inner, V), threads);

            if (!are_whole_vectors(*args, V, V * (int)sizeof(In)))
                return launch<reduce_whole_columns<Operation, In, false>>(blocks, threads, 0, stream, *args);
            if constexpr (results_are_elements<Operation, In>)
                if (are_elements(*args) && 1 < args->count && args->count <= REDUCE_FEW_ROWS)
                    return dispatch<2, 3, REDUCE_FEW_ROWS>((int)args->count, [&](auto rows) {
                        return launch<reduce_few_rows<Operation, In, rows>>(blocks, threads, 0, stream, *args);
                    });
            return launch<reduce_whole_columns<Operation, In, true>>(blocks, threads, 0, stream, *args);
        }
        const int units = REDUCE_BLOCK / (plan.lanes * plan.height); // of a block
        const int64_t tiles = ceil_div(args->inner, plan.lanes * V / plan.fold);
        const dim3 grid((unsigned)ceil_div(args->outer * tiles, units),
                        (unsigned)ceil_div(args->count, plan.chunk));
        return launch<reduce_columns<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, *args);
    });
}
