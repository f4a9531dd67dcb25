// A thread arrives at the mbarrier, but reads before it has waited for the others.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: race RAW
#include <cstdint>

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t all;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&all);
    const int t = threadIdx.x;

    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(64));
    __syncthreads();
    s[t] = x[t]; // THERE
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
    y[t] = s[63 - t]; // HERE
}
