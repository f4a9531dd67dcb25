// A reduction along a strided axis of a small array.
//
// The idea: latency dominates, so each thread makes as few round trips to memory as possible. A thread has one
// column, and only so many of its rows as it can load at once. The states of threads in the same column are
// combined in shared memory. The launch lays blocks out in three dimensions, so that no thread computes its column
// by a 64-bit division.
// What `columns` wastes on it: a thread's vector takes many columns, and needs many rows to pay off, while most of
// the GPU is idle.
// Launch: blocks of up to 256 threads: a unit is `lanes` threads along x by `height` along y, and as many units as
// fit are along z, one per index of the outer dimension. The grid has the tiles of columns along x and the units
// along z, or, if one tile has all columns, the units along x. Along y it has the chunks of n, whose partial
// results the last block combines, as in rows.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/reduce_block.cuh"
#include "../../common/reduce_finish.cuh"
#include "../../common/reduce_running.cuh"
#include "../traits.h"
#include "kernels.h"

constexpr int64_t MAX_TILES_PER_BLOCK = 64; // along a block's z

// resident blocks per multiprocessor, as many as their states' registers allow
template <class State>
constexpr int min_blocks_per_sm = sizeof(State) > 16 ? 3 : (int)REDUCE_RESIDENT_BLOCKS;

template <class In>
constexpr int rows_in_flight = reduce_rows_in_flight(sizeof(In)); // per thread

// Adds a column's elements of `rows` rows, `pitch` elements apart from x on. They are elements j, j + step, ... of
// the column.
template <class Operation, class In>
static __device__ void accumulate_column(RunningColumn<Operation, In> &running, const In *x, int rows,
                                         int64_t pitch, int64_t j, int step)
{
    constexpr int ROWS = rows_in_flight<In>;

    for (int row = 0; row < rows; row += ROWS, x += ROWS * pitch, j += ROWS * step) {
        In loaded[ROWS];

        each_row<ROWS>(rows - row, [&](int u) { loaded[u] = x[u * pitch]; });
        running.template make_room<ROWS>();
        each_row<ROWS>(rows - row, [&](int u) { running.add(loaded[u], j + u * step); });
    }
}

// Combines the states of the threads of a column; the thread with threadIdx.y == 0 gets the result. t is the
// thread's number in the block.
template <class Operation>
static __device__ typename Operation::State combine_column(typename Operation::State state, int t,
                                                           typename Operation::State *states)
{
    const int lanes = blockDim.x, ty = threadIdx.y;

    states[t] = state;
    __syncthreads(); // all states are stored before they are read
    for (int m = blockDim.y; m > 1;) {
        const int half = (m + 1) / 2;

        if (ty + half < m)
            states[t] = state = Operation::combine(state, states[t + half * lanes]);
        __syncthreads(); // this half is complete before the next is added
        m = half;
    }
    return state;
}

template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, min_blocks_per_sm<typename Operation::State>)
    reduce_small_columns(const __grid_constant__ reduce_args args, int64_t first)
{
    using State = typename Operation::State;
    __shared__ __align__(16) unsigned char shared[REDUCE_BLOCK * sizeof(State)];
    const reduce_work &work = args.work;
    const int lane = threadIdx.x, lanes = blockDim.x, ty = threadIdx.y, height = blockDim.y;
    const bool one_tile = args.inner <= lanes;
    const int64_t column = (one_tile ? 0 : (int64_t)blockIdx.x * lanes) + lane;
    const int64_t o = first + (int64_t)(one_tile ? blockIdx.x : blockIdx.z) * blockDim.z + threadIdx.z;
    const int64_t begin = blockIdx.y * work.chunk + ty; // the thread's first row, within this part of the column
    const int left = (int)(min((blockIdx.y + 1) * work.chunk, args.count) - begin);
    const int rows = height == 1 ? left : left > 0 ? (left + height - 1) / height : 0;
    const int t = lane + lanes * (ty + height * threadIdx.z);
    const bool inside = o < args.outer && column < args.inner;
    bool stores_result = inside && ty == 0;
    State state;

    pdl_wait();
    {
        RunningColumn<Operation, In> running;
        const In *x = (const In *)args.x + o * work.outer_stride + begin * work.step + column;
        const int64_t pitch = height * work.step, j = args.first + begin;

        if (inside)
            accumulate_column(running, x, rows, pitch, j, height);
        state = running.result();
    }
    if (height > 1)
        state = combine_column<Operation>(state, t, (State *)shared);

    if (work.splits > 1) { // then the block has one unit
        const int64_t unit = blockIdx.x + (int64_t)blockIdx.z * gridDim.x;
        State *partials = (State *)args.scratch + unit * work.splits * lanes + lane; // (splits, lanes)

        if (stores_result)
            partials[((args.first ? args.first / work.chunk : 0) + blockIdx.y) * lanes] = state;
        if (is_last_block(&work.counters[unit], (unsigned)work.splits)) {
            state = Operation::identity();
#pragma unroll 4
            for (int64_t s = ty; inside && s < work.splits; s += height)
                state = Operation::combine(state, partials[s * lanes]);
            state = combine_column<Operation>(state, t, (State *)shared);
        } else {
            stores_result = false;
        }
    }
    if (stores_result)
        finish(Operation(), state, o * args.inner + column, args);
}

cudaError_t launch_reduce_small_columns(const reduce_args *args, cudaStream_t stream)
{
    const reduce_work &work = args->work;
    const int64_t tiles = ceil_div(args->inner, work.lanes), chunks = ceil_div(args->count, work.chunk);
    const int64_t fitting = work.splits > 1 ? 1 : REDUCE_BLOCK / (work.lanes * work.height);
    const int64_t units = std::min({fitting, MAX_TILES_PER_BLOCK, args->outer});    // per block
    const int64_t groups = tiles == 1 ? ceil_div(args->outer, units) : MAX_GRID_YZ; // of units, per launch
    const dim3 block((unsigned)work.lanes, (unsigned)work.height, (unsigned)units);

    return dispatch_reduce_widest<EVERY>(args, [&](auto operation, auto zero) {
        cudaError_t error = cudaSuccess;

        for (int64_t o = 0; o < args->outer && !error; o += groups * units) {
            const unsigned here = (unsigned)std::min(groups, ceil_div(args->outer - o, units));
            const dim3 grid =
                tiles == 1 ? dim3(here, (unsigned)chunks) : dim3((unsigned)tiles, (unsigned)chunks, here);
            error = launch<reduce_small_columns<decltype(operation), decltype(zero)>>(grid, block, 0, stream,
                                                                                      *args, o);
        }
        return error;
    });
}
