__global__ void column_sums(const float *x, float *sums, int rows, int columns)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;

    if (r < rows) {
        float sum = 0;
        for (int k = 0; k < columns; k++)
            sum += x[k * rows + r];
        sums[r] = sum;
    }
}
