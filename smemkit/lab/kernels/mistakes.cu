// The tiled matmul, right and with two mistakes. Blocks of TILE × TILE threads.
#define TILE 8

template <bool GUARDED, bool MULTIPLIES>
__device__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0;

    for (int k = 0; k < n; k += TILE) {
        a_tile[ty][tx] = !GUARDED || (row < n && k + tx < n) ? a[row * n + k + tx] : 0;
        b_tile[ty][tx] = !GUARDED || (k + ty < n && column < n) ? b[(k + ty) * n + column] : 0;
        __syncthreads(); // both tiles are loaded before any thread reads them
        for (int i = 0; i < TILE; i++)
            sum += MULTIPLIES ? a_tile[ty][i] * b_tile[i][tx] : a_tile[ty][i] + b_tile[i][tx];
        __syncthreads(); // and read before the next pair overwrites them
    }
    if (!GUARDED || (row < n && column < n))
        c[row * n + column] = sum;
}

__global__ void right(const float *a, const float *b, float *c, int n)
{
    matmul<true, true>(a, b, c, n);
}
__global__ void plus_for_times(const float *a, const float *b, float *c, int n)
{
    matmul<true, false>(a, b, c, n);
}
__global__ void missing_guard(const float *a, const float *b, float *c, int n)
{
    matmul<false, true>(a, b, c, n);
}
