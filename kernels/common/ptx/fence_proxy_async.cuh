// fence.proxy.async: orders the thread's accesses to shared memory before those of the async proxy, which are the
// bulk copies' and wgmma's, sm_90 and above. (PTX ISA, "membar/fence")
#pragma once

#include <cuda_runtime.h>

namespace ptx
{

static __device__ inline void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

} // namespace ptx
