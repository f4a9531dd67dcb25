// A reduction of what lies crosswise in a small array, in which no thread is to read much.
//
// The idea: what takes time is the way to memory and back, so it is gone as seldom as can be. A thread has a
// single column, and of that as few rows as there are threads for, all of them under way at once. What the threads
// one below the other have is combined in shared memory. Where a thread's column is comes without a division of 64
// bits: the launch lays its blocks out in three dimensions.
// What the rung below wasted: a thread's vector took many columns, and many rows to be worth it, while most of the
// GPU had nothing to do.
// Launch: blocks of up to 256 threads: along x `lanes` side by side, along y `height` one below the other, which
// together are a unit; along z as many units as there is room for, one for each of the outer dimension. The grid
// has the tiles of columns along x and the units along z; but the units along x, if all columns are one tile.
// Along y it has the chunks of n, whose partial results the last block combines, as in single_pass.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "../common/reduce_block.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_running.cuh"
#include "kernels.h"

constexpr int BYTES_IN_FLIGHT = 64, ROWS_IN_FLIGHT = 16; // of a thread
constexpr int64_t MOST_UNITS = 64;                       // along a block's z

// of a multiprocessor: as many as have registers for their states
template <class State>
constexpr int blocks_at_once = sizeof(State) > 16 ? 3 : 4;

// Adds a column's elements in `rows` rows that lie `pitch` elements apart from x on, which are elements j,
// j + step, … of it.
template <class Operation, class In>
static __device__ void read_column(RunningColumn<Operation, In> &running, const In *x, int rows, int64_t pitch,
                                   int64_t j, int step)
{
    constexpr int ROWS = sizeof(In) > 4 ? BYTES_IN_FLIGHT / (int)sizeof(In) : ROWS_IN_FLIGHT;

    for (int row = 0; row < rows; row += ROWS, x += ROWS * pitch, j += ROWS * step) {
        In loaded[ROWS];

        each_row<ROWS>(rows - row, [&](int u) { loaded[u] = x[u * pitch]; });
        each_row<ROWS>(rows - row, [&](int u) { running.add(loaded[u], j + u * step); });
    }
}

// The states of threads one below the other, in the uppermost of them; t is the number in the block.
template <class Operation>
static __device__ typename Operation::State combine_column(typename Operation::State state, int t,
                                                           typename Operation::State *states)
{
    const int lanes = blockDim.x, ty = threadIdx.y;

    states[t] = state;
    __syncthreads(); // all are there before some are read
    for (int m = blockDim.y; m > 1;) {
        const int half = (m + 1) / 2;

        if (ty + half < m)
            states[t] = state = Operation::combine(state, states[t + half * lanes]);
        __syncthreads(); // these are there before the next half is added to them
        m = half;
    }
    return state;
}

template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, blocks_at_once<typename Operation::State>)
    reduce_small_columns(const __grid_constant__ reduce_args args, int64_t first)
{
    using State = typename Operation::State;
    __shared__ __align__(16) unsigned char shared[REDUCE_BLOCK * sizeof(State)];
    const reduce_plan &plan = args.plan;
    const int lane = threadIdx.x, lanes = blockDim.x, ty = threadIdx.y, height = blockDim.y;
    const bool one_tile = args.inner <= lanes;
    const int64_t column = (one_tile ? 0 : (int64_t)blockIdx.x * lanes) + lane;
    const int64_t o = first + (int64_t)(one_tile ? blockIdx.x : blockIdx.z) * blockDim.z + threadIdx.z;
    const int64_t begin = blockIdx.y * plan.chunk + ty; // the thread's first row in this part of the column
    const int left = (int)(min((blockIdx.y + 1) * plan.chunk, args.count) - begin);
    const int rows = height == 1 ? left : left > 0 ? (left + height - 1) / height : 0;
    const int t = lane + lanes * (ty + height * threadIdx.z);
    const bool inside = o < args.outer && column < args.inner;
    bool finishes = inside && ty == 0;
    State state;

    wait_for_earlier();
    {
        RunningColumn<Operation, In> running;
        const In *x = (const In *)args.x + o * plan.outer_step + begin * plan.step + column;
        const int64_t pitch = height * plan.step, j = args.first + begin;

        if (inside)
            read_column(running, x, rows, pitch, j, height);
        state = running.result();
    }
    if (height > 1)
        state = combine_column<Operation>(state, t, (State *)shared);

    if (plan.splits > 1) { // and the block has one unit
        const int64_t unit = blockIdx.x + (int64_t)blockIdx.z * gridDim.x;
        State *partials = (State *)args.scratch + unit * plan.splits * lanes + lane; // (splits, lanes)

        if (finishes)
            partials[((args.first ? args.first / plan.chunk : 0) + blockIdx.y) * lanes] = state;
        if (is_last_block(&plan.tickets[unit], (unsigned)plan.splits)) {
            state = Operation::identity();
#pragma unroll 4
            for (int64_t s = ty; inside && s < plan.splits; s += height)
                state = Operation::combine(state, partials[s * lanes]);
            state = combine_column<Operation>(state, t, (State *)shared);
        } else {
            finishes = false;
        }
    }
    if (finishes)
        finish(Operation(), state, o * args.inner + column, args);
}

cudaError_t launch_reduce_small_columns(const reduce_args *args, cudaStream_t stream)
{
    const reduce_plan &plan = args->plan;
    const int64_t tiles = ceil_div(args->inner, plan.lanes), chunks = ceil_div(args->count, plan.chunk);
    const int64_t room = plan.splits > 1 ? 1 : REDUCE_BLOCK / (plan.lanes * plan.height);
    const int64_t units = std::min({room, MOST_UNITS, args->outer});                // of a block
    const int64_t groups = tiles == 1 ? ceil_div(args->outer, units) : MAX_GRID_YZ; // of units, in a launch
    const dim3 block((unsigned)plan.lanes, (unsigned)plan.height, (unsigned)units);

    return dispatch_running<EVERY>(args, [&](auto operation, auto zero) {
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
