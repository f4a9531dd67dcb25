// Copies memory: the ceiling of every kernel that reads its operand once and writes as much.
//
// The idea: 16-byte loads and stores, IN_FLIGHT loads in flight per thread before its first store, and nothing
// else. The best number of loads and blocks depends on the GPU, so the caller tries both.
// Launch: `blocks` of 256 threads, which stride over x together; a thread's loads are a block's width apart.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
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
    for (; next < vectors; next += CEILING_BLOCK) // the rest of x: fewer than IN_FLIGHT vectors
        out[next] = x[next];
}

cudaError_t launch_ceiling_copy(const ceiling_args *args, cudaStream_t stream)
{
    return dispatch<1, 2, 4>(args->loads_in_flight, [&](auto in_flight) {
        ceiling_copy<in_flight()><<<(unsigned)args->blocks, CEILING_BLOCK, 0, stream>>>(
            (const uint4 *)args->x, (uint4 *)args->out, args->bytes / 16);
        return cudaGetLastError();
    });
}
