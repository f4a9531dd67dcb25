// A view of any strides, byte order and dtype, gathered into a new C-contiguous array of another dtype.
//
// The idea: one thread an element of the result. Its index along each dimension, times the stride, tells where the
// element of x lies. What has no address that the hardware could load from, or has its bytes the other way round,
// is put together byte by byte.
// Launch: blocks of 256 threads over the elements.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "../common/types.cuh"
#include "kernels.h"

constexpr int BLOCK = 256;

struct view {
    const char *x;
    int ndim;
    bool bytewise, swapped;
    int64_t shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS]; // bytes
};

static __device__ int64_t offset_of(const view &view, int64_t i)
{
    int64_t offset = 0;

    for (int d = view.ndim - 1; d > 0; d--) {
        offset += i % view.shape[d] * view.strides[d];
        i /= view.shape[d];
    }
    return view.ndim > 0 ? offset + i * view.strides[0] : 0;
}

template <class T>
static __device__ T load(const view &view, int64_t i)
{
    constexpr int UNIT = is_complex<T>::value ? sizeof(T) / 2 : sizeof(T); // a complex number is two
    const char *address = view.x + offset_of(view, i);
    T value;

    if (!view.bytewise)
        return *(const T *)address;
    for (int j = 0; j < (int)sizeof(T); j++)
        ((char *)&value)[view.swapped ? j ^ (UNIT - 1) : j] = address[j]; // UNIT is a power of two
    return value;
}

template <class T>
__global__ void convert_strided(view view, void *out, int64_t size, enum dtype to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

    if (i < size)
        store_as(out, i, to, load<T>(view, i));
}

cudaError_t launch_convert_strided(const convert_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY>(args->from, [&](auto zero) {
        using T = decltype(zero);
        view view = {(const char *)args->x, args->ndim, args->swapped || !args->aligned, args->swapped, {}, {}};

        for (int d = 0; d < args->ndim; d++) {
            view.shape[d] = args->shape[d];
            view.strides[d] = args->strides[d];
        }
        convert_strided<T>
            <<<(unsigned)ceil_div(args->size, BLOCK), BLOCK, 0, stream>>>(view, args->out, args->size, args->to);
        return cudaGetLastError();
    });
}
