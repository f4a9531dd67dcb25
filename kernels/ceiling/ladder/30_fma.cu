// Fused multiply-adds in registers: the ceiling of every matmul in native FP32.
//
// The idea: CHAINS independent sums per thread hide the latency of a fused multiply-add, and registers cost no
// memory traffic. The operands come from memory, so that the compiler does not know them, and the sums are stored,
// so that it cannot drop them.
// Launch: `blocks` of 256 threads; a round is CEILING_FMAS fused multiply-adds per thread.
#include <cuda_runtime.h>

#include "kernels.h"

constexpr int CHAINS = 16;
static_assert(CEILING_FMAS % CHAINS == 0, "a round is whole steps of all chains");

// x: at least 2 + CHAINS values. Sum j starts at x[2 + j] and repeatedly becomes sum * x[0] + x[1]
__global__ void ceiling_fma(const float *x, float *out, int64_t rounds)
{
    const float factor = x[0], term = x[1];
    float sums[CHAINS], total = 0;

#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        sums[j] = x[2 + j] + (float)threadIdx.x;
    for (int64_t round = 0; round < rounds; round++)
#pragma unroll
        for (int i = 0; i < CEILING_FMAS; i++)
            sums[i % CHAINS] = fmaf(sums[i % CHAINS], factor, term);
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        total += sums[j];
    out[(int64_t)blockIdx.x * CEILING_BLOCK + threadIdx.x] = total;
}

cudaError_t launch_ceiling_fma(const ceiling_args *args, cudaStream_t stream)
{
    ceiling_fma<<<(unsigned)args->blocks, CEILING_BLOCK, 0, stream>>>((const float *)args->x, (float *)args->out,
                                                                      args->rounds);
    return cudaGetLastError();
}
