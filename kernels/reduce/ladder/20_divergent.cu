// A reduction by blocks, with divergent warps.
//
// The idea: the threads of a block add pairs of elements in shared memory, then pairs of these sums, so that
// log2(block size) steps are enough. Thread t adds the element at t + stride if t is a multiple of 2 * stride
// ("interleaved addressing", Mark Harris, Optimizing Parallel Reduction in CUDA, 2007), and the stride doubles.
// Each block stores one partial result; the same kernel reduces those, until one per row is left.
// What the rungs below wasted: n threads contended for one address.
// Launch: one thread per element; blocks of a power of two, as many as each row needs. Then the same for the
// partial results.
#include <cuda_runtime.h>

#include "passes.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_divergent(const In *x, int64_t n, Results<Operation> results)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x;                        // t in [0, threads)
    const int64_t j = (int64_t)(blockIdx.x % results.blocks) * threads + t; // the thread's element of its row
    const In *row = x + blockIdx.x / results.blocks * n;

    partial[t] = j < n ? Operation::of(row[j]) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = 1; stride < threads; stride *= 2) {
        if (t % (2 * stride) == 0) // some threads of every warp, fewer in each step
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        results.put(partial[0]);
}

cudaError_t launch_reduce_divergent(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return reduce_in_passes(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](unsigned blocks, auto x, int64_t n, const auto &results) {
            reduce_divergent<<<blocks, threads, threads * sizeof(*results.partials), stream>>>(x, n, results);
            return cudaGetLastError();
        });
}
