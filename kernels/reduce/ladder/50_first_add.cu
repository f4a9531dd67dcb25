// A reduction by blocks whose threads add two elements before they store.
//
// The idea: in a tree, half of the threads never add anything: they load, store, and wait. So there are half as
// many, and each adds two elements before it stores to shared memory.
// What the rung below wasted: half of its threads, and one step of its tree with a barrier.
// Launch: one thread per two elements, which are a block's width apart so that a warp's loads are coalesced;
// blocks of a power of two, as many as each row needs. Then the same for the partial results.
#include <cuda_runtime.h>

#include "passes.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_first_add(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)(blockIdx.x % results.blocks) * 2 * threads + t, k = j + threads; // its elements
    const In *row = x + blockIdx.x / results.blocks * n;

    const auto first = j < n ? Operation::of(row[j]) : Operation::identity();
    const auto second = k < n ? Operation::of(row[k]) : Operation::identity();

    partial[t] = Operation::combine(first, second);
    __syncthreads(); // all first sums are stored before another thread reads them

    for (int stride = threads / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        results.put(partial[0]);
}

cudaError_t launch_reduce_first_add(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return reduce_in_passes(
        args, [=](int64_t n) { return ceil_div(n, 2 * threads); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_first_add<<<blocks, threads, threads * sizeof(*results.partials), stream>>>(x, n, results);
            return cudaGetLastError();
        });
}
