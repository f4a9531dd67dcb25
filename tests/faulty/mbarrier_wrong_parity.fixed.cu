// The wait is for the parity of the phase in which the thread has arrived.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
#include <cstdint>

__device__ __forceinline__ void wait_for_phase(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred complete;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
                 "@complete bra.uni DONE;\n"
                 "bra.uni AGAIN;\n"
                 "DONE:\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t all;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&all);
    const int t = threadIdx.x;

    if (t == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(64));
    __syncthreads();
    s[t] = x[t];
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    wait_for_phase(barrier, 0);
    y[t] = s[63 - t];
}
