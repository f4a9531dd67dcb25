__global__ void matrix_add(const float *a, const float *b, float *c, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;

    if (row < rows && column < columns)
        c[row * columns + column] = a[row * columns + column] + b[row * columns + column];
}
