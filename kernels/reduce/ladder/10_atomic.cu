// A reduction with atomics.
//
// The idea: one thread per element, and each adds its element to its row's cell in global memory. An atomic makes
// the read, the addition and the write one step, so that no addition is lost.
// What the rung below wasted: all cores but one. With few rows this rung is hardly better: n atomics on one
// address are serialised. Launch: blocks of 256 threads over the elements. A launch before it sets the cells, and
// one after it stores the results in their own dtype, both with one thread per row.
#include <cuda_runtime.h>

#include "../../common/atomics.cuh"
#include "passes.cuh"

template <class Operation>
__global__ void reduce_atomic_init(typename Operation::State *cells, int64_t rows)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < rows)
        cells[row] = Operation::identity();
}

template <class Operation, class In>
__global__ void reduce_atomic(const In *x, typename Operation::State *cells, int64_t rows, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < rows * n)
        atomic_combine(Operation(), &cells[rows == 1 ? 0 : i / n], Operation::of(x[i]));
}

template <class Operation>
__global__ void reduce_atomic_finish(const typename Operation::State *cells, reduce_args args)
{
    const int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (row < args.outer)
        finish(Operation(), cells[row], row, args);
}

cudaError_t launch_reduce_atomic(const reduce_args *args, cudaStream_t stream)
{
    constexpr int BLOCK = 256;
    const int64_t rows = args->outer, blocks = ceil_div(rows * args->n, BLOCK);
    const unsigned row_blocks = (unsigned)ceil_div(rows, BLOCK);

    if (blocks > INT32_MAX) // a grid has no more
        return cudaErrorInvalidConfiguration;
    return dispatch_rung(args, [&](auto operation, auto zero) {
        using Operation = decltype(operation);
        const auto x = (const decltype(zero) *)args->x;
        const auto cells = (typename Operation::State *)args->scratch; // (rows)

        reduce_atomic_init<Operation><<<row_blocks, BLOCK, 0, stream>>>(cells, rows);
        if (cudaError_t error = cudaGetLastError())
            return error;
        reduce_atomic<Operation><<<(unsigned)blocks, BLOCK, 0, stream>>>(x, cells, rows, args->n);
        if (cudaError_t error = cudaGetLastError())
            return error;
        reduce_atomic_finish<Operation><<<row_blocks, BLOCK, 0, stream>>>(cells, *args);
        return cudaGetLastError();
    });
}
