// For synccheck: a barrier in a loop that some threads of a warp leave a turn before the others.
#include "planted.h"

__global__ void planted(int *x, int n)
{
    __shared__ int s[THREADS];
    const int turns = faulty && threadIdx.x % 32 < 16 ? 1 : 2;

    for (int turn = 0; turn < turns; turn++) {
        s[threadIdx.x] = x[threadIdx.x] + turn;
        __syncthreads();
        x[threadIdx.x] = s[n - 1 - threadIdx.x];
        __syncthreads();
    }
}

int main()
{
    return run(THREADS);
}
