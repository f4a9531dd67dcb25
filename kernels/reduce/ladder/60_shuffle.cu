// A reduction by blocks whose warps add in registers.
//
// The idea: the lanes of a warp read each other's registers by shuffles, which need neither memory nor barriers.
// Five of them reduce a warp's 32 sums to one. Shared memory holds one sum per warp, and the first warp adds those
// the same way.
// What the rung below wasted: a round trip through shared memory and a barrier for every step.
// Launch: one thread per two elements; blocks of whole warps, at most 32, as many as each row needs. Then the same
// for the partial results.
#include <cuda_runtime.h>

#include "passes.cuh"
#include "../../common/shuffle.cuh"

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

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_shuffle(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads / 32)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)(blockIdx.x % results.blocks) * 2 * threads + t, k = j + threads; // its elements
    const In *row = x + blockIdx.x / results.blocks * n;

    const auto first = j < n ? Operation::of(row[j]) : Operation::identity();
    const auto second = k < n ? Operation::of(row[k]) : Operation::identity();

    const auto state = combine_block<Operation>(Operation::combine(first, second), partial);

    if (t == 0)
        results.put(state);
}

cudaError_t launch_reduce_shuffle(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return reduce_in_passes(
        args, [=](int64_t n) { return ceil_div(n, 2 * threads); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_shuffle<<<blocks, threads, threads / 32 * sizeof(*results.partials), stream>>>(x, n, results);
            return cudaGetLastError();
        });
}
