// A copy: the ceiling of every transpose.
//
// The idea: a transpose must read every byte once and write it once. This kernel does that and nothing else, 16
// bytes at a time, so no transpose can be faster than it is.
// Launch: blocks of 256 threads, each of which moves 4 x 16 bytes that lie a block's width apart.
#include <cuda_runtime.h>

#include "../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 256, LOADS = 4;

__global__ void transpose_copy(const uint4 *x, uint4 *out, int64_t vectors, int64_t bytes)
{
    const int64_t first = (int64_t)blockIdx.x * BLOCK * LOADS + threadIdx.x;
    uint4 moving[LOADS];

#pragma unroll
    for (int j = 0; j < LOADS; j++) // all loads are on their way before the first store waits for one
        if (first + j * BLOCK < vectors)
            moving[j] = x[first + j * BLOCK];
#pragma unroll
    for (int j = 0; j < LOADS; j++)
        if (first + j * BLOCK < vectors)
            out[first + j * BLOCK] = moving[j];

    const int64_t tail = vectors * 16 + threadIdx.x; // the last bytes, fewer than 16, of the first block
    if (blockIdx.x == 0 && tail < bytes)
        ((char *)out)[tail] = ((const char *)x)[tail];
}

cudaError_t launch_transpose_copy(const transpose_args *args, cudaStream_t stream)
{
    const int64_t bytes = args->batches * args->rows * args->columns * args->element_size, vectors = bytes / 16;
    const int64_t blocks = ceil_div(vectors, BLOCK * LOADS);

    transpose_copy<<<(unsigned)(blocks > 0 ? blocks : 1), BLOCK, 0, stream>>>((const uint4 *)args->x,
                                                                              (uint4 *)args->out, vectors, bytes);
    return cudaGetLastError();
}
