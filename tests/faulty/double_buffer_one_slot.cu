// Two buffers that are never swapped: the next step is loaded into the one that is being read.
// topic: buffer reuse
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[64] = zeros
// arg steps: 4
// fault: race
__global__ void sum_of_mirrored(const float *x, float *y, int steps)
{
    __shared__ float buffer[2][64];
    const int t = threadIdx.x;
    float sum = 0;

    buffer[0][t] = x[t];
    for (int step = 0; step < steps; step++) {
        const int now = 0;
        __syncthreads();
        if (step + 1 < steps)
            buffer[now][t] = x[(step + 1) * 64 + t]; // HERE
        sum += buffer[now][63 - t];                  // THERE
    }
    y[t] = sum;
}
