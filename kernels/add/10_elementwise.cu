// out = a + b, one thread an element.
//
// The idea: what add_one does with one array, done with two. The kernel moves three elements for one addition, so
// that memory alone decides how fast it is. Arrays of different shapes and dtypes have been made alike before it.
// Launch: blocks of 256 threads.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/types.cuh"
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
