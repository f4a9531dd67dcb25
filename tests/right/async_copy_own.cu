// Each thread reads only what it has copied itself: its own wait is enough.
// launch: grid 1, block 32
// arg x: int[32] = iota
// arg y: int[32] = zeros
#include <cuda_pipeline.h>

__global__ void add_one(const int *x, int *y)
{
    __shared__ int s[32];
    const int t = threadIdx.x;

    __pipeline_memcpy_async(&s[t], &x[t], sizeof(int));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[t] = s[t] + 1;
}
