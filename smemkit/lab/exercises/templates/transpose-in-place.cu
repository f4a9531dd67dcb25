__global__ void transpose_square(float *x, int n)
{
    __shared__ float tile[32][33];
    int tx = threadIdx.x, row = blockIdx.y * 32, column = blockIdx.x * 32;

    for (int r = threadIdx.y; r < 32; r += 8)
        tile[r][tx] = x[(row + r) * n + column + tx];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        x[(column + r) * n + row + tx] = tile[tx][r]; // TODO: another block may not have read it yet
}
