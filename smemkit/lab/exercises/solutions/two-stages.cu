#include <cuda_pipeline.h>

__global__ void sum_mirrored(const float *x, float *y, int steps)
{
    __shared__ float s[2][64];
    int t = threadIdx.x;
    float sum = 0;

    __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(float));
    __pipeline_commit();
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps)
            __pipeline_memcpy_async(&s[(step + 1) % 2][t], &x[(step + 1) * 64 + t], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads(); // row `step` is there
        sum += s[step % 2][63 - t];
        __syncthreads(); // all have read it
    }
    y[t] = sum;
}
