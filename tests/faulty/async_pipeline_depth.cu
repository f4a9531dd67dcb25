// The wait leaves two copies in flight, though only the newest may be.
// topic: asynchronous copies
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[64] = zeros
// arg steps: 4
// fault: race RAW
#include <cuda_pipeline.h>

__global__ void sum_of_rows(const float *x, float *y, int steps)
{
    __shared__ float s[2][64];
    const int t = threadIdx.x;
    float sum = 0;

    __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(float)); // ALSO
    __pipeline_commit();
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps)
            __pipeline_memcpy_async(&s[(step + 1) % 2][t], &x[(step + 1) * 64 + t], sizeof(float)); // THERE
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        sum += s[step % 2][63 - t]; // HERE
        __syncthreads();
    }
    y[t] = sum;
}
