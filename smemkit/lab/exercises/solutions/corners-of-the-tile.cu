__global__ void box(const float *x, float *y, int rows, int columns)
{
    __shared__ float s[18][18];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;

    for (int k = ty * 16 + tx; k < 18 * 18; k += 256) {
        int r = blockIdx.y * 16 + k / 18 - 1, c = blockIdx.x * 16 + k % 18 - 1;
        s[k / 18][k % 18] = r >= 0 && r < rows && c >= 0 && c < columns ? x[r * columns + c] : 0;
    }
    __syncthreads();
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            sum += s[ty + i][tx + j];
    if (row < rows && column < columns)
        y[row * columns + column] = sum;
}
