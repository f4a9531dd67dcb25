// The next tiles are loaded after all threads have multiplied the old ones.
// topic: buffer reuse
// launch: grid 2x2, block 8x8
// arg a: float[16, 16] = random
// arg b: float[16, 16] = random
// arg c: float[16, 16] = zeros
// arg n: 16
#define TILE 8

__global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0;

    for (int k = 0; k < n; k += TILE) {
        a_tile[ty][tx] = a[row * n + k + tx];
        b_tile[ty][tx] = b[(k + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
