// The short macros of tutorials, and their row and column indices.
// launch: grid 2x2, block 4x4
// arg A: float[8, 8] = random
// arg B: float[8, 8] = random
// arg C: float[8, 8] = zeros
#define N             8
#define T             4
#define BLOCK         (N / T)
#define SIZE          (N * N)
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define IDX(row, col) ((row)*N + (col))
#define tx            threadIdx.x
#define ty            threadIdx.y

__global__ void mm(float *A, float *B, float *C)
{
    __shared__ float a[T][T], b[T][T];
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0;

    for (int i = 0; i < BLOCK; i++) {
        a[ty][tx] = A[MIN(IDX(row, i * T + tx), SIZE - 1)];
        b[ty][tx] = B[IDX(i * T + ty, col)];
        __syncthreads();
        for (int k = 0; k < T; k++)
            sum += a[ty][k] * b[k][tx];
        __syncthreads();
    }
    C[IDX(row, col)] = sum;
}
