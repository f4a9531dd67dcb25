// A reduction by a tree in shared memory.
//
// The idea: the same sums in another order. Thread t adds the elements t and t + stride, and the stride halves:
// active threads are consecutive, so are their words, and no two lanes share a bank ("sequential addressing", Mark
// Harris, Optimizing Parallel Reduction in CUDA, 2007).
// What the rung below wasted: the extra wavefronts of words that came from only a few banks.
// Launch: one thread per element; blocks of a power of two, as many as each row needs. Then the same for the
// partial results.
#include <cuda_runtime.h>

#include "passes.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_tree(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x;                        // t in [0, threads)
    const int64_t j = (int64_t)(blockIdx.x % results.blocks) * threads + t; // the thread's element of its row
    const In *row = x + blockIdx.x / results.blocks * n;

    partial[t] = j < n ? Operation::of(row[j]) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = threads / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        results.put(partial[0]);
}

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return reduce_in_passes(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_tree<<<blocks, threads, threads * sizeof(*results.partials), stream>>>(x, n, results);
            return cudaGetLastError();
        });
}
