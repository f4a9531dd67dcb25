// cp.async: copies from global to shared memory that bypass the registers, sm_80 and above. (PTX ISA, "cp.async")
//
// `taken` of BYTES bytes are copied, the others become zeros. A commit makes a group of the copies before it. A
// wait covers this thread's copies only: other threads need a barrier as well.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "shared_address.cuh"

namespace ptx
{

template <int BYTES>
static __device__ inline void cp_async_ca(void *shared, const void *global, int taken)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what one instruction copies");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)), "l"(global),
                 "n"(BYTES), "r"(taken)
                 : "memory");
}

template <int BYTES>
static __device__ inline void cp_async_ca(void *shared, const void *global)
{
    cp_async_ca<BYTES>(shared, global, BYTES);
}

// 16 bytes, past the L1 cache
static __device__ inline void cp_async_cg(void *shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global)
                 : "memory");
}

static __device__ inline void cp_async_cg(void *shared, const void *global, int taken)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
                 "r"(taken)
                 : "memory");
}

static __device__ inline void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// waits until all but the last PENDING groups are complete
template <int PENDING>
static __device__ inline void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

static __device__ inline void cp_async_wait_all()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// This thread's copies so far arrive at an mbarrier when they are complete, as one of the expected arrivals.
static __device__ inline void cp_async_mbarrier_arrive_noinc(uint64_t *mbarrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(mbarrier)) : "memory");
}

} // namespace ptx
