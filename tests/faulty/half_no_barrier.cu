// Halves in shared memory, without a barrier between writing and reading.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: half[64] = iota
// fault: race RAW
#include <cuda_fp16.h>

__global__ void mirrored_squares(half *x)
{
    __shared__ half s[64];
    const int t = threadIdx.x;

    s[t] = __hadd(x[t], x[t]);           // THERE
    x[t] = __hmul(s[63 - t], s[63 - t]); // HERE
}
