// sum, min or max of an array, through one atomic.
//
// The idea: one thread an element, and each adds its element to one cell of global memory. An atomic makes the
// read, the addition and the write one step, so that no addition is lost.
// What the rung below wasted: all cores but one. This one does not do much better: n atomics on one address
// stand in one queue.
// Launch: blocks of 256 threads over the elements, after a launch of one thread that sets the cell, and before
// one that stores the result in its own type.
#include <cuda_runtime.h>

#include "../common/atomics.cuh"
#include "../common/grid.cuh"
#include "../common/reduce_ops.cuh"
#include "kernels.h"

template <class Operation, class T>
__global__ void reduce_atomic_start(T *cell)
{
    *cell = Operation::IDENTITY;
}

template <class Operation, class In, class T>
__global__ void reduce_atomic(const In *x, T *cell, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        atomic_combine(Operation(), cell, T(x[i]));
}

template <class T, class Result>
__global__ void reduce_atomic_finish(const T *cell, Result *out)
{
    *out = Result(*cell);
}

cudaError_t launch_reduce_atomic(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce(args, [&](auto types, auto operation) {
        using In = typename decltype(types)::In;
        using T = typename decltype(types)::Accumulator;
        using Result = typename decltype(types)::Result;
        using Operation = decltype(operation);
        constexpr int BLOCK = 256;
        const unsigned blocks = (unsigned)ceil_div(args->n, BLOCK);
        T *cell = (T *)args->scratch;

        reduce_atomic_start<Operation, T><<<1, 1, 0, stream>>>(cell);
        reduce_atomic<Operation, In, T><<<blocks, BLOCK, 0, stream>>>((const In *)args->x, cell, args->n);
        reduce_atomic_finish<T, Result><<<1, 1, 0, stream>>>(cell, (Result *)args->out);
        return cudaGetLastError();
    });
}
