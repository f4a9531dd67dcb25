// The mbarrier expects 65 arrivals in each phase, and 64 threads arrive.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: hang
#include <cstdint>

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t all;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&all);
    const int t = threadIdx.x;
    uint64_t state;
    int complete;

    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(65));
    __syncthreads();
    s[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(barrier) : "memory");
    do
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }" // HERE
                     : "=r"(complete)
                     : "r"(barrier), "l"(state)
                     : "memory");
    while (!complete);
    y[t] = s[63 - t];
}
