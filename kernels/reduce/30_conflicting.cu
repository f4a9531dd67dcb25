// A reduction by blocks, with bank conflicts.
//
// The idea: the same pairs as below, but the threads that take them stand side by side: thread t takes the pair at
// 2 * stride * t. Whole warps work and whole warps do not, so that a step takes as few of them as can be.
// What the rung below wasted: half of the threads of every warp, then three quarters, and so on.
// What this one wastes: the lanes' words lie 2 * stride apart, which is 2, 4, 8, … of them in one bank.
// Launch: one thread an element, blocks of a power of two, as many along x as a row needs; the rows x[o, :, i]
// have their i along y and their o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_conflicting(const In *x, Rows rows, Left<Operation> left)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * threads + t;
    const In *row = x + rows.begin();

    partial[t] = j < rows.n ? Operation::of(row[j * rows.inner], j) : Operation::identity();
    __syncthreads(); // all elements are there before a partner is read

    for (int stride = 1; stride < threads; stride *= 2) {
        const int i = 2 * stride * t;

        if (i < threads) // the first threads, and ever fewer
            partial[i] = Operation::combine(partial[i], partial[i + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        left.put(rows, partial[0]);
}

cudaError_t launch_reduce_conflicting(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one<TEXTBOOK>(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](dim3 grid, auto x, Rows rows, auto left) {
            reduce_conflicting<<<grid, threads, threads * sizeof(*left.states), stream>>>(x, rows, left);
            return cudaGetLastError();
        });
}
