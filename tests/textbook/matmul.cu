#include "cuda_runtime.h"
#include "device_launch_parameters.h"

#include <cassert>
#include <cstdio>
#include <cstdlib>

#ifndef TILE_WIDTH
#define TILE_WIDTH 16
#endif

// C (m, n) = A (m, k) x B (k, n), row-major
__global__ void MatMulTiled(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float Ads[TILE_WIDTH][TILE_WIDTH], Bds[TILE_WIDTH][TILE_WIDTH];
    const int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    const int Row = by * TILE_WIDTH + ty, Col = bx * TILE_WIDTH + tx;
    float Pvalue = 0;

    assert(blockDim.x == TILE_WIDTH && blockDim.y == TILE_WIDTH);
    for (int ph = 0; ph < (k + TILE_WIDTH - 1) / TILE_WIDTH; ++ph) {
        Ads[ty][tx] = Row < m && ph * TILE_WIDTH + tx < k ? A[Row * k + ph * TILE_WIDTH + tx] : 0.f;
        Bds[ty][tx] = ph * TILE_WIDTH + ty < k && Col < n ? B[(ph * TILE_WIDTH + ty) * n + Col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE_WIDTH; ++i)
            Pvalue += Ads[ty][i] * Bds[i][tx];
        __syncthreads();
    }
    if (Row < m && Col < n)
        C[Row * n + Col] = Pvalue;
}

#ifdef _WIN32
void init(float *x, int n) {
#else
static void init(float *x, unsigned n) {
#endif
    for (int i = 0; i < n; i++) x[i] = (float)(rand() % 100);
}

void matmul(float *A, float *B, float *C, int m, int n, int k)
{
    dim3 dimBlock(TILE_WIDTH, TILE_WIDTH);
    dim3 dimGrid((n + TILE_WIDTH - 1) / TILE_WIDTH, (m + TILE_WIDTH - 1) / TILE_WIDTH);
    MatMulTiled<<<dimGrid, dimBlock>>>(A, B, C, m, n, k);
}
