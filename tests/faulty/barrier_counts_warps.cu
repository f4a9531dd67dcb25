// The barrier expects an arrival of each warp, but each thread arrives.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: race RAW
#include <cuda/barrier>

using Barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ Barrier all;

    if (threadIdx.x == 0)
        init(&all, blockDim.x / 32);
    __syncthreads();
    s[threadIdx.x] = x[threadIdx.x]; // THERE
    all.arrive_and_wait();
    y[threadIdx.x] = s[63 - threadIdx.x]; // HERE
}
