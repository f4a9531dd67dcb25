// createpolicy, and loads with its policy: how long lines stay in L2, sm_80 and above. (PTX ISA, "createpolicy",
// "ld")
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace ptx
{

// A fraction of the addresses gets normal eviction priority, the others are evicted first.
static __device__ inline uint64_t createpolicy_fractional_evict_normal_evict_first(float fraction)
{
    uint64_t policy;

    asm volatile("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %0, %1;"
                 : "=l"(policy)
                 : "f"(fraction));
    return policy;
}

static __device__ inline void ld_global_nc_v4_u32(uint32_t (&d)[4], const void *from, uint64_t policy)
{
    asm volatile("ld.global.nc.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "l"(from), "l"(policy));
}

} // namespace ptx
