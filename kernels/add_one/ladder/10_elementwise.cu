// out = x + 1, one thread per element.
//
// The idea: a grid consists of blocks, a block of threads; a thread computes the index of its element from its
// block's index and its own. The last block has surplus threads, which the guard keeps idle.
// Launch: blocks of 256 threads.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
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
