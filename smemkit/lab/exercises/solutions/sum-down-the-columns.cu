__global__ void column_sums(const float *x, float *sums, int rows, int columns)
{
    int column = blockIdx.x * 128 + threadIdx.x;
    float sum = 0;

    for (int row = 0; row < rows; row++)
        sum += x[row * columns + column];
    sums[column] = sum;
}
