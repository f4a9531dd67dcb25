__global__ void row_sums(const float *x, float *sums)
{
    __shared__ float tile[32][33];
    int lane = threadIdx.x;
    float sum = 0;

    for (int row = 0; row < 32; row++)
        tile[row][lane] = x[(blockIdx.x * 32 + row) * 32 + lane];
    __syncthreads();
    for (int column = 0; column < 32; column++)
        sum += tile[lane][column];
    sums[blockIdx.x * 32 + lane] = sum;
}
