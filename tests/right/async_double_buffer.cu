// The next row is copied asynchronously while this row is summed.
// launch: grid 1, block 64
// arg x: float[5, 64] = random
// arg y: float[64] = zeros
// arg steps: 5
#include <cuda_pipeline.h>

__global__ void sum_of_mirrored(const float *x, float *y, int steps)
{
    __shared__ float s[2][64];
    const int t = threadIdx.x;
    float sum = 0;

    __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(float));
    __pipeline_commit();
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps)
            __pipeline_memcpy_async(&s[(step + 1) % 2][t], &x[(step + 1) * 64 + t], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1); // this step's copy is complete, the next one may be in flight
        __syncthreads();
        sum += s[step % 2][63 - t];
        __syncthreads(); // all threads have read before the copy after next overwrites it
    }
    y[t] = sum;
}
