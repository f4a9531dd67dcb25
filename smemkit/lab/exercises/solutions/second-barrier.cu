__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float a_tile[16][16], b_tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float sum = 0;

    for (int t = 0; t < k; t += 16) {
        a_tile[ty][tx] = a[row * k + t + tx];
        b_tile[ty][tx] = b[(t + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
