#include <cuda_pipeline.h>

__global__ void sum_mirrored(const float *x, float *y, int steps)
{
    __shared__ float s[1][64]; // TODO: two rows
    int t = threadIdx.x;
    float sum = 0;

    for (int step = 0; step < steps; step++) {
        s[0][t] = x[step * 64 + t]; // TODO: start the copy of the next row, then wait for this one
        __syncthreads();
        sum += s[0][63 - t];
        __syncthreads();
    }
    y[t] = sum;
}
