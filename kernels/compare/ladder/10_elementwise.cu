// out = (a == b), or (a != b), one thread per element.
//
// The idea: add, with a bool as the result. A NaN equals nothing, not even itself. Operands of different shapes or
// dtypes have been converted before, except int64 and uint64: no integer type holds both, so they are compared as
// they are.
// Launch: blocks of 256 threads.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

template <class T>
static __device__ bool equal(T a, T b)
{
    return a == b;
}

static __device__ bool equal(int64_t a, uint64_t b)
{
    return a >= 0 && (uint64_t)a == b;
}

template <class A, class B>
__global__ void compare_elementwise(const A *a, const B *b, boolean *out, int64_t n, bool negated)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = equal(a[i], b[i]) != negated;
}

template <class A, class B>
static cudaError_t launch(const void *a, const void *b, const compare_args *args, cudaStream_t stream)
{
    constexpr int BLOCK = 256;

    compare_elementwise<A, B><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>(
        (const A *)a, (const B *)b, (boolean *)args->out, args->n, args->comparison == COMPARE_NOT_EQUAL);
    return cudaGetLastError();
}

cudaError_t launch_compare_elementwise(const compare_args *args, cudaStream_t stream)
{
    if (args->dtype[0] == INT64 && args->dtype[1] == UINT64)
        return launch<int64_t, uint64_t>(args->a, args->b, args, stream);
    if (args->dtype[0] == UINT64 && args->dtype[1] == INT64)
        return launch<int64_t, uint64_t>(args->b, args->a, args, stream);
    return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype[0]), [&](auto zero) {
        return launch<decltype(zero), decltype(zero)>(args->a, args->b, args, stream);
    });
}
