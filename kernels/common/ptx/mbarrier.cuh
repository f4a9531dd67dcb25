// mbarrier: a barrier in shared memory with separate arrivals and waits, sm_80 and above. (PTX ISA, "mbarrier")
//
// A phase is complete after `count` arrivals; the next one begins at once. One thread initialises the object, and
// __syncthreads() makes that visible to the others. A wait names the phase by the state that an arrival returned,
// or by its parity, which is 0 for the first. With expect_tx (sm_90) a phase also waits for the bytes of bulk
// copies.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "shared_address.cuh"

namespace ptx
{

static __device__ inline void mbarrier_init(uint64_t *mbarrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(mbarrier)), "r"(count) : "memory");
}

static __device__ inline void mbarrier_inval(uint64_t *mbarrier)
{
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(mbarrier)) : "memory");
}

static __device__ inline uint64_t mbarrier_arrive(uint64_t *mbarrier)
{
    uint64_t state;

    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(mbarrier)) : "memory");
    return state;
}

// arrives, and the phase expects `bytes` more of bulk copies
static __device__ inline uint64_t mbarrier_arrive_expect_tx(uint64_t *mbarrier, uint32_t bytes)
{
    uint64_t state;

    asm volatile("mbarrier.arrive.expect_tx.shared.b64 %0, [%1], %2;"
                 : "=l"(state)
                 : "r"(shared_address(mbarrier)), "r"(bytes)
                 : "memory");
    return state;
}

static __device__ inline void mbarrier_expect_tx(uint64_t *mbarrier, uint32_t bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;" ::"r"(shared_address(mbarrier)), "r"(bytes)
                 : "memory");
}

// arrives, and no longer takes part in later phases
static __device__ inline uint64_t mbarrier_arrive_drop(uint64_t *mbarrier)
{
    uint64_t state;

    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];"
                 : "=l"(state)
                 : "r"(shared_address(mbarrier))
                 : "memory");
    return state;
}

static __device__ inline bool mbarrier_test_wait(uint64_t *mbarrier, uint64_t state)
{
    uint32_t complete;

    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(complete)
                 : "r"(shared_address(mbarrier)), "l"(state)
                 : "memory");
    return complete;
}

static __device__ inline bool mbarrier_test_wait_parity(uint64_t *mbarrier, uint32_t parity)
{
    uint32_t complete;

    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(complete)
                 : "r"(shared_address(mbarrier)), "r"(parity)
                 : "memory");
    return complete;
}

// The same; the thread may sleep meanwhile, sm_90.
static __device__ inline bool mbarrier_try_wait_parity(uint64_t *mbarrier, uint32_t parity)
{
    uint32_t complete;

    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(complete)
                 : "r"(shared_address(mbarrier)), "r"(parity)
                 : "memory");
    return complete;
}

// shows mbarriers that this thread has initialised to the copies that arrive at them
static __device__ inline void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

} // namespace ptx
