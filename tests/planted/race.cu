// For racecheck: a thread reads its neighbour's word, without a barrier in between.
#include "planted.h"

__global__ void planted(int *x, int n)
{
    __shared__ int s[THREADS];
    const int t = threadIdx.x;

    s[t] = x[t] + t;
    if (!faulty)
        __syncthreads();
    x[t] = s[n - 1 - t];
}

int main()
{
    return run(THREADS);
}
