// More locals and calls than a thread's stack holds.
#include "fault.h"

// EXPECT cudaErrorIllegalAddress: stack overflow: a thread has * KB for its locals and calls in kernel recurse,
// block (0, 0, 0), thread (7, 0, 0)
__device__ __noinline__ int deeper(volatile int *limit, int n)
{
    volatile int here[16];
    here[n % 16] = n;
    return n < *limit ? deeper(limit, n + 1) + here[n % 16] : 0;
}

__global__ void recurse(int *out, volatile int *limit)
{
    *limit = threadIdx.x == 7 ? 1000000 : 10;
    out[threadIdx.x] = deeper(limit, 0);
}

// EXPECT cudaErrorIllegalAddress: stack overflow: a thread has * KB for its locals and calls in kernel
// large_locals, block (0, 0, 0), thread (0, 0, 0)
__global__ void large_locals(int *out, int n)
{
    volatile char local[300 * 1024];
    for (int i = 0; i < n; ++i)
        local[i] = (char)i;
    __syncthreads();
    out[threadIdx.x] = local[n / 2];
}

int main()
{
    Array<int> out(32), limit(1);
    recurse<<<1, 32>>>(out.device, limit.device);
    report();
    large_locals<<<1, 32>>>(out.device, 300 * 1024);
    report();
    return verdict();
}
