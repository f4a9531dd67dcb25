// A reduction through a tree in shared memory.
//
// The idea: the same sums in another order. Thread t takes the partners t and t + stride, and the stride is
// halved: the threads at work stay side by side, their words too, and no two of them meet in a bank ("sequential
// addressing", Mark Harris, Optimizing Parallel Reduction in CUDA, 2007).
// What the rung below wasted: all but one of the wavefronts in which the lanes' words came out of a few banks.
// Launch: one thread an element, blocks of a power of two, as many along x as a row needs; the rows x[o, :, i]
// have their i along y and their o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_tree(const In *x, Rows rows, Left<Operation> left)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * threads + t;
    const In *row = x + rows.begin();

    partial[t] = j < rows.n ? Operation::of(row[j * rows.inner], rows.first + j) : Operation::identity();
    __syncthreads(); // all elements are there before a partner is read

    for (int stride = threads / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        left.put(rows, partial[0]);
}

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one<EVERY>(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](dim3 grid, auto x, Rows rows, auto left) {
            reduce_tree<<<grid, threads, threads * sizeof(*left.states), stream>>>(x, rows, left);
            return cudaGetLastError();
        });
}
