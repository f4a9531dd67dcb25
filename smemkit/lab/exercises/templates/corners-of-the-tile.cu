__device__ float element(const float *x, int row, int column, int rows, int columns)
{
    return row >= 0 && row < rows && column >= 0 && column < columns ? x[row * columns + column] : 0;
}

__global__ void box(const float *x, float *y, int rows, int columns)
{
    __shared__ float s[18][18];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;

    s[ty + 1][tx + 1] = element(x, row, column, rows, columns);
    if (ty == 0)
        s[0][tx + 1] = element(x, row - 1, column, rows, columns);
    if (ty == 15)
        s[17][tx + 1] = element(x, row + 1, column, rows, columns);
    if (tx == 0)
        s[ty + 1][0] = element(x, row, column - 1, rows, columns);
    if (tx == 15)
        s[ty + 1][17] = element(x, row, column + 1, rows, columns);
    // TODO: the corners
    __syncthreads();
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            sum += s[ty + i][tx + j];
    if (row < rows && column < columns)
        y[row * columns + column] = sum;
}
