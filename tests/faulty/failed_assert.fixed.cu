// An assertion that holds.
// topic: traps
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: float[64] = zeros
#include <assert.h>

__global__ void reciprocals(const int *x, float *y)
{
    assert(x[threadIdx.x] < 64);
    y[threadIdx.x] = 1.0f / (1 + x[threadIdx.x]);
}
