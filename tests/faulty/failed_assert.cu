// An assertion that does not hold for the last element.
// topic: traps
// launch: grid 1, block 64
// arg x: int[64] = iota
// arg y: float[64] = zeros
// fault: trap
#include <assert.h>

__global__ void reciprocals(const int *x, float *y)
{
    assert(x[threadIdx.x] < 63); // HERE
    y[threadIdx.x] = 1.0f / (1 + x[threadIdx.x]);
}
