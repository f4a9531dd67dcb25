__global__ void column_sums(const float *x, float *sums, int rows, int columns)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;

    if (r < rows) {
        sums[r] = 0;
        for (int k = 0; k < columns; k++)
            sums[r] += x[k * rows + r];
    }
}
