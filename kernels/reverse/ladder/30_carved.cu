// Reverses an array through one dynamic allocation that is split into three arrays.
//
// The idea: a block has one dynamic allocation, so several arrays are laid out in it one after the other, and the
// launch asks for the sum of their sizes. Each must start at a multiple of its type's alignment: it does if larger
// types come first, or if, as with 128 elements of any type, every array's size is such a multiple. Here a slot
// holds an element, its original offset as a float, and a flag that it is filled, as a char; thread t reads the
// slot that mirrors its own.
// Launch: blocks of 128 threads, one thread per element, with 128 * (sizeof(T) + sizeof(float) + sizeof(char))
// bytes.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 128;

template <class T>
__global__ void reverse_carved(const T *x, T *out, int64_t n)
{
    extern __shared__ uint4 memory[];
    T *element = (T *)memory;                 // (blockDim.x,)
    float *origin = (float *)&element[BLOCK]; // (blockDim.x,) offsets in the block, exact as floats
    char *filled = (char *)&origin[BLOCK];    // (blockDim.x,)
    static_assert(BLOCK * sizeof(T) % alignof(float) == 0, "where the elements end, floats may begin");

    const int t = threadIdx.x; // [0, BLOCK)
    const int64_t first = (int64_t)blockIdx.x * BLOCK;

    filled[t] = first + t < n;
    if (filled[t]) {
        element[t] = x[first + t];
        origin[t] = (float)t;
    }
    __syncthreads(); // all slots are written before thread t reads the one that mirrors its own

    const int mirror = BLOCK - 1 - t;
    if (filled[mirror])
        out[n - 1 - (first + (int64_t)origin[mirror])] = element[mirror];
}

cudaError_t launch_reverse_carved(const reverse_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);
        const size_t bytes = BLOCK * (sizeof(T) + sizeof(float) + sizeof(char));

        reverse_carved<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, bytes, stream>>>((const T *)args->x,
                                                                                        (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
