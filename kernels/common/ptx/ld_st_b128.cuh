// ld.relaxed and st.relaxed of 16 bytes at once, sm_70 and above. (PTX ISA, "ld", "st", "Operation types")
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace ptx
{

static __device__ inline void st_relaxed_gpu_global_b128(void *to, uint64_t low, uint64_t high)
{
    asm volatile("{ .reg .b128 word; mov.b128 word, {%1, %2}; st.relaxed.gpu.global.b128 [%0], word; }"
                 :
                 : "l"(to), "l"(low), "l"(high)
                 : "memory");
}

static __device__ inline void ld_relaxed_gpu_global_b128(uint64_t &low, uint64_t &high, const void *from)
{
    asm volatile("{ .reg .b128 word; ld.relaxed.gpu.global.b128 word, [%2]; mov.b128 {%0, %1}, word; }"
                 : "=l"(low), "=l"(high)
                 : "l"(from)
                 : "memory");
}

} // namespace ptx
