__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float a_tile[64][16], b_tile[16][64];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sum[4][4] = {{0}};

    for (int t = 0; t < k; t += 16) {
        for (int r = 0; r < 4; r++) {
            a_tile[ty + 16 * r][tx] = a[(row + ty + 16 * r) * k + t + tx];
            b_tile[ty][tx + 16 * r] = b[(t + ty) * n + column + tx + 16 * r];
        }
        __syncthreads();
        for (int i = 0; i < 16; i++) {
            for (int r = 0; r < 4; r++)
                for (int q = 0; q < 4; q++)
                    sum[r][q] += a_tile[ty + 16 * r][i] * b_tile[i][tx + 16 * q]; // TODO: fewer reads
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int q = 0; q < 4; q++)
            c[(row + ty + 16 * r) * n + column + tx + 16 * q] = sum[r][q];
}
