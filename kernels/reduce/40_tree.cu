// sum, min or max of an array, through a tree in shared memory.
//
// The idea: a block adds its elements in pairs, and the pairs' sums in pairs, so that log2(blockDim) steps are
// enough. Thread t takes the partners t and t + stride, and the stride is halved: the threads at work stay side
// by side, their words too, and no two of them meet in a bank ("sequential addressing", Mark Harris, Optimizing
// Parallel Reduction in CUDA, 2007). Each block leaves one partial result; the same kernel adds those, until
// one is left.
// What the rungs below wasted: they did one addition at a time.
// Launch: one thread an element, blocks of a power of two; then the same on the partial results.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/reduce_ops.cuh"
#include "kernels.h"

constexpr int MAX_BLOCK = 1024;

template <class Operation, class In, class T, class Out>
__global__ void reduce_tree(const In *x, Out *partials, int64_t n)
{
    __shared__ T partial[MAX_BLOCK]; // the first blockDim.x are used

    const int t = threadIdx.x; // [0, blockDim.x)
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + t;

    partial[t] = i < n ? T(x[i]) : Operation::IDENTITY;
    __syncthreads(); // all elements are there before a partner is read

    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] = Operation::combine(partial[t], partial[t + stride]);
        __syncthreads(); // this step's sums are written before the next step reads them
    }

    if (t == 0)
        partials[blockIdx.x] = Out(partial[0]);
}

cudaError_t launch_reduce_tree(const reduce_args *args, cudaStream_t stream)
{
    return dispatch_reduce(args, [&](auto types, auto operation) {
        using In = typename decltype(types)::In;
        using T = typename decltype(types)::Accumulator;
        using Result = typename decltype(types)::Result;
        using Operation = decltype(operation);
        const int block = args->block_size;
        int64_t blocks = ceil_div(args->n, block);
        Result *out = (Result *)args->out;

        if (blocks == 1) {
            reduce_tree<Operation, In, T, Result><<<1, block, 0, stream>>>((const In *)args->x, out, args->n);
            return cudaGetLastError();
        }

        T *partials = (T *)args->scratch;
        reduce_tree<Operation, In, T, T>
            <<<(unsigned)blocks, block, 0, stream>>>((const In *)args->x, partials, args->n);
        while (blocks > block) {
            int64_t next = ceil_div(blocks, block);
            reduce_tree<Operation, T, T, T>
                <<<(unsigned)next, block, 0, stream>>>(partials, partials + blocks, blocks);
            partials += blocks;
            blocks = next;
        }
        reduce_tree<Operation, T, T, Result><<<1, block, 0, stream>>>(partials, out, blocks);
        return cudaGetLastError();
    });
}
