// Arithmetic on pairs of halves.
// launch: grid 1, block 32
// arg x: half[64] = iota
// arg y: half[64] = iota
#include <cuda_fp16.h>

__global__ void axpy(const __half *x, __half *y)
{
    const __half2 a = __float2half2_rn(0.5f);
    const __half2 *x2 = reinterpret_cast<const __half2 *>(x);
    __half2 *y2 = reinterpret_cast<__half2 *>(y);

    y2[threadIdx.x] = __hfma2(a, x2[threadIdx.x], y2[threadIdx.x]);
}
