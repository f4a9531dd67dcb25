// A reduction in one launch, at the speed of memory.
//
// The idea: every thread reads 16 bytes at a time, several such vectors of its row before it needs the first, and
// combines them on its own; then a row's threads combine what they have by shuffles. A row is given as many
// threads as it has work for: some lanes of a warp, or a block, or several blocks. These leave their partial
// results in memory, and one of them combines these: the last one of the row, which waits for the others', or
// where blocks need not run at once the one that draws the last ticket. Their order is always the same, so that
// the bits of a result do not tell who came last. What the rungs below wasted: a launch and a trip through memory
// for each level of the tree, or the time in which few loads were under way.
// Launch: blocks of 256 threads, along x over the rows, 256 / group a block, and along y over a row's chunks; rows
// of up to 32 vectors several times as many a block. Vector k of a row are its elements from k * V on, wherever
// they lie: so the sums are the same from any address.
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "../common/reduce_block.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_running.cuh"
#include "../common/vector.cuh"
#include "kernels.h"

constexpr int IN_FLIGHT = 4;       // vectors of a thread
constexpr int IN_FLIGHT_APART = 2; // where each takes two loads

// of a multiprocessor: as many as have registers for their states
template <class Operation>
constexpr int blocks_at_once = sizeof(typename Operation::State) > 16 ? 2 : 4;

// Adds what thread t of `group` has of `vectors` whole vectors side by side, which are elements j, j + 1, … of
// their row: vectors t, t + group, …, in this order.
template <bool ALIGNED, class Operation, class In>
static __device__ void read_vectors(Running<Operation, In> &running, const unsigned char *x, int vectors,
                                    int64_t j, int t, int group, float keep)
{
    constexpr int V = 16 / sizeof(In), COUNT = ALIGNED ? IN_FLIGHT : IN_FLIGHT_APART;
    using Load = std::conditional_t<ALIGNED, Vector<16>, Loading<In, 16>>;
    const uint64_t policy = policy_for(keep);

    for (int k = t; k < vectors; k += group * COUNT) {
        Load load[COUNT];

#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = k + u * group;
            if (at < vectors) {
                if constexpr (ALIGNED)
                    load[u] = load_aligned(x + (int64_t)at * 16, policy);
                else if (at > 0 && at < vectors - 1)
                    load[u].begin(x + (int64_t)at * 16);
                else
                    load[u].begin_alone(x + (int64_t)at * 16);
            }
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = k + u * group;
            if (at < vectors) {
                if constexpr (ALIGNED)
                    running.add(load[u], j + (int64_t)at * V);
                else
                    running.add(load[u].end(), j + (int64_t)at * V);
            }
        }
    }
}

// All that thread t of `group` makes of n elements from `x` on, which are those from j on of their row.
template <class Operation, class In>
static __device__ typename Operation::State read_row(const In *x, int64_t n, int64_t j, int t, int group,
                                                     float keep)
{
    constexpr int V = 16 / sizeof(In);
    const auto *bytes = (const unsigned char *)x;
    const int vectors = (int)(n / V); // whole ones; the planner's chunks have less than 2^31
    Running<Operation, In> running;

    if ((uintptr_t)bytes % 16 == 0)
        read_vectors<true>(running, bytes, vectors, j, t, group, keep);
    else
        read_vectors<false>(running, bytes, vectors, j, t, group, keep);
    if (t < n - (int64_t)vectors * V) { // fewer than V, and than the group, are left
        const int64_t i = (int64_t)vectors * V + t;
        running.add(x[i], j + i);
    }
    return running.result();
}

template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, blocks_at_once<Operation>)
    reduce_rows(const __grid_constant__ reduce_args args)
{
    using State = typename Operation::State;
    __shared__ __align__(16) unsigned char shared[REDUCE_BLOCK / 32 * sizeof(State)];
    const reduce_plan &plan = args.plan;
    const int group = plan.group, log2 = __ffs(group) - 1, t = threadIdx.x & (group - 1); // [0, group)
    const int64_t row = (int64_t)blockIdx.x * (REDUCE_BLOCK >> log2) + (threadIdx.x >> log2);
    const int64_t begin = blockIdx.y * plan.chunk; // of the chunk, in this part of the row
    const int64_t n = min(plan.chunk, args.count - begin);
    bool finishes = t == 0 && row < args.outer;
    State state = Operation::identity();

    wait_for_earlier();
    if (row < args.outer)
        state = read_row<Operation>((const In *)args.x + row * plan.outer_step + begin, n, args.first + begin, t,
                                    group, plan.keep);
    if (group < REDUCE_BLOCK)
        state = combine_lanes<Operation>(state, group);
    else
        state = combine_block<Operation>(state, (State *)shared);

    if (plan.splits > 1) // and the block has one row
        finishes = combine_blocks<Operation>(state, row, (args.first ? args.first / plan.chunk : 0) + blockIdx.y,
                                             args, (State *)shared) &&
                   t == 0;
    if (finishes)
        finish(Operation(), state, row, args);
}

// Rows of which each thread of a group has one vector, or a part of one: the next row's is on its way while this
// one's is added up.
template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK) reduce_short_rows(const __grid_constant__ reduce_args args)
{
    constexpr int V = 16 / sizeof(In);
    const int group = args.plan.group, t = threadIdx.x & (group - 1); // [0, group)
    const int rows_at_once = REDUCE_BLOCK / group;
    const int count = (int)max(min(args.n - t * V, (int64_t)V), (int64_t)0); // of the thread's elements of a row
    const auto *begin = (const unsigned char *)args.x;                       // of all rows
    const Extent array = {begin, begin + ((args.outer - 1) * args.plan.outer_step + args.n) * (int64_t)sizeof(In)};
    int64_t row = (int64_t)blockIdx.x * rows_at_once * args.plan.short_rows + threadIdx.x / group;
    const auto *x = (const unsigned char *)((const In *)args.x + row * args.plan.outer_step + t * V);
    const int64_t step = rows_at_once * args.plan.outer_step * (int64_t)sizeof(In);
    Loading<In, 16> next;

    wait_for_earlier();
    if (count && row < args.outer)
        next.begin(x, count * (int)sizeof(In), array);
#pragma unroll 1
    for (int i = 1; i <= args.plan.short_rows; i++, row += rows_at_once) {
        const Loading<In, 16> now = next;
        Running<Operation, In> running;

        x += step;
        if (count && i < args.plan.short_rows && row + rows_at_once < args.outer)
            next.begin(x, count * (int)sizeof(In), array);
        if (count == V && row < args.outer) {
            running.add(now.end(), t * V);
        } else if (count && row < args.outer) {
            const Vector<16> vector = now.end();
#pragma unroll
            for (int c = 0; c < V - 1; c++)
                if (c < count)
                    running.add(element<In>(vector, c), t * V + c);
        }
        const auto state = combine_lanes<Operation>(running.result(), group);
        if (t == 0 && row < args.outer)
            finish(Operation(), state, row, args);
    }
}

cudaError_t launch_reduce_single_pass(const reduce_args *args, cudaStream_t stream)
{
    const reduce_plan &plan = args->plan;
    const int64_t rows = REDUCE_BLOCK / plan.group * std::max(plan.short_rows, 1); // of a block
    const dim3 grid((unsigned)ceil_div(args->outer, rows), (unsigned)ceil_div(args->count, plan.chunk));

    return dispatch_running<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);

        if (plan.short_rows)
            return launch<reduce_short_rows<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, *args);
        return launch<reduce_rows<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, *args);
    });
}
