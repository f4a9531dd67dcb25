// The wait leaves two stages in flight, and the next use is of one of them.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race RAW
#include <cuda_pipeline.h>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[3][64];
    const int t = threadIdx.x;

    for (int i = 0; i < 2; i++) {
        __pipeline_memcpy_async(&s[i][t], &x[64 * i + t], sizeof(float)); // ALSO
        __pipeline_commit();
    }
    for (int i = 0; i < 4; i++) {
        __pipeline_wait_prior(2);
        __syncthreads();
        y[64 * i + t] = s[i % 3][63 - t]; // HERE
        if (i < 2)
            __pipeline_memcpy_async(&s[(i + 2) % 3][t], &x[64 * (i + 2) + t], sizeof(float)); // THERE
        __pipeline_commit();
    }
}
