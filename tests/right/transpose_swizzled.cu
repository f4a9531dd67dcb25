// The transpose through a tile with swizzled columns instead of padding.
// launch: grid 2x1, block 16x16
// arg x: float[12, 30] = random
// arg y: float[30, 12] = zeros
// arg rows: 12
// arg columns: 30
template <typename T, int TILE>
__device__ void transpose_tile(const T *x, T *y, int rows, int columns)
{
    __shared__ T tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;

    if (row < rows && column < columns)
        tile[ty][tx ^ ty] = x[row * columns + column];
    __syncthreads();
    row = blockIdx.y * TILE + tx;
    column = blockIdx.x * TILE + ty;
    if (row < rows && column < columns)
        y[column * rows + row] = tile[tx][ty ^ tx];
}

__global__ void transpose(const float *x, float *y, int rows, int columns)
{
    transpose_tile<float, 16>(x, y, rows, columns);
}
