// A reduction by blocks that stride over the rows with 16-byte loads.
//
// The idea: memory is fast when many bytes are in flight. So a thread loads 16 bytes at a time and issues several
// loads before it adds the first one's elements. There are only as many blocks as fill a GPU: each continues with
// further elements, so that the final steps of a block are paid once.
// What the rung below wasted: threads with two small loads each spent most of their time on starting and ending.
// Launch: blocks of whole warps, at most 32; per row as many as fill a GPU, or as it takes. Then one block per row
// for the partial results.
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
__global__ void __launch_bounds__(1024) reduce_vectorized(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads / 32)

    const In *row = x + blockIdx.x / results.blocks * n;
    const auto share = combine_share<Operation>(row, n, results.blocks);
    const auto state = combine_block<Operation>(share, partial);

    if (threadIdx.x == 0)
        results.put(state);
}

cudaError_t launch_reduce_vectorized(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;
    const int64_t most = BLOCKS_PER_SM * args->multiprocessors;

    return reduce_in_passes(
        args, [=](int64_t n) { return std::min(ceil_div(n, MIN_ELEMENTS_PER_THREAD * threads), most); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_vectorized<<<blocks, threads, threads / 32 * sizeof(*results.partials), stream>>>(x, n,
                                                                                                     results);
            return cudaGetLastError();
        });
}
