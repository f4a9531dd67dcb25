// A reduction, one thread per result.
//
// The idea: a row of x becomes one element of the result, and rows are independent. So each thread loops over its
// own row, and no thread waits for another. For a reduction down the columns of a matrix, consecutive threads read
// consecutive elements.
// What it wastes: with few rows, most of the GPU; a sum over all elements is the work of one thread.
// Launch: blocks of 256 threads over the rows.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/reduce_finish.cuh"
#include "../../common/reduce_ops.cuh"
#include "kernels.h"

template <class Operation, class In>
__global__ void reduce_rowwise(const In *x, reduce_args args)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, n = args.n, inner = args.inner;

    if (row < args.outer * inner) {
        const int64_t o = inner == 1 ? row : row / inner, i = row - o * inner;
        const In *first = x + o * n * inner + i; // x[o, :, i] is the thread's row
        typename Operation::State state = initial_state(Operation(), args);

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
