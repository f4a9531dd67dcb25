// The wait leaves one stage in flight, the one that is not used yet.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
#include <cuda_pipeline.h>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[3][64];
    const int t = threadIdx.x;

    for (int i = 0; i < 2; i++) {
        __pipeline_memcpy_async(&s[i][t], &x[64 * i + t], sizeof(float));
        __pipeline_commit();
    }
    for (int i = 0; i < 4; i++) {
        __pipeline_wait_prior(1);
        __syncthreads();
        y[64 * i + t] = s[i % 3][63 - t];
        if (i < 2)
            __pipeline_memcpy_async(&s[(i + 2) % 3][t], &x[64 * (i + 2) + t], sizeof(float));
        __pipeline_commit();
    }
}
