__global__ void transpose_square(float *x, int n)
{
    __shared__ float upper[32][33], lower[32][33];
    int tx = threadIdx.x, row = blockIdx.y * 32, column = blockIdx.x * 32;

    if (blockIdx.x < blockIdx.y) // the other block moves both tiles
        return;
    for (int r = threadIdx.y; r < 32; r += 8) {
        upper[r][tx] = x[(row + r) * n + column + tx];
        lower[r][tx] = x[(column + r) * n + row + tx];
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
        x[(column + r) * n + row + tx] = upper[tx][r];
        if (row != column)
            x[(row + r) * n + column + tx] = lower[tx][r];
    }
}
