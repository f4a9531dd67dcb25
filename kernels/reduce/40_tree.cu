// A reduction through a tree in shared memory.
//
// The idea: a block adds its elements in pairs, and the pairs' sums in pairs, so that log2(blockDim) steps are
// enough. Thread t takes the partners t and t + stride, and the stride is halved: the threads at work stay side
// by side, their words too, and no two of them meet in a bank ("sequential addressing", Mark Harris, Optimizing
// Parallel Reduction in CUDA, 2007). Each block leaves one partial result; the same kernel adds those, until
// one a row is left.
// What the rungs below wasted: they did one addition at a time.
// Launch: one thread an element, blocks of a power of two, as many along x as a row needs; the rows x[o, :, i]
// have their i along y and their o along z. Then the same on the partial results.
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/grid.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_ops.cuh"
#include "kernels.h"

// x (…, n, inner) are elements, or the partial results of the launch before, n of each row from `first` on; `out`
// takes a block's result, one of `blocks` of its row
template <class Operation, bool ONE_ROW, class In, class Out>
__global__ void reduce_tree(const In *x, Out out, int64_t first, int64_t n, int64_t inner, int64_t first_row,
                            int64_t blocks)
{
    extern __shared__ __align__(16) unsigned char shared[];
    auto partial = (typename Operation::State *)shared; // (blockDim.x)

    const int t = threadIdx.x; // [0, blockDim.x)
    const int64_t j = (int64_t)blockIdx.x * blockDim.x + t;
    const int64_t o = blockIdx.z, i = blockIdx.y;
    const int64_t at = ONE_ROW ? j : (o * n + j) * inner + i; // one row is spared the products
    const int64_t row = ONE_ROW ? 0 : first_row + o * inner + i;

    partial[t] = j < n ? Operation::of(x[at], first + j) : Operation::identity();
    __syncthreads(); // all elements are there before a partner is read

    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        out.put(row * blocks + first / blockDim.x + blockIdx.x, partial[0]);
}

// of a launch with several blocks a row
template <class State>
struct Partials {
    State *states; // (rows, blocks)

    __device__ void put(int64_t i, State state) const
    {
        states[i] = state;
    }
};

// of one with one block a row, the last
template <class Operation>
struct Results {
    reduce_args args;

    __device__ void put(int64_t row, typename Operation::State state) const
    {
        finish(Operation(), state, row, args);
    }
};

// launches reduce_tree for x (outer, n, inner), which is `whole` elements a row with what comes in other parts; a
// grid has room for MAX_GRID_YZ of outer and of inner
template <class Operation, class In, class Out>
static void reduce_rows(const In *x, Out out, int64_t outer, int64_t n, int64_t inner, int block,
                        cudaStream_t stream, int64_t first, int64_t whole)
{
    const unsigned blocks = (unsigned)ceil_div(n, block);
    const int64_t all_blocks = ceil_div(whole, block);
    const size_t shared = block * sizeof(typename Operation::State);

    if (outer * inner == 1) {
        reduce_tree<Operation, true, In, Out>
            <<<blocks, block, shared, stream>>>(x, out, first, n, 1, 0, all_blocks);
        return;
    }
    for (int64_t o = 0; o < outer; o += MAX_GRID_YZ)
        for (int64_t i = 0; i < inner; i += MAX_GRID_YZ) {
            const dim3 grid(blocks, (unsigned)std::min(inner - i, MAX_GRID_YZ),
                            (unsigned)std::min(outer - o, MAX_GRID_YZ));
            reduce_tree<Operation, false, In, Out><<<grid, block, shared, stream>>>(
                x + o * n * inner + i, out, first, n, inner, o * inner + i, all_blocks);
        }
}

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        using In = decltype(zero);
        static_assert(sizeof(State) <= REDUCE_STATE_BYTES, "reduce_scratch() has room for it");

        const int block = args->block_size;
        const In *x = (const In *)args->x;
        const int64_t rows = args->outer * args->inner;
        const Results<Operation> results{*args};
        int64_t left = ceil_div(args->n, block); // of each row
        State *states = (State *)args->scratch;  // (rows, left)

        if (left == 1) {
            reduce_rows<Operation>(x, results, args->outer, args->n, args->inner, block, stream, 0, args->n);
            return cudaGetLastError();
        }
        reduce_rows<Operation>(x, Partials<State>{states}, args->outer, args->count, args->inner, block, stream,
                               args->first, args->n);
        if (args->first + args->count < args->n) // the other parts are still to come
            return cudaGetLastError();
        while (left > block) {
            State *next = states + rows * left;
            reduce_rows<Operation>(states, Partials<State>{next}, rows, left, 1, block, stream, 0, left);
            left = ceil_div(left, block);
            states = next;
        }
        reduce_rows<Operation>(states, results, rows, left, 1, block, stream, 0, left);
        return cudaGetLastError();
    });
}
