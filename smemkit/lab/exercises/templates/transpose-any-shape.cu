__global__ void transpose(const float *x, float *y, int rows, int columns)
{
    __shared__ float tile[32][33];
    int tx = threadIdx.x, row = blockIdx.y * 32, column = blockIdx.x * 32;

    for (int r = threadIdx.y; r < 32; r += 8)
        tile[r][tx] = x[(row + r) * columns + column + tx];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        y[(column + r) * rows + row + tx] = tile[tx][r];
}
