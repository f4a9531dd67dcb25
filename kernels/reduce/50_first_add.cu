// A reduction by blocks, whose threads add once before they store.
//
// The idea: in a tree half of the threads never add anything: they load, store, and wait. So there are half as
// many, and each adds two elements on their way to shared memory.
// What the rung below wasted: half of its threads, and a step of its tree with a barrier.
// Launch: one thread two elements, a block's width apart so that a warp loads what lies side by side; blocks of a
// power of two, as many along x as a row needs; the rows x[o, :, i] have their i along y and their o along z. Then
// the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_first_add(const In *x, Rows rows, Left<Operation> left)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x;                          // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * 2 * threads + t, k = j + threads; // the thread's elements
    const In *row = x + rows.begin();

    const auto first = j < rows.n ? Operation::of(row[j * rows.inner], j) : Operation::identity();
    const auto second = k < rows.n ? Operation::of(row[k * rows.inner], k) : Operation::identity();

    partial[t] = Operation::combine(first, second);
    __syncthreads(); // all first sums are there before a partner is read

    for (int stride = threads / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        left.put(rows, partial[0]);
}

cudaError_t launch_reduce_first_add(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one<TEXTBOOK>(
        args, [=](int64_t n) { return ceil_div(n, 2 * threads); },
        [=](dim3 grid, auto x, Rows rows, auto left) {
            reduce_first_add<<<grid, threads, threads * sizeof(*left.states), stream>>>(x, rows, left);
            return cudaGetLastError();
        });
}
