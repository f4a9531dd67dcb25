// A reduction by blocks, with divergent warps.
//
// The idea: the threads of a block add pairs of elements in shared memory, then pairs of these sums, so that
// log2(block size) steps are enough. Thread t adds the element at t + stride if t is a multiple of 2 * stride
// ("interleaved addressing", Mark Harris, Optimizing Parallel Reduction in CUDA, 2007), and the stride doubles.
// Each block stores one partial result; the same kernel reduces those, until one per row is left.
// What the rungs below wasted: n threads contended for one address.
// Launch: one thread per element, blocks of a power of two, as many along x as a row needs; of the rows x[o, :,
// i], i is along y and o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_divergent(const In *x, Rows rows, PartialSink<Operation> sink)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads)

    const int t = threadIdx.x, threads = blockDim.x; // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * threads + t;
    const In *row = x + rows.begin();

    partial[t] = j < rows.n ? Operation::of(row[j * rows.inner], j) : Operation::identity();
    __syncthreads(); // all elements are stored before another thread reads them

    for (int stride = 1; stride < threads; stride *= 2) {
        if (t % (2 * stride) == 0) // some threads of every warp, fewer in each step
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        sink.put(rows, partial[0]);
}

cudaError_t launch_reduce_divergent(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one_per_row<TEXTBOOK>(
        args, [=](int64_t n) { return ceil_div(n, threads); },
        [=](dim3 grid, auto x, Rows rows, auto sink) {
            reduce_divergent<<<grid, threads, threads * sizeof(*sink.states), stream>>>(x, rows, sink);
            return cudaGetLastError();
        });
}
