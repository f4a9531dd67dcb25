// A reduction, one thread a result.
//
// The idea: a row of x becomes one element of the result, and rows have nothing to do with each other. So each
// thread walks along a row of its own, and no thread waits for another. Where rows lie side by side (a reduction
// down the columns of a matrix), the threads of a warp read side by side, too. What the rung below wasted: all
// cores but one. With few rows this one wastes them as well: a sum of everything is one thread's work. Launch:
// blocks of 256 threads over the rows.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_ops.cuh"
#include "kernels.h"

template <class Operation, class In>
__global__ void reduce_rowwise(const In *x, reduce_args args)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = args.n, inner = args.inner;

    if (row < args.outer * inner) {
        const int64_t o = inner == 1 ? row : row / inner, i = row - o * inner;
        const In *first = x + o * n * inner + i; // x[o, :, i] is the thread's row
        typename Operation::State state = first_state(Operation(), args);

        for (int64_t j = 0; j < n; j++)
            state = Operation::combine(state, Operation::of(first[j * inner], j));
        finish(Operation(), state, row, args);
    }
}

cudaError_t launch_reduce_rowwise(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce<EVERY>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using In = decltype(zero);
        constexpr int BLOCK = 256;
        const unsigned blocks = (unsigned)ceil_div(args->outer * args->inner, BLOCK);

        reduce_rowwise<Operation, In><<<blocks, BLOCK, 0, stream>>>((const In *)args->x, *args);
        return cudaGetLastError();
    });
}
