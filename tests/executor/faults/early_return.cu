// The guard at the top of the kernel returns before the barrier.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: barrier divergence in kernel guarded<float>, block (1, 0, 0): 72 of 128 threads
// wait at @HERE, the rest have exited
template <typename T>
__global__ void guarded(T *out, int n)
{
    __shared__ T tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    tile[threadIdx.x] = i;
    __syncthreads(); // HERE
    out[i] = tile[127 - threadIdx.x];
}

int main()
{
    Array<float> out(256);
    guarded<float><<<2, 128>>>(out.device, 200);
    report();
    return verdict();
}
