// Copies memory: the ceiling of whatever reads its operand once and writes as much.
//
// The idea: 16 bytes a load and a store, IN_FLIGHT loads of a thread under way before its first store, and nothing
// else. How many loads and how many blocks are best is a matter of the GPU, so both are the caller's to try.
// Launch: `blocks` of 256 threads, which go over x together: a thread's loads lie a block's width apart.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "kernels.h"

template <int IN_FLIGHT>
__global__ void ceiling_copy(const uint4 *__restrict__ x, uint4 *__restrict__ out, int64_t vectors)
{
    const int64_t step = (int64_t)gridDim.x * CEILING_BLOCK * IN_FLIGHT;
    int64_t next = (int64_t)blockIdx.x * CEILING_BLOCK * IN_FLIGHT + threadIdx.x;

    for (; next + (IN_FLIGHT - 1) * CEILING_BLOCK < vectors; next += step) {
        uint4 moving[IN_FLIGHT];

#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            moving[j] = x[next + j * CEILING_BLOCK];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            out[next + j * CEILING_BLOCK] = moving[j];
    }
    for (; next < vectors; next += CEILING_BLOCK) // the last of x: fewer than IN_FLIGHT
        out[next] = x[next];
}

cudaError_t launch_ceiling_copy(const ceiling_args *args, cudaStream_t stream)
{
    return dispatch<1, 2, 4>(args->in_flight, [&](auto in_flight) {
        ceiling_copy<in_flight()><<<(unsigned)args->blocks, CEILING_BLOCK, 0, stream>>>(
            (const uint4 *)args->x, (uint4 *)args->out, args->bytes / 16);
        return cudaGetLastError();
    });
}
