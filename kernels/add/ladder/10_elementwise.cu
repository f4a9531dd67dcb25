// out = a + b, one thread per element.
//
// The idea: add_one, with two arrays. The kernel moves three elements per addition, so that it is memory-bound.
// Operands of different shapes or dtypes have been converted before.
// Launch: blocks of 256 threads.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

template <class T>
__global__ void add_elementwise(const T *a, const T *b, T *out, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = a[i] + b[i];
}

cudaError_t launch_add_elementwise(const add_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype), [&](auto zero) {
        using T = decltype(zero);
        constexpr int BLOCK = 256;

        add_elementwise<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>(
            (const T *)args->a, (const T *)args->b, (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
