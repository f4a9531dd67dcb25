__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float a_tile[64][16], b_tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 64 + ty, column = blockIdx.x * 16 + tx;
    float sum[4] = {0};

    for (int t = 0; t < k; t += 16) {
        for (int r = 0; r < 4; r++)
            a_tile[ty + 16 * r][tx] = a[(row + 16 * r) * k + t + tx];
        b_tile[ty][tx] = b[(t + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) {
            float y = b_tile[i][tx];
            for (int r = 0; r < 4; r++)
                sum[r] += a_tile[ty + 16 * r][i] * y;
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        c[(row + 16 * r) * n + column] = sum[r];
}
