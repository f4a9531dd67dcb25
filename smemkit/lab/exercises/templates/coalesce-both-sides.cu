__global__ void transpose(const float *x, float *y, int rows, int columns)
{
    int column = blockIdx.x * 32 + threadIdx.x;

    for (int r = threadIdx.y; r < 32; r += 8) {
        int row = blockIdx.y * 32 + r;
        y[column * rows + row] = x[row * columns + column]; // TODO: through a tile
    }
}
