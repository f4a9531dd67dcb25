// A function that ends without its return statement: C++ lets a compiler continue with any code that follows.
#include "fault.h"

__device__ int sign(int x)
{
    if (x > 0)
        return 1;
    if (x < 0)
        return -1;
}

// EXPECT cudaErrorLaunchFailure: illegal instruction, as at the end of a function without its return in
// kernel signs, block (0, 0, 0), thread (3, 0, 0)
__global__ void signs(int *x)
{
    x[threadIdx.x] = sign(3 - (int)threadIdx.x);
}

int main()
{
    Array<int> x(32);
    signs<<<1, 32>>>(x.device);
    report();
    return verdict();
}
