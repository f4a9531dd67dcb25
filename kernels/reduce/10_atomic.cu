// A reduction with atomics.
//
// The idea: one thread per element, and each adds its element to its row's cell in global memory. An atomic makes
// the read, the addition and the write one step, so that no addition is lost.
// What the rung below wasted: all threads but one per row. With few rows this rung is hardly better: n atomics on
// one address are serialised.
// Launch: blocks of 256 threads over the elements. A launch before it sets the cells, and one after it stores the
// results in their own dtype, both with one thread per row.
#include <cuda_runtime.h>

#include "../common/atomics.cuh"
#include "../common/grid.cuh"
#include "../common/reduce_finish.cuh"
#include "../common/reduce_ops.cuh"
#include "kernels.h"

template <class Operation>
__global__ void reduce_atomic_init(typename Operation::State *cells, int64_t rows)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < rows)
        cells[row] = Operation::identity();
}

template <class Operation, class In>
__global__ void reduce_atomic(const In *x, typename Operation::State *cells, int64_t outer, int64_t n,
                              int64_t inner)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; // x[o, j, k] is x[(o * n + j) * inner + k]

    if (i < outer * n * inner) {
        const int64_t row = outer * inner == 1 ? 0 : i / (n * inner) * inner + i % inner;
        atomic_combine(Operation(), &cells[row], Operation::of(x[i], 0));
    }
}

template <class Operation>
__global__ void reduce_atomic_finish(const typename Operation::State *cells, reduce_args args)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < args.outer * args.inner)
        finish(Operation(), cells[row], row, args);
}

cudaError_t launch_reduce_atomic(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce<REAL>(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        using State = typename Operation::State;
        using In = decltype(zero);

        if constexpr (sizeof(State) <= 8) {
            constexpr int BLOCK = 256;
            const int64_t rows = args->outer * args->inner;
            const unsigned blocks = (unsigned)ceil_div(rows * args->n, BLOCK);
            const unsigned row_blocks = (unsigned)ceil_div(rows, BLOCK);
            State *cells = (State *)args->scratch;

            reduce_atomic_init<Operation><<<row_blocks, BLOCK, 0, stream>>>(cells, rows);
            if (cudaError_t error = cudaGetLastError())
                return error;
            reduce_atomic<Operation, In>
                <<<blocks, BLOCK, 0, stream>>>((const In *)args->x, cells, args->outer, args->n, args->inner);
            if (cudaError_t error = cudaGetLastError())
                return error;
            reduce_atomic_finish<Operation><<<row_blocks, BLOCK, 0, stream>>>(cells, *args);
            return cudaGetLastError();
        } else { // argmin, argmax, var, std: no atomic is that wide
            return cudaErrorInvalidValue;
        }
    });
}
