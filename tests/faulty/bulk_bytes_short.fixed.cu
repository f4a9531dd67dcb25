// The mbarrier expects the bytes that the copy brings.
// topic: bulk copy
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[64] = zeros
#include <cstdint>

__global__ void sums(const float *x, float *y)
{
    __shared__ alignas(16) float s[257];
    __shared__ uint64_t full;
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&full);
    const int t = threadIdx.x;

    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(barrier) : "memory");
        const unsigned to = (unsigned)__cvta_generic_to_shared(s);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(to),
            "l"(x), "r"(barrier)
            : "memory");
    }
    asm volatile("{\n.reg .pred p;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra WAIT;\n}" ::"r"(barrier)
                 : "memory");
    y[t] = s[t] + s[t + 64] + s[t + 128] + s[t + 192];
}
