// out = x + 1, one thread an element.
//
// The idea: the grid is cut into blocks, a block into threads; from its block's index and its own, a thread
// computes which element is its. The last block has threads to spare, and the guard keeps them quiet.
// Launch: blocks of 256 threads.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/types.cuh"
#include "kernels.h"

template <class T>
__global__ void add_one_elementwise(const T *x, T *out, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = x[i] + T(1);
}

cudaError_t launch_add_one_elementwise(const add_one_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~BOOL & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        constexpr int BLOCK = 256;

        add_one_elementwise<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>((const T *)args->x,
                                                                                         (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
