// For synccheck: a barrier that half of each warp does not reach.
#include "planted.h"

__global__ void planted(int *x, int n)
{
    __shared__ int s[THREADS];

    s[threadIdx.x] = x[threadIdx.x];
    if (!faulty || threadIdx.x % 32 < 16)
        __syncthreads();
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}

int main()
{
    return run(THREADS);
}
