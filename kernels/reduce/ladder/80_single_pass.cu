// A reduction in a single launch.
//
// The idea: every block stores its partial result and increments a counter of its row. The block that increments
// it last knows that all partial results are there, so it combines them. A fence between the two keeps their
// order: a block that sees the count sees the partial results, too.
// What the rung below wasted: a launch for a few hundred numbers per row, which takes longer than adding them.
// Launch: blocks of whole warps, at most 32; per row as many as fill a GPU, or as it takes. The counters are zero
// before and after.
#include <cuda_runtime.h>

#include "../../common/shuffle.cuh"
#include "passes.cuh"
#include "vectors.cuh"

constexpr int LOADS = 8;                    // 16-byte loads in flight per thread
constexpr int MIN_ELEMENTS_PER_THREAD = 16; // if a row has more than one block
constexpr int BLOCKS_PER_SM = 4;            // as many as each row gets at most, per multiprocessor

// Combines the states of a block's threads; thread 0 gets the result. `partial` holds one state per warp.
template <class Operation>
static __device__ typename Operation::State combine_block(typename Operation::State state,
                                                          typename Operation::State *partial)
{
    const int t = threadIdx.x, warps = blockDim.x / 32;

    for (int delta = 16; delta > 0; delta /= 2) // all lanes shuffle; lane 0 gets the warp's sum
        state = Operation::combine(state, shuffle_down(state, delta));
    if (t % 32 == 0)
        partial[t / 32] = state;
    __syncthreads(); // all warps' sums are stored before the first warp reads them

    if (t < 32) { // one whole warp
        state = t < warps ? partial[t] : Operation::identity();
        for (int delta = 16; delta > 0; delta /= 2)
            state = Operation::combine(state, shuffle_down(state, delta));
    }
    return state;
}

// The state of the thread's share of a row.
template <class Operation, class In>
static __device__ typename Operation::State combine_share(const In *row, int64_t n, unsigned blocks)
{
    constexpr int WIDTH = 16 / sizeof(In);             // elements per vector
    const int64_t step = (int64_t)blocks * blockDim.x; // threads of the row
    const int64_t first = (int64_t)(blockIdx.x % blocks) * blockDim.x + threadIdx.x, vectors = n / WIDTH;
    auto state = Operation::identity();

    for (int64_t v = first; v < vectors; v += LOADS * step) {
        VectorOf<In> loaded[LOADS];

#pragma unroll
        for (int l = 0; l < LOADS; l++)
            if (v + l * step < vectors)
                loaded[l] = load_vector(row + (v + l * step) * WIDTH);
#pragma unroll
        for (int l = 0; l < LOADS; l++)
            for (int e = 0; e < WIDTH && v + l * step < vectors; e++)
                state = Operation::combine(state, Operation::of(loaded[l].element[e]));
    }
    if (first < n - vectors * WIDTH) // the rest of the row
        state = Operation::combine(state, Operation::of(row[vectors * WIDTH + first]));
    return state;
}

template <class Operation, class In>
__global__ void __launch_bounds__(1024)
    reduce_single_pass(const In *x, int64_t n, Results<Operation> results, unsigned *counters)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads / 32)
    __shared__ bool last;                               // whether this block is its row's last

    const unsigned blocks = results.blocks, number = blockIdx.x / blocks; // of the row
    auto state = combine_block<Operation>(combine_share<Operation>(x + number * n, n, blocks), partial);

    if (blocks > 1) {
        const auto *partials = results.partials + (int64_t)number * blocks; // of the row

        if (threadIdx.x == 0) {
            results.put(state);
            __threadfence(); // the partial result precedes the count
            // the count wraps around to 0 for the next launch
            last = atomicInc(&counters[number], blocks - 1) == blocks - 1;
            __threadfence(); // the count precedes reading the others' partial results
        }
        __syncthreads(); // `last` is set, and `partial` has been read
        if (!last)       // the same for the whole block
            return;
        state = Operation::identity();
        for (unsigned b = threadIdx.x; b < blocks; b += blockDim.x) // in the same order whichever block is last
            state = Operation::combine(state, partials[b]);
        state = combine_block<Operation>(state, partial);
    }
    if (threadIdx.x == 0)
        finish(Operation(), state, number, results.args);
}

cudaError_t launch_reduce_single_pass(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;
    const int64_t most = BLOCKS_PER_SM * args->multiprocessors;
    const int64_t blocks = std::min(ceil_div(args->n, MIN_ELEMENTS_PER_THREAD * threads), most);

    if (args->outer * blocks > INT32_MAX) // a grid has no more
        return cudaErrorInvalidConfiguration;
    return dispatch_rung(args, [&](auto operation, auto zero) {
        using State = typename decltype(operation)::State;
        const auto partials = (State *)args->scratch;

        reduce_single_pass<<<args->outer * blocks, threads, threads / 32 * sizeof(State), stream>>>(
            (const decltype(zero) *)args->x, args->n,
            Results<decltype(operation)>{partials, (unsigned)blocks, *args}, args->work.counters);
        return cudaGetLastError();
    });
}
