// Shared by the programs in this folder: they print the executor's report and check that it still works. The
// comments `EXPECT error: message` are the reports that test_executor.py expects, in order; @HERE and @THERE stand
// for the marked lines, and * for any text.
#pragma once

#include "../check.h"

__global__ void sum_of_block(const int *in, int *out)
{
    __shared__ int partial[256];
    partial[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (int half = 128; half >= 32; half /= 2) {
        if ((int)threadIdx.x < half)
            partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        int sum = partial[threadIdx.x];
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0)
            out[blockIdx.x] = sum;
    }
}

// After a launch: prints its error and message and clears the error; then a correct kernel must give correct
// results.
static void report()
{
    const cudaError_t launched = cudaPeekAtLastError(), ran = cudaDeviceSynchronize();
    cudaGetLastError();
    printf("fault %s: %s\n", cudaGetErrorName(launched ? launched : ran), smemkit_last_message());

    const int blocks = 40;
    Array<int> in(blocks * 256), out(blocks);
    for (int i = 0; i < blocks * 256; ++i)
        in[i] = i / 256 + i % 7;
    in.upload();
    sum_of_block<<<blocks, 256>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int b = 0; b < blocks; ++b) {
        int want = 0;
        for (int i = b * 256; i < (b + 1) * 256; ++i)
            want += in[i];
        EQUAL_AT(b, out[b], want);
    }
}
