// One warp per row of the matrix, and a guard by which whole warps return.
// launch: grid 3, block 64
// arg a: float[5, 70] = random
// arg x: float[70] = random
// arg y: float[5] = zeros
// arg rows: 5
// arg columns: 70
__global__ void matvec(const float *a, const float *x, float *y, int rows, int columns)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;

    if (row >= rows)
        return;
    float sum = 0;
    for (int j = lane; j < columns; j += 32)
        sum = fmaf(a[row * columns + j], x[j], sum);
    for (int offset = 16; offset > 0; offset >>= 1)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = sum;
}
