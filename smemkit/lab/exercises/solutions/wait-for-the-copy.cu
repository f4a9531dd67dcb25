#include <cuda_pipeline.h>

__global__ void reverse_block(const float *x, float *y)
{
    __shared__ __align__(16) float s[256];
    int t = threadIdx.x, first = blockIdx.x * 256;

    __pipeline_memcpy_async(&s[4 * t], &x[first + 4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = t; i < 256; i += 64)
        y[first + i] = s[255 - i];
}
