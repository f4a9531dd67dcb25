// A device function writes past the end of a local array of its caller.
#include "fault.h"

__device__ __noinline__ void fill(int *x, int n)
{
    for (int i = 0; i < n; ++i)
        x[i] = i + threadIdx.x;
}

// EXPECT cudaErrorIllegalAddress: illegal write: past the end of a local array in kernel too_short, block (0, 0,
// 0), thread (0, 0, 0)
__global__ void too_short(int *out, int n)
{
    int x[8];
    fill(x, n);
    out[threadIdx.x] = x[threadIdx.x % 8];
}

int main()
{
    Array<int> out(32);
    too_short<<<1, 32>>>(out.device, 12);
    report();
    return verdict();
}
