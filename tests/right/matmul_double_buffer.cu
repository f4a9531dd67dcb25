// The next tiles are loaded into a second buffer while these are multiplied: one barrier per step is enough.
// launch: grid 2x2, block 8x8
// arg a: double[16, 40] = random
// arg b: double[40, 16] = random
// arg c: double[16, 16] = zeros
#define TILE 8
#define K    40
#define N    16

__global__ void matmul(const double *a, const double *b, double *c)
{
    __shared__ double a_tile[2][TILE][TILE], b_tile[2][TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    double sum = 0;

    a_tile[0][ty][tx] = a[row * K + tx];
    b_tile[0][ty][tx] = b[ty * N + column];
    __syncthreads();
    for (int step = 0; step < K / TILE; step++) {
        const int now = step & 1, next = now ^ 1, k = (step + 1) * TILE;
        if (k < K) {
            a_tile[next][ty][tx] = a[row * K + k + tx];
            b_tile[next][ty][tx] = b[(k + ty) * N + column];
        }
        for (int i = 0; i < TILE; i++)
            sum += a_tile[now][ty][i] * b_tile[now][i][tx];
        __syncthreads();
    }
    c[row * N + column] = sum;
}
