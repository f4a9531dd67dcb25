// The value for the next row is stored after all threads have read that of this row.
// topic: buffer reuse
// launch: grid 1, block 64
// arg x: float[4, 64] = random
// arg y: float[4, 64] = zeros
// arg rows: 4
__global__ void subtract_first(const float *x, float *y, int rows)
{
    __shared__ float first;

    for (int row = 0; row < rows; row++) {
        if (threadIdx.x == 0)
            first = x[row * 64];
        __syncthreads();
        y[row * 64 + threadIdx.x] = x[row * 64 + threadIdx.x] - first;
        __syncthreads();
    }
}
