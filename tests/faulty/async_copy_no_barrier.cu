// Each thread waits for its own asynchronous copy, and then reads what another thread has copied.
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
    __pipeline_wait_prior(0);
    y[first + t] = s[63 - t]; // HERE
}
