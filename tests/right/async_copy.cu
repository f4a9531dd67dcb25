// An asynchronous copy into shared memory: commit, wait, barrier.
// launch: grid 2, block 32
// arg x: float[256] = random
// arg y: float[256] = zeros
#include <cuda_pipeline.h>

__global__ void reverse_quads(const float *x, float *y)
{
    __shared__ __align__(16) float s[128];
    const int t = threadIdx.x, first = blockIdx.x * 128;

    __pipeline_memcpy_async(&s[4 * t], &x[first + 4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = t; i < 128; i += 32)
        y[first + i] = s[127 - i];
}
