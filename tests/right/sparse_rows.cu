// A sparse matrix times a vector, one thread per row; rows have different lengths.
// launch: grid 2, block 32
// arg values: float[210] = random
// arg x: float[64] = random
// arg y: float[60] = zeros
// arg rows: 60
__device__ int begin(int row)
{
    return row / 3 * 9 + row % 3 * (row % 3 + 3) / 2; // rows of 2, 3 and 4 elements
}

__global__ void spmv(const float *values, const float *x, float *y, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;

    if (row < rows) {
        float sum = 0;
        for (int i = begin(row); i < begin(row + 1); i++)
            sum += values[i] * x[i * 7 % 64];
        y[row] = sum;
    }
}
