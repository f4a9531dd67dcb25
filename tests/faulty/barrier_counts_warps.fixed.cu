// The barrier expects an arrival of each thread.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
#include <cuda/barrier>

using Barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ Barrier all;

    if (threadIdx.x == 0)
        init(&all, blockDim.x);
    __syncthreads();
    s[threadIdx.x] = x[threadIdx.x];
    all.arrive_and_wait();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
