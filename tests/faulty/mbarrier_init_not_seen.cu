// The threads arrive at an mbarrier that another thread initialises, and nothing orders the two.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
// fault: race
#include <cstdint>

__global__ void reversed(const float *x, float *y)
{
    __shared__ float s[64];
    __shared__ uint64_t all;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&all);
    const int t = threadIdx.x;

    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(64)); // THERE
    s[t] = x[t];
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); // HERE
    asm volatile("{\n.reg .pred p;\nWAIT:\n"                                       // ALSO
                 "mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n@!p bra WAIT;\n}" ::"r"(barrier)
                 : "memory");
    y[t] = s[63 - t];
}
