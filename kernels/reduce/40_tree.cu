// A reduction through a tree in shared memory.
//
// The idea: a block adds its elements in pairs, and the pairs' sums in pairs, so that log2(blockDim) steps are
// enough. Thread t takes the partners t and t + stride, and the stride is halved: the threads at work stay side
// by side, their words too, and no two of them meet in a bank ("sequential addressing", Mark Harris, Optimizing
// Parallel Reduction in CUDA, 2007). Each block leaves one partial result; the same kernel adds those, until
// one a row is left.
// What the rungs below wasted: they did one addition at a time.
// Launch: one thread an element, blocks of a power of two, as many along x as a row needs; the rows along y and z.
// Then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_ops.cuh"
#include "../common/rows.cuh"
#include "kernels.h"

// x (outer, n, inner) are elements, or the partial results of the launch before; `out` takes a block's result
template <class Operation, class In, class Out>
__global__ void reduce_tree(const In *x, Out out, int64_t n, int64_t inner, int64_t rows)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (blockDim.x)

    const int t = threadIdx.x; // [0, blockDim.x)
    const int64_t j = (int64_t)blockIdx.x * blockDim.x + t;
    const int64_t row = block_row();
    const bool exists = row < rows;

    partial[t] =
        exists && j < n ? Operation::of(x[row_start(row, n, inner) + j * inner], j) : Operation::identity();
    __syncthreads(); // all elements are there before a partner is read

    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0 && exists)
        out.put(row * gridDim.x + blockIdx.x, partial[0]);
}

// a launch of which more than one block a row is left
template <class State>
struct Partials {
    State *states; // (rows, blocks)

    __device__ void put(int64_t i, State state) const
    {
        states[i] = state;
    }
};

// the last one
template <class Operation>
struct Results {
    reduce_args args;

    __device__ void put(int64_t row, typename Operation::State state) const
    {
        finish(Operation(), state, row, args);
    }
};

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        using In = decltype(zero);
        static_assert(sizeof(State) <= REDUCE_STATE_BYTES, "reduce_scratch() has room for it");

        const int block = args->block_size;
        const int64_t rows = args->outer * args->inner;
        const Results<Operation> results{*args};
        State *partials = (State *)args->scratch;
        auto reduce = [&](auto *x, int64_t n, int64_t inner) { // returns how many are left of n
            using X = std::remove_cv_t<std::remove_pointer_t<decltype(x)>>;
            const int64_t blocks = ceil_div(n, block);
            const dim3 grid = rows_grid(rows, blocks);
            const size_t shared = block * sizeof(State);

            if (blocks > 1)
                reduce_tree<Operation, X, Partials<State>>
                    <<<grid, block, shared, stream>>>(x, Partials<State>{partials}, n, inner, rows);
            else
                reduce_tree<Operation, X, Results<Operation>>
                    <<<grid, block, shared, stream>>>(x, results, n, inner, rows);
            return blocks;
        };

        int64_t left = reduce((const In *)args->x, args->n, args->inner);
        while (left > 1) {
            const State *x = partials; // (rows, left)
            partials += rows * left;
            left = reduce(x, left, 1);
        }
        return cudaGetLastError();
    });
}
