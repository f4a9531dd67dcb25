// A one-dimensional block of 64 threads fills 2-D tiles through a pointer to their first element.
// launch: grid 2x2, block 64
// arg a: float[32, 16] = random
// arg b: float[16, 32] = random
// arg c: float[32, 32] = zeros
__global__ void matmul(const float *a, const float *b, float *c)
{
    __shared__ float a_tile[16][8], b_tile[8][16];
    float *a_flat = &a_tile[0][0], *b_flat = &b_tile[0][0];
    const int t = threadIdx.x, row = 2 * (t / 8), column = 2 * (t % 8);
    float sum[2][2] = {};

    a += blockIdx.y * 16 * 16;
    b += blockIdx.x * 16;
    c += blockIdx.y * 16 * 32 + blockIdx.x * 16;
    for (int k = 0; k < 16; k += 8) {
        for (int i = t; i < 16 * 8; i += 64) {
            a_flat[i] = a[i / 8 * 16 + k + i % 8];
            b_flat[i] = b[(k + i / 16) * 32 + i % 16];
        }
        __syncthreads();
        for (int i = 0; i < 8; i++)
            for (int r = 0; r < 2; r++)
                for (int s = 0; s < 2; s++)
                    sum[r][s] += a_tile[row + r][i] * b_tile[i][column + s];
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++)
            c[(row + r) * 32 + column + s] = sum[r][s];
}
