// A reduction by blocks whose warps add in registers.
//
// The idea: the lanes of a warp read each other's registers by shuffles, which need neither memory nor barriers.
// Five of them reduce a warp's 32 sums to one. Shared memory holds one sum per warp, and the first warp adds those
// the same way.
// What the rung below wasted: a round trip through shared memory and a barrier for every step.
// Launch: one thread per two elements; blocks of whole warps, at most 32; as many along x as a row needs; of the
// rows x[o, :, i], i is along y and o along z. Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/reduce_launches.cuh"
#include "../common/shuffle.cuh"

template <class Operation, class In>
__global__ void __launch_bounds__(1024) reduce_shuffle(const In *x, Rows rows, PartialSink<Operation> sink)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (threads / 32)

    const int t = threadIdx.x, threads = blockDim.x;                          // t in [0, threads)
    const int64_t j = (int64_t)blockIdx.x * 2 * threads + t, k = j + threads; // the thread's elements
    const In *row = x + rows.begin();

    const auto first = j < rows.n ? Operation::of(row[j * rows.inner], j) : Operation::identity();
    const auto second = k < rows.n ? Operation::of(row[k * rows.inner], k) : Operation::identity();

    auto state = Operation::combine(first, second);

    for (int delta = 16; delta > 0; delta /= 2) // all lanes shuffle; lane 0 gets the warp's sum
        state = Operation::combine(state, shuffle_down(state, delta));
    if (t % 32 == 0)
        partial[t / 32] = state;
    __syncthreads(); // all warps' sums are stored before the first warp reads them

    if (t < 32) { // one whole warp
        state = t < threads / 32 ? partial[t] : Operation::identity();
        for (int delta = 16; delta > 0; delta /= 2)
            state = Operation::combine(state, shuffle_down(state, delta));
    }
    if (t == 0)
        sink.put(rows, state);
}

cudaError_t launch_reduce_shuffle(const reduce_args *args, cudaStream_t stream)
{
    const int threads = args->block_size;

    return launch_until_one_per_row<TEXTBOOK>(
        args, [=](int64_t n) { return ceil_div(n, 2 * threads); },
        [=](dim3 grid, auto x, Rows rows, auto sink) {
            reduce_shuffle<<<grid, threads, threads / 32 * sizeof(*sink.states), stream>>>(x, rows, sink);
            return cudaGetLastError();
        });
}
