// Double buffering with one barrier per step.
// topic: buffer reuse
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[64] = zeros
// arg steps: 4
__global__ void sum_of_mirrored(const float *x, float *y, int steps)
{
    __shared__ float buffer[2][64];
    const int t = threadIdx.x;
    float sum = 0;

    buffer[0][t] = x[t];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const int now = step % 2;
        if (step + 1 < steps)
            buffer[1 - now][t] = x[(step + 1) * 64 + t];
        sum += buffer[now][63 - t];
        __syncthreads();
    }
    y[t] = sum;
}
