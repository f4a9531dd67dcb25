// A reduction by blocks, with bank conflicts.
//
// The idea: the same pairs as below, but added by consecutive threads: thread t adds the pair at 2 * stride * t.
// Whole warps work or are idle, so that a step takes as few warps as possible.
// What the rung below wasted: half of the threads of every warp, then three quarters, and so on.
// What this one wastes: the lanes' words are 2 * stride apart, so that 2, 4, 8, ... of them share a bank.
// Launch: one thread per element, blocks of a power of two, as many along x as a row needs; of the rows x[o, :,
// i], i is along y and o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_conflicting(const In *x, Rows rows, PartialSink<Operation> sink)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * threads + t;
    const In *row = x + rows.begin();

    partial[t] = j < rows.n ? Operation::of(row[j * rows.inner], j) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = 1; stride < threads; stride *= 2) {
        const int i = 2 * stride * t;

        if (i < threads) // the first threads, fewer in each step
            partial[i] = Operation::combine(partial[i], partial[i + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        sink.put(rows, partial[0]);
}

cudaError_t launch_reduce_conflicting(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one_per_row<TEXTBOOK>(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](dim3 grid, auto x, Rows rows, auto sink) {
            reduce_conflicting<<<grid, threads, threads * sizeof(*sink.states), stream>>>(x, rows, sink);
            return cudaGetLastError();
        });
}
