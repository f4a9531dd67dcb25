// Halves are structs: they are passed by value to every function and operator.
// launch: grid 1, block 64
// arg x: half[64] = iota
#include <cuda_fp16.h>

__global__ void mirrored_sums(half *x)
{
    __shared__ half s[64];
    const int t = threadIdx.x;

    s[t] = __hadd(x[t], x[t]);
    __syncthreads();
    x[t] = __hadd(s[t], __hmul(s[63 - t], __float2half(0.5f)));
}
