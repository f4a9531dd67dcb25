// Rectangular matrices whose sides are not multiples of the tile: tiles are filled with zeros.
// launch: grid 3x2, block 8x8
// arg a: float[13, 19] = random
// arg b: float[19, 21] = random
// arg c: float[13, 21] = zeros
// arg m: 13
// arg n: 21
// arg k: 19
constexpr int TILE = 8;

__global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;

    for (int first = 0; first < k; first += TILE) {
        a_tile[ty][tx] = row < m && first + tx < k ? a[row * k + first + tx] : 0.0f;
        b_tile[ty][tx] = first + ty < k && column < n ? b[(first + ty) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += a_tile[ty][i] * b_tile[i][tx];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
