// A barrier in a loop that some threads leave earlier.
#include "fault.h"

// EXPECT cudaErrorLaunchFailure: barrier divergence in kernel loop, block (0, 0, 0): 128 of 200 threads wait at
// @THERE, 72 of 200 threads wait at @HERE
__global__ void loop(int *out)
{
    const int turns = threadIdx.x < 128 ? 5 : 6;
    for (int i = 0; i < turns; ++i) {
        out[threadIdx.x] = i;
        __syncthreads(); // HERE
    }
    __syncthreads(); // THERE
}

int main()
{
    Array<int> out(200);
    loop<<<1, 200>>>(out.device);
    report();
    return verdict();
}
