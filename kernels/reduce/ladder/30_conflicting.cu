// A reduction by blocks, with bank conflicts.
//
// The idea: the same pairs as below, but added by consecutive threads: thread t adds the pair at 2 * stride * t.
// Whole warps work or are idle, so that a step takes as few warps as possible.
// What the rung below wasted: half of the threads of every warp, then three quarters, and so on.
// What this one wastes: the lanes' words are 2 * stride apart, so that 2, 4, 8, ... of them share a bank.
// Launch: one thread per element; blocks of a power of two, as many as each row needs. Then the same for the
// partial results.
#include <cuda_runtime.h>

#include "passes.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_conflicting(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x;                        // t in [0, threads)
    const int64_t j = (int64_t)(blockIdx.x % results.blocks) * threads + t; // the thread's element of its row
    const In *row = x + blockIdx.x / results.blocks * n;

    partial[t] = j < n ? Operation::of(row[j]) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = 1; stride < threads; stride *= 2) {
        const int i = 2 * stride * t;

        if (i < threads) // the first threads, fewer in each step
            partial[i] = Operation::combine(partial[i], partial[i + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        results.put(partial[0]);
}

cudaError_t launch_reduce_conflicting(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return reduce_in_passes(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_conflicting<<<blocks, threads, threads * sizeof(*results.partials), stream>>>(x, n, results);
            return cudaGetLastError();
        });
}
