// Reverses an array through an extern __shared__ array whose size the launch gives.
//
// The idea: `extern __shared__` names the memory and the third number in <<<grid, block, bytes>>> gives its size,
// so that one kernel serves every block size. A block has one such allocation, whatever its name and type: a
// template declares it with the largest alignment and casts.
// Launch: blocks of 256 threads, one thread per element, with 256 elements of dynamic shared memory.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 256;

template <class T>
__global__ void reverse_dynamic(const T *x, T *out, int64_t n)
{
    extern __shared__ uint4 memory[];
    T *s = (T *)memory; // (blockDim.x,)

    const int t = threadIdx.x; // [0, blockDim.x)
    const int64_t first = (int64_t)blockIdx.x * blockDim.x;
    const int count = (int)min(n - first, (int64_t)blockDim.x); // fewer in the last block

    if (t < count)
        s[t] = x[first + t];
    __syncthreads(); // all elements are stored before thread t reads another thread's

    if (t < count)
        out[n - first - count + t] = s[count - 1 - t];
}

cudaError_t launch_reverse_dynamic(const reverse_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        reverse_dynamic<T><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, BLOCK * sizeof(T), stream>>>(
            (const T *)args->x, (T *)args->out, args->n);
        return cudaGetLastError();
    });
}
