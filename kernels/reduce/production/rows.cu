// A reduction in one launch, at memory bandwidth.
//
// The idea: every thread reads 16-byte vectors, several in flight, and combines them by itself; then the threads
// of a row combine their states by shuffles. A row gets as many threads as it has work for: some lanes of a warp,
// a block, or several blocks. Blocks of the same row store partial results in memory, and one block combines them:
// the one that starts last, which waits for the others, or, where blocks need not run concurrently, the one that
// increments the counter last. The order of combination is fixed, so the bits of a result do not depend on which
// block comes last.
// Short rows, which usually are not whole vectors, go through shared memory: a block loads as many consecutive
// rows as fit, in whole vectors, and then one thread or a few read each row.
// The shortest rows, of N elements that fit into one vector, stay in registers if the results have the dtype of x:
// a thread loads N vectors, which are V rows, and stores one vector of V results.
// Launch: blocks of 256 threads. Along x are the rows: 256 / group per block, or as many short rows as fit, or 256
// * V of the shortest; along y are a row's chunks. Vector k of a row holds its elements from k * V on, whatever
// their address: so sums do not depend on alignment.
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

constexpr int IN_FLIGHT_UNALIGNED = 2; // vectors per thread, each of which takes two loads

// resident blocks per multiprocessor, as many as their states' registers allow
template <class Operation>
constexpr int min_blocks_per_sm = sizeof(typename Operation::State) > 24   ? 2
                                  : sizeof(typename Operation::State) > 16 ? 3
                                                                           : 4;
template <class Operation>
constexpr int short_rows_min_blocks_per_sm = sizeof(typename Operation::State) > 8 ? 4 : 6;

// Adds thread t's share of `vectors` contiguous whole vectors: vectors t, t + group, ..., in this order. The first
// element of the first vector is element j of the row.
template <bool ALIGNED, int COUNT, class Operation, class In>
static __device__ void accumulate_vectors(Running<Operation, In> &running, const unsigned char *x, int vectors,
                                          int64_t j, int t, int group, float l2_share)
{
    constexpr int V = 16 / sizeof(In);
    using Load = std::conditional_t<ALIGNED, Vector<16>, UnalignedLoad<In, 16>>;
    const uint64_t policy = l2_policy(l2_share);

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
                    load[u].issue_bytewise(x + (int64_t)at * 16);
            }
        }
        running.template make_room<COUNT * V>();
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

// Adds aligned vectors with software-pipelined loads: the next load is issued as soon as one vector is added.
template <int COUNT, class Operation, class In>
static __device__ void read_vectors_pipelined(Running<Operation, In> &running, const unsigned char *x, int vectors,
                                              int64_t j, int t, int group, float l2_share)
{
    constexpr int V = 16 / sizeof(In);
    const uint64_t policy = l2_policy(l2_share);
    Vector<16> load[COUNT];

#pragma unroll
    for (int u = 0; u < COUNT; u++)
        if (t + u * group < vectors)
            load[u] = load_aligned(x + (int64_t)(t + u * group) * 16, policy);
    for (int k = t; k < vectors; k += group * COUNT) {
        running.template make_room<COUNT * V>();
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            const int at = k + u * group, next = at + group * COUNT;

            if (at < vectors)
                running.add(load[u], j + (int64_t)at * V);
            if (next < vectors)
                load[u] = load_aligned(x + (int64_t)next * 16, policy);
        }
    }
}

// Thread t's state of its share of n elements from `x` on, which are elements j, j + 1, ... of their row.
template <int COUNT, class Operation, class In>
static __device__ typename Operation::State read_row(const In *x, int64_t n, int64_t j, int t, int group,
                                                     float l2_share)
{
    constexpr int V = 16 / sizeof(In);
    const auto *bytes = (const unsigned char *)x;
    const int vectors = (int)(n / V); // whole vectors; a chunk has fewer than 2^31
    const int64_t last = (int64_t)vectors * V + t;
    const bool has_last = last < n; // fewer than V elements are left, and fewer than group
    Running<Operation, In> running;
    In rest = {};

    if (has_last)
        rest = x[last]; // in flight together with the vectors
    if ((uintptr_t)bytes % 16 != 0)
        accumulate_vectors<false, IN_FLIGHT_UNALIGNED>(running, bytes, vectors, j, t, group, l2_share);
    else if constexpr (COUNT == REDUCE_MAX_IN_FLIGHT)
        read_vectors_pipelined<COUNT>(running, bytes, vectors, j, t, group, l2_share);
    else
        accumulate_vectors<true, COUNT>(running, bytes, vectors, j, t, group, l2_share);
    if (has_last) {
        running.template make_room<1>();
        running.add(rest, j + last);
    }
    return running.result();
}

template <class Operation, class In, int COUNT>
__global__ void __launch_bounds__(REDUCE_BLOCK, min_blocks_per_sm<Operation>)
    reduce_rows(const __grid_constant__ reduce_args args)
{
    using State = typename Operation::State;
    __shared__ __align__(16) unsigned char shared[REDUCE_BLOCK / 32 * sizeof(State)];
    const reduce_work &work = args.work;
    const int group = work.group, log2 = __ffs(group) - 1, t = threadIdx.x & (group - 1); // [0, group)
    const int64_t row = (int64_t)blockIdx.x * (REDUCE_BLOCK >> log2) + (threadIdx.x >> log2);
    const int64_t chunk = chunk_of_block(work), begin = chunk * work.chunk; // within this part of the row
    const int64_t n = min(work.chunk, args.count - begin);
    bool stores_result = t == 0 && row < args.outer;
    State state = Operation::identity();

    pdl_wait();
    if (work.early_trigger)
        pdl_trigger();
    if (row < args.outer)
        state = read_row<COUNT, Operation>((const In *)args.x + row * work.outer_stride + begin, n,
                                           args.first + begin, t, group, work.l2_share);
    if (group < REDUCE_BLOCK)
        state = combine_lanes<Operation>(state, group);
    else
        state = combine_block<Operation>(state, (State *)shared);

    if (work.splits > 1) // then the block has one row
        stores_result = combine_blocks<Operation>(state, row, (args.first ? args.first / work.chunk : 0) + chunk,
                                                  args, (State *)shared) &&
                        t == 0;
    if (stores_result)
        finish(Operation(), state, row, args);
}

// Vectors in shared memory with an XOR swizzle: vector i is at i ^ (i / 8 & mask). With mask 7, threads whose
// vectors are a power of two apart have no bank conflicts, or few.
struct Swizzled {
    Vector<16> *vectors;
    int mask; // 0 or 7

    __device__ Vector<16> &operator[](int i) const
    {
        return vectors[i ^ (i / 8 & mask)];
    }
};

// Loads `bytes` bytes of contiguous rows into shared memory.
template <bool ALIGNED, class In>
static __device__ void load_packed_rows(Swizzled shared, const unsigned char *x, int bytes, ByteRange array)
{
    constexpr int COUNT = ALIGNED ? REDUCE_IN_FLIGHT : IN_FLIGHT_UNALIGNED;
    const int vectors = (bytes + 15) / 16;

    for (int i = threadIdx.x; i < vectors; i += REDUCE_BLOCK * COUNT) {
        UnalignedLoad<In, 16> load[COUNT];

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

// Loads rows with gaps between them into shared memory.
template <class In>
static __device__ void load_strided_rows(Swizzled shared, const In *x, int rows, int n, int64_t step)
{
    constexpr int V = 16 / sizeof(In);

    for (int i = threadIdx.x; i < rows * n; i += REDUCE_BLOCK)
        ((In *)&shared[i / V])[i % V] = x[i / n * step + i % n];
}

// Thread t's state of its share of row r, which consists of whole vectors.
template <class Operation, class In>
static __device__ typename Operation::State accumulate_row_vectors(Swizzled shared, unsigned r, unsigned vectors,
                                                                   unsigned t, unsigned group)
{
    Running<Operation, In> running;

#pragma unroll 4
    for (unsigned k = t; k < vectors; k += group) {
        const Vector<16> vector = shared[r * vectors + k];
        running.template make_room<16 / sizeof(In)>();
        running.add(vector, k * (16 / sizeof(In)));
    }
    return running.result();
}

// Thread t's state of its share of a row of any n elements, read by words, or one at a time if elements are at
// least a word: word_at(i) is word i of the block's rows, element_at(i) is element i.
template <class Operation, class In, class WordAt, class ElementAt>
static __device__ typename Operation::State accumulate_row_words(WordAt word_at, ElementAt element_at, unsigned r,
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
        for (unsigned k = t; k < n / V; k += group) {
            running.template make_room<V>();
            running.add(word_of_row(k), k * V);
        }
        if (n % V && t == group - 1) {
            const Vector<4> last = word_of_row(n / V);

            running.template make_room<V>();
#pragma unroll
            for (unsigned c = 0; c < V - 1; c++)
                if (c < n % V)
                    running.add(element<In>(last, c), n / V * V + c);
        }
    } else {
#pragma unroll 4
        for (unsigned k = t; k < n; k += group) {
            running.template make_room<1>();
            running.add(element_at(r * n + k), k);
        }
    }
    return running.result();
}

// Short rows, each reduced by one lane or some lanes of a warp: a block loads as many of them into shared memory
// as fit, in memory order, and its threads read them there.
template <class Operation, class In>
__global__ void __launch_bounds__(REDUCE_BLOCK, short_rows_min_blocks_per_sm<Operation>)
    reduce_short_rows(const __grid_constant__ reduce_args args)
{
    constexpr int V = 16 / sizeof(In);
    __shared__ Vector<16> shared[REDUCE_SHORT_ROWS_SMEM_BYTES / 16 + 8];
    const int group = args.work.group, t = threadIdx.x & (group - 1); // [0, group)
    const int shift = __ffs(group) - 1;
    const int64_t first = (int64_t)blockIdx.x * args.work.short_rows_per_block, step = args.work.outer_stride;
    const int rows = (int)min(args.outer - first, (int64_t)args.work.short_rows_per_block), n = (int)args.n;
    const bool whole = n % V == 0;
    const Swizzled swizzled = {shared, whole ? 7 : 0};
    const In *x = (const In *)args.x + first * step;
    const auto *from = (const unsigned char *)x;
    const int bytes = rows * n * (int)sizeof(In);
    const ByteRange array = {(const unsigned char *)args.x, from + (args.outer - first) * n * (int64_t)sizeof(In)};

    pdl_wait();
    if (step != n)
        load_strided_rows(swizzled, x, rows, n, step);
    else if ((uintptr_t)from % 16 == 0 && from + (bytes + 15) / 16 * 16 <= array.end)
        load_packed_rows<true, In>(swizzled, from, bytes, array);
    else
        load_packed_rows<false, In>(swizzled, from, bytes, array);
    if (!whole && threadIdx.x < 8) // the last row's last word may extend past the loaded bytes
        ((unsigned char *)shared)[(step != n ? bytes : (bytes + 15) / 16 * 16) + threadIdx.x] = 0;
    __syncthreads(); // the rows are loaded before they are read
    for (int done = 0; done < rows; done += REDUCE_BLOCK >> shift) {
        const int r = done + (int)(threadIdx.x >> shift);
        auto state = Operation::identity();

        if (r < rows)
            state = whole ? accumulate_row_vectors<Operation, In>(swizzled, r, n / V, t, group)
                          : accumulate_row_words<Operation, In>(
                                [&](unsigned i) { return ((const uint32_t *)shared)[i]; },
                                [&](unsigned i) { return ((const In *)shared)[i]; }, r, n, t, group);
        state = combine_lanes<Operation>(state, group);
        if (r < rows && t == 0)
            finish(Operation(), state, first + r, args);
    }
}

// Contiguous rows of N elements that fit into one vector: each thread reduces V rows, which are N vectors. Fewer
// than V rows remain at the end; threads of the last block take one each.
template <class Operation, class In, int N>
__global__ void __launch_bounds__(REDUCE_BLOCK) reduce_rows_in_registers(const __grid_constant__ reduce_args args)
{
    constexpr int V = 16 / sizeof(In);
    const int64_t first = ((int64_t)blockIdx.x * REDUCE_BLOCK + threadIdx.x) * V;
    const int64_t left = args.outer / V * V + threadIdx.x;
    const In *x = (const In *)args.x;
    Vector<16> vectors[N + 1] = {}; // the last row's last word may extend past the loaded bytes
    const auto state_of = [&](int r) {
        if constexpr (N % V == 0)
            return accumulate_row_vectors<Operation, In>(Swizzled{vectors, 0}, r, N / V, 0, 1);
        else
            return accumulate_row_words<Operation, In>(
                [&](unsigned i) { return vectors[i / 4].word[i % 4]; },
                [&](unsigned i) { return element<In>(vectors[i / V], i % V); }, r, N, 0, 1);
    };

    pdl_wait();
    if (first + V <= args.outer) {
#pragma unroll
        for (int k = 0; k < N; k++)
            vectors[k] = load_aligned<16>((const unsigned char *)(x + first * N) + k * 16);
        finish_vector<In, V>(Operation(), first, args, state_of);
    }
    if (blockIdx.x == gridDim.x - 1 && left < args.outer) {
#pragma unroll
        for (int i = 0; i < N; i++)
            memcpy((unsigned char *)vectors + i * sizeof(In), &x[left * N + i], sizeof(In));
        finish(Operation(), state_of(0), left, args);
    }
}

// whether the rows can be kept in registers: at most one vector each, contiguous, and aligned
template <class In>
static bool fit_in_registers(const reduce_args &args)
{
    return args.n <= REDUCE_MAX_ROW_IN_REGISTERS && args.n * sizeof(In) <= 16 && args.work.short_rows_per_block &&
           args.work.outer_stride == args.n && (uintptr_t)args.x % 16 == 0 && can_store_result_vectors(args);
}

cudaError_t launch_reduce_rows(const reduce_args *args, cudaStream_t stream)
{
    const reduce_work &work = args->work;
    const int64_t rows =
        work.short_rows_per_block ? work.short_rows_per_block : REDUCE_BLOCK / work.group; // per block
    const dim3 grid((unsigned)ceil_div(args->outer, rows), (unsigned)ceil_div(args->count, work.chunk));

    return dispatch_reduce_widest<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);

#ifdef __CUDA_ARCH_LIST__
        if (work.flagged_partials &&
            work.words_per_partial <
                Flagged<typename Partial<Operation>::Type>::COUNT) // partial_fits_word() in
                                                                   // csrc/ops/reduce/work_split.c must agree
            return cudaErrorInvalidValue;
#endif
        if constexpr (result_may_have_x_dtype<Operation, In>)
            if (fit_in_registers<In>(*args)) {
                const unsigned blocks = (unsigned)ceil_div(args->outer, REDUCE_BLOCK * 16 / (int)sizeof(In));
                return dispatch<1, 2, 3, 4, 5, 6, 7, REDUCE_MAX_ROW_IN_REGISTERS>((int)args->n, [&](auto n) {
                    if constexpr (n * sizeof(In) <= 16)
                        return launch<reduce_rows_in_registers<Operation, In, n>>(blocks, REDUCE_BLOCK, 0, stream,
                                                                                  *args);
                    else
                        return cudaErrorInvalidValue;
                });
            }
        if (work.short_rows_per_block)
            return launch<reduce_short_rows<Operation, In>>(grid, REDUCE_BLOCK, 0, stream, *args);
        if constexpr (std::is_same_v<Operation, Sum<double>>)
            if (work.loads_in_flight == REDUCE_SUMS_IN_FLIGHT)
                return launch<reduce_rows<Operation, In, REDUCE_SUMS_IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream,
                                                                                 *args);
        if constexpr (std::is_same_v<In, float> &&
                      (std::is_same_v<Operation, Sum<double>> || is_extremum<Operation>::value))
            if (work.loads_in_flight == REDUCE_MAX_IN_FLIGHT)
                return launch<reduce_rows<Operation, In, REDUCE_MAX_IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream,
                                                                                *args);
        return launch<reduce_rows<Operation, In, REDUCE_IN_FLIGHT>>(grid, REDUCE_BLOCK, 0, stream, *args);
    });
}
