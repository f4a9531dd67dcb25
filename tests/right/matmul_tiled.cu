// The tiled product of square matrices, as in textbooks.
// launch: grid 2x2, block 16x16
// arg A: float[32, 32] = random
// arg B: float[32, 32] = random
// arg C: float[32, 32] = zeros
// arg N: 32
#define TILE_WIDTH 16

__global__ void MatrixMulKernel(float *A, float *B, float *C, int N)
{
    __shared__ float As[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Bs[TILE_WIDTH][TILE_WIDTH];
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    int Row = by * TILE_WIDTH + ty, Col = bx * TILE_WIDTH + tx;
    float Pvalue = 0;

    for (int p = 0; p < N / TILE_WIDTH; ++p) {
        As[ty][tx] = A[Row * N + p * TILE_WIDTH + tx];
        Bs[ty][tx] = B[(p * TILE_WIDTH + ty) * N + Col];
        __syncthreads();
        for (int k = 0; k < TILE_WIDTH; ++k)
            Pvalue += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[Row * N + Col] = Pvalue;
}
