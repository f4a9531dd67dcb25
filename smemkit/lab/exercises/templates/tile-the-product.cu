__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;

    for (int i = 0; i < k; i++) // TODO: tile by tile, through shared memory
        sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
