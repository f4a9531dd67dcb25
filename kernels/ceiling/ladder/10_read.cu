// Reads memory: the ceiling of every reduction.
//
// The idea: a sum must read every byte once. This kernel does that and almost nothing else: 16-byte loads,
// IN_FLIGHT of them in flight per thread. The data is added to one 32-bit sum per thread, so that the compiler
// cannot drop a load.
// Launch: `blocks` of 256 threads, which stride over x together; a thread's loads are a block's width apart.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "kernels.h"

template <int IN_FLIGHT>
__global__ void ceiling_read(const uint4 *x, uint32_t *out, int64_t vectors)
{
    const int64_t step = (int64_t)gridDim.x * CEILING_BLOCK * IN_FLIGHT;
    int64_t next = (int64_t)blockIdx.x * CEILING_BLOCK * IN_FLIGHT + threadIdx.x;
    uint32_t sum = 0;

    for (; next + (IN_FLIGHT - 1) * CEILING_BLOCK < vectors; next += step) {
        uint4 read[IN_FLIGHT];

#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            read[j] = x[next + j * CEILING_BLOCK];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            sum += read[j].x + read[j].y + read[j].z + read[j].w;
    }
    for (; next < vectors; next += CEILING_BLOCK) // the rest of x: fewer than IN_FLIGHT vectors
        sum += x[next].x + x[next].y + x[next].z + x[next].w;
    out[(int64_t)blockIdx.x * CEILING_BLOCK + threadIdx.x] = sum;
}

cudaError_t launch_ceiling_read(const ceiling_args *args, cudaStream_t stream)
{
    return dispatch<1, 2, 4>(args->loads_in_flight, [&](auto in_flight) {
        ceiling_read<in_flight()><<<(unsigned)args->blocks, CEILING_BLOCK, 0, stream>>>(
            (const uint4 *)args->x, (uint32_t *)args->out, args->bytes / 16);
        return cudaGetLastError();
    });
}
