// For memcheck: the last thread writes past the end of the array.
#include "planted.h"

__global__ void planted(int *x, int n)
{
    const int t = threadIdx.x;

    if (t < n || faulty)
        x[t] = t;
}

int main()
{
    return run(THREADS - 1);
}
