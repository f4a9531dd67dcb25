// A reduction by a tree in shared memory.
//
// The idea: the same sums in another order. Thread t adds the elements t and t + stride, and the stride halves:
// active threads are consecutive, so are their words, and no two lanes share a bank ("sequential addressing", Mark
// Harris, Optimizing Parallel Reduction in CUDA, 2007).
// What the rung below wasted: the extra wavefronts of words that came from only a few banks.
// Launch: one thread per element, blocks of a power of two, as many along x as a row needs; of the rows x[o, :,
// i], i is along y and o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_tree(const In *x, Rows rows, PartialSink<Operation> sink)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * threads + t;
    const In *row = x + rows.begin();

    partial[t] = j < rows.n ? Operation::of(row[j * rows.inner], rows.first + j) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = threads / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        sink.put(rows, partial[0]);
}

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one_per_row<EVERY>(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](dim3 grid, auto x, Rows rows, auto sink) {
            reduce_tree<<<grid, threads, threads * sizeof(*sink.states), stream>>>(x, rows, sink);
            return cudaGetLastError();
        });
}
