// A reduction in one launch, at the speed of memory.
//
// The idea: every thread reads 16 bytes at a time, several such vectors of its row before it needs the first, and
// combines them on its own; then a row's threads combine what they have by shuffles. A row is given as many
// threads as it has work for: some lanes of a warp, or a block, or several blocks. These leave their partial
// results in memory, and one of them combines these: the last one of the row, which waits for the others', or
// where blocks need not run at once the one that draws the last ticket. Their order is always the same, so that
// the bits of a result do not tell who came last. What the rungs below wasted: a launch and a trip through memory
// for each level of the tree, or the time in which few loads were under way.
// Short rows, which are no whole vectors mostly, pass through shared memory: a block loads as many side by side as
// it has room for, in whole vectors, and then each is read by a thread, or by a few.
// The shortest, of N elements that are no more than a vector, stay in registers if their results have the dtype of
// x: a thread loads N vectors, which are V rows, and stores a vector of V results.
// Launch: blocks of 256 threads, along x over the rows, 256 / group a block or as many short ones as there is room
// for, or 256 * V of the shortest, and along y over a row's chunks. Vector k of a row are its elements from k * V
// on, wherever they lie: so the sums are the same from any address.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "../common/reduce_block.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_running.cuh"
#include "../common/vector.cuh"
#include "kernels.h"

constexpr int IN_FLIGHT = 4, MORE_IN_FLIGHT = 5, MOST_IN_FLIGHT = 8; // vectors of a thread
constexpr int IN_FLIGHT_APART = 2;                                   // where each takes two loads

// of a multiprocessor: as many as have registers for their states
template <class Operation>
constexpr int blocks_at_once = sizeof(typename Operation::State) > 24   ? 2
                               : sizeof(typename Operation::State) > 16 ? 3
                                                                        : 4;
template <class Operation>
constexpr int short_blocks_at_once = sizeof(typename Operation::State) > 8 ? 4 : 6;

// Adds what thread t of `group` has of `vectors` whole vectors side by side, which are elements j, j + 1, … of
// their row: vectors t, t + group, …, in this order.
template <bool ALIGNED, int COUNT, class Operation, class In>
static __device__ void read_vectors(Running<Operation, In> &running, const unsigned char *x, int vectors,
                                    int64_t j, int t, int group, float keep)
{
    constexpr int V = 16 / sizeof(In);
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

// Likewise, of aligned vectors: as soon as one is added, the next one is on its way.
template <int COUNT, class Operation, class In>
static __device__ void keep_reading_vectors(Running<Operation, In> &running, const unsigned char *x, int vectors,
                                            int64_t j, int t, int group, float keep)
{
    constexpr int V = 16 / sizeof(In);
    const uint64_t policy = policy_for(keep);
    Vector<16> load[COUNT];

#pragma unroll
    for (int u = 0; u < COUNT; u++)
        if (t + u * group < vectors)
            load[u] = load_aligned(x + (int64_t)(t + u * group) * 16, policy);
    for (int k = t; k < vectors; k += group * COUNT)
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = k + u * group, next = at + group * COUNT;

            if (at < vectors)
                running.add(load[u], j + (int64_t)at * V);
            if (next < vectors)
                load[u] = load_aligned(x + (int64_t)next * 16, policy);
        }
}

// All that thread t of `group` makes of n elements from `x` on, which are those from j on of their row.
template <int COUNT, class Operation, class In>
static __device__ typename Operation::State read_row(const In *x, int64_t n, int64_t j, int t, int group,
                                                     float keep)
{
    constexpr int V = 16 / sizeof(In);
    const auto *bytes = (const unsigned char *)x;
    const int vectors = (int)(n / V); // whole ones; the planner's chunks have less than 2^31
    const int64_t last = (int64_t)vectors * V + t;
    const bool has_last = last < n; // fewer than V are left, and than the group has threads
    Running<Operation, In> running;
    In rest = {};

    if (has_last)
        rest = x[last]; // on its way beside the vectors
    if ((uintptr_t)bytes % 16 != 0)
        read_vectors<false, IN_FLIGHT_APART>(running, bytes, vectors, j, t, group, keep);
    else if constexpr (COUNT == MOST_IN_FLIGHT)
        keep_reading_vectors<COUNT>(running, bytes, vectors, j, t, group, keep);
    else
        read_vectors<true, COUNT>(running, bytes, vectors, j, t, group, keep);
    if (has_last)
        running.add(rest, j + last);
    return running.result();
}

template <class Operation, class In, int COUNT>
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
    if (plan.overlaps)
        let_next_come();
    if (row < args.outer)
        state = read_row<COUNT, Operation>((const In *)args.x + row * plan.outer_step + begin, n,
                                           args.first + begin, t, group, plan.keep);
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

// Vectors in shared memory, vector i of them at i ^ (i / 8 & turn): with turn 7, threads whose vectors lie any
// power of two apart meet in no bank, or in few.
struct Turned {
    Vector<16> *vectors;
    int turn; // 0 or 7

    __device__ Vector<16> &operator[](int i) const
    {
        return vectors[i ^ (i / 8 & turn)];
    }
};

// Brings so many bytes from x on, where rows lie side by side.
template <bool ALIGNED, class In>
static __device__ void load_rows(Turned shared, const unsigned char *x, int bytes, Extent array)
{
    constexpr int COUNT = ALIGNED ? IN_FLIGHT : IN_FLIGHT_APART;
    const int vectors = (bytes + 15) / 16;

    for (int i = threadIdx.x; i < vectors; i += REDUCE_BLOCK * COUNT) {
        Loading<In, 16> load[COUNT];

#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = i + u * REDUCE_BLOCK;
            if (at < vectors) {
                if constexpr (ALIGNED)
                    load[u].low = load_aligned<16>(x + at * 16);
                else
                    load[u].begin(x + at * 16, min(bytes - at * 16, 16), array);
            }
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = i + u * REDUCE_BLOCK;
            if (at < vectors)
                shared[at] = ALIGNED ? load[u].low : load[u].end();
        }
    }
}

// Brings rows between which there are gaps.
template <class In>
static __device__ void load_rows_apart(Turned shared, const In *x, int rows, int n, int64_t step)
{
    constexpr int V = 16 / sizeof(In);

    for (int i = threadIdx.x; i < rows * n; i += REDUCE_BLOCK)
        ((In *)&shared[i / V])[i % V] = x[i / n * step + i % n];
}

// All that thread t of `group` makes of row r: of whole vectors.
template <class Operation, class In>
static __device__ typename Operation::State read_vectors_of_row(Turned shared, unsigned r, unsigned vectors,
                                                                unsigned t, unsigned group)
{
    Running<Operation, In> running;

#pragma unroll 4
    for (unsigned k = t; k < vectors; k += group) {
        const Vector<16> vector = shared[r * vectors + k];
        running.add(vector, k * (16 / sizeof(In)));
    }
    return running.result();
}

// Likewise of any n elements, in words of some, or one at a time: word_at(i) is the i-th of all words, and
// element_at(i) of all elements.
template <class Operation, class In, class WordAt, class ElementAt>
static __device__ typename Operation::State read_words_of_row(WordAt word_at, ElementAt element_at, unsigned r,
                                                              unsigned n, unsigned t, unsigned group)
{
    Running<Operation, In> running;

    if constexpr (sizeof(In) < 4) {
        constexpr unsigned V = 4 / sizeof(In);
        const unsigned first = r * n / V, shift = r * n % V * 8 * sizeof(In);
        const auto word_of_row = [&](unsigned k) -> Vector<4> {
            return {{__funnelshift_r(word_at(first + k), word_at(first + k + 1), shift)}};
        };

#pragma unroll 4
        for (unsigned k = t; k < n / V; k += group)
            running.add(word_of_row(k), k * V);
        if (n % V && t == group - 1) {
            const Vector<4> last = word_of_row(n / V);
#pragma unroll
            for (unsigned c = 0; c < V - 1; c++)
                if (c < n % V)
                    running.add(element<In>(last, c), n / V * V + c);
        }
    } else {
#pragma unroll 4
        for (unsigned k = t; k < n; k += group)
            running.add(element_at(r * n + k), k);
    }
    return running.result();
}

// Short rows, of which some lanes of a warp have one each, or a lane alone: a block brings as many of them as its
// shared memory holds, as they lie, and then its threads read them there.
template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, short_blocks_at_once<Operation>)
    reduce_short_rows(const __grid_constant__ reduce_args args)
{
    constexpr int V = 16 / sizeof(In);
    __shared__ Vector<16> shared[REDUCE_SHORT_BYTES / 16 + 8];
    const int group = args.plan.group, t = threadIdx.x & (group - 1); // [0, group)
    const int shift = __ffs(group) - 1;
    const int64_t first = (int64_t)blockIdx.x * args.plan.short_rows, step = args.plan.outer_step;
    const int rows = (int)min(args.outer - first, (int64_t)args.plan.short_rows), n = (int)args.n;
    const bool whole = n % V == 0;
    const Turned turned = {shared, whole ? 7 : 0};
    const In *x = (const In *)args.x + first * step;
    const auto *from = (const unsigned char *)x;
    const int bytes = rows * n * (int)sizeof(In);
    const Extent array = {(const unsigned char *)args.x, from + (args.outer - first) * n * (int64_t)sizeof(In)};

    wait_for_earlier();
    if (step != n)
        load_rows_apart(turned, x, rows, n, step);
    else if ((uintptr_t)from % 16 == 0 && from + (bytes + 15) / 16 * 16 <= array.end)
        load_rows<true, In>(turned, from, bytes, array);
    else
        load_rows<false, In>(turned, from, bytes, array);
    if (!whole && threadIdx.x < 8) // the last row's last word may reach into what lies behind it
        ((unsigned char *)shared)[(step != n ? bytes : (bytes + 15) / 16 * 16) + threadIdx.x] = 0;
    __syncthreads(); // the rows are there before they are read
    for (int done = 0; done < rows; done += REDUCE_BLOCK >> shift) {
        const int r = done + (int)(threadIdx.x >> shift);
        auto state = Operation::identity();

        if (r < rows)
            state = whole ? read_vectors_of_row<Operation, In>(turned, r, n / V, t, group)
                          : read_words_of_row<Operation, In>(
                                [&](unsigned i) { return ((const uint32_t *)shared)[i]; },
                                [&](unsigned i) { return ((const In *)shared)[i]; }, r, n, t, group);
        state = combine_lanes<Operation>(state, group);
        if (r < rows && t == 0)
            finish(Operation(), state, first + r, args);
    }
}

// Rows of N elements, one behind the other and no longer than a vector: V of them, which are N vectors, are a
// thread's. Fewer than V are left at the end, of which threads of the last block have one each.
template <class Operation, class In, int N>
__global__ void __launch_bounds__(REDUCE_BLOCK) reduce_shortest_rows(const __grid_constant__ reduce_args args)
{
    constexpr int V = 16 / sizeof(In);
    const int64_t first = ((int64_t)blockIdx.x * REDUCE_BLOCK + threadIdx.x) * V;
    const int64_t left = args.outer / V * V + threadIdx.x;
    const In *x = (const In *)args.x;
    Vector<16> vectors[N + 1] = {}; // the last row's last word may reach into what lies behind it
    const auto state_of = [&](int r) {
        if constexpr (N % V == 0)
            return read_vectors_of_row<Operation, In>(Turned{vectors, 0}, r, N / V, 0, 1);
        else
            return read_words_of_row<Operation, In>([&](unsigned i) { return vectors[i / 4].word[i % 4]; },
                                                    [&](unsigned i) { return element<In>(vectors[i / V], i % V); },
                                                    r, N, 0, 1);
    };

    wait_for_earlier();
    if (first + V <= args.outer) {
#pragma unroll
        for (int k = 0; k < N; k++)
            vectors[k] = load_aligned<16>((const unsigned char *)(x + first * N) + k * 16);
        finish_elements<In, V>(Operation(), first, args, state_of);
    }
    if (blockIdx.x == gridDim.x - 1 && left < args.outer) {
#pragma unroll
        for (int i = 0; i < N; i++)
            memcpy((unsigned char *)vectors + i * sizeof(In), &x[left * N + i], sizeof(In));
        finish(Operation(), state_of(0), left, args);
    }
}

// whether these short rows are the shortest, and lie so that they can stay in registers
template <class In>
static bool are_shortest(const reduce_args &args)
{
    return args.n <= REDUCE_SHORTEST && args.n * sizeof(In) <= 16 && args.plan.short_rows &&
           args.plan.outer_step == args.n && (uintptr_t)args.x % 16 == 0 && are_elements(args);
}

cudaError_t launch_reduce_single_pass(const reduce_args *args, cudaStream_t stream)
{
    const reduce_plan &plan = args->plan;
    const int64_t rows = plan.short_rows ? plan.short_rows : REDUCE_BLOCK / plan.group; // of a block
    const dim3 grid((unsigned)ceil_div(args->outer, rows), (unsigned)ceil_div(args->count, plan.chunk));

    return dispatch_running<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);

#ifdef __CUDA_ARCH_LIST__
        if (plan.words &&
            plan.state_words < Words<typename Operation::State>::COUNT) // the planner knows the launcher
            return cudaErrorInvalidValue;
#endif
        if constexpr (results_are_elements<Operation, In>)
            if (are_shortest<In>(*args)) {
                const unsigned blocks = (unsigned)ceil_div(args->outer, REDUCE_BLOCK * 16 / (int)sizeof(In));
                return dispatch<1, 2, 3, 4, 5, 6, 7, REDUCE_SHORTEST>((int)args->n, [&](auto n) {
                    if constexpr (n * sizeof(In) <= 16)
                        return launch<reduce_shortest_rows<Operation, In, n>>(blocks, REDUCE_BLOCK, 0, stream,
                                                                              *args);
                    else
                        return cudaErrorInvalidValue;
                });
            }
        if (plan.short_rows)
            return launch<reduce_short_rows<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, *args);
        if constexpr (std::is_same_v<Operation, Sum<double>>)
            if (plan.in_flight == MORE_IN_FLIGHT)
                return launch<reduce_rows<Operation, In, MORE_IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream, *args);
        if constexpr (std::is_same_v<In, float> &&
                      (std::is_same_v<Operation, Sum<double>> || is_first<Operation>::value))
            if (plan.in_flight == MOST_IN_FLIGHT)
                return launch<reduce_rows<Operation, In, MOST_IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream, *args);
        return launch<reduce_rows<Operation, In, IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream, *args);
    });
}
