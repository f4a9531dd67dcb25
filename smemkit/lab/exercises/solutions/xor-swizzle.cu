__global__ void transpose_tiles(const float *x, float *y)
{
    __shared__ float tile[32][32];
    int tx = threadIdx.x, first = blockIdx.x * 1024;

    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][tx ^ row] = x[first + row * 32 + tx];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        y[first + row * 32 + tx] = tile[tx][row ^ tx];
}
