// A kernel that prints a line.
// launch: grid 1, block 32
// arg x: int[32] = iota
#include <cstdio>

__global__ void hello(int *x)
{
    x[threadIdx.x] *= 2;
    if (threadIdx.x == 31)
        printf("hello from thread %d, x is %d\n", threadIdx.x, x[threadIdx.x]);
}
