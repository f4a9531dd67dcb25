__global__ void column_sums(const float *x, float *sums, int rows, int columns)
{
    int lane = threadIdx.x % 32;

    for (int c = threadIdx.x / 32; c < 128; c += 4) { // TODO: a column per thread
        int column = blockIdx.x * 128 + c;
        float sum = 0;
        for (int row = lane; row < rows; row += 32)
            sum += x[row * columns + column];
        for (int d = 16; d > 0; d /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, d);
        if (lane == 0)
            sums[column] = sum;
    }
}
