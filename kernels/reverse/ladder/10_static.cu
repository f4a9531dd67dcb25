// Reverses an array through a __shared__ array whose size is a compile-time constant.
//
// The idea: a block loads its 64 elements into shared memory in order and stores them in reverse order, so that
// both global accesses are coalesced. Every block has its own array.
// Launch: blocks of 64 threads, one thread per element; block b writes the mirror image of block b.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 64;

template <class T>
__global__ void reverse_static(const T *x, T *out, int64_t n)
{
    __shared__ T s[BLOCK];

    const int t = threadIdx.x;                             // [0, BLOCK)
    const int64_t first = (int64_t)blockIdx.x * BLOCK;     // of the block's elements
    const int count = (int)min(n - first, (int64_t)BLOCK); // fewer in the last block

    if (t < count)
        s[t] = x[first + t];
    __syncthreads(); // all elements are stored before thread t reads another thread's

    if (t < count)
        out[n - first - count + t] = s[count - 1 - t];
}

cudaError_t launch_reverse_static(const reverse_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        reverse_static<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>((const T *)args->x,
                                                                                    (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
