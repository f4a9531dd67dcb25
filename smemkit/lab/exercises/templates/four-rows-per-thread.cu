__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float a_tile[64][16], b_tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 64 + ty, column = blockIdx.x * 16 + tx;
    float sum[4] = {0}; // of the rows row, row + 16, row + 32 and row + 48

    for (int t = 0; t < k; t += 16) {
        // TODO: load 64 rows of A's tile and 16 of B's
        __syncthreads();
        // TODO: 16 steps; each reads one value of B and four of A
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        c[(row + 16 * r) * n + column] = sum[r];
}
