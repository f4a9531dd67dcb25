// The threads meet at a barrier, but none waits for its asynchronous copy to complete.
// topic: asynchronous copies
// launch: grid 2, block 64
// arg x: float[128] = random
// arg y: float[128] = zeros
// fault: race RAW
#include <cuda_pipeline.h>

__global__ void reverse_blocks(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, first = blockIdx.x * 64;

    __pipeline_memcpy_async(&s[t], &x[first + t], sizeof(float)); // THERE
    __pipeline_commit();
    __syncthreads();
    y[first + t] = s[63 - t]; // HERE
}
