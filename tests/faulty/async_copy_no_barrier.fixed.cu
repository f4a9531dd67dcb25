// After the wait for its own copy, each thread waits for the others.
// topic: asynchronous copies
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
#include <cuda_pipeline.h>

__global__ void reverse_blocks(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, first = blockIdx.x * 64;

    __pipeline_memcpy_async(&s[t], &x[first + t], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[first + t] = s[63 - t];
}
