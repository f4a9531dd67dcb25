// cp.async.bulk: one thread starts a copy of many bytes, which the TMA performs, sm_90 and above. (PTX ISA,
// "cp.async.bulk")
//
// Addresses and lengths are multiples of 16. A load arrives at an mbarrier, whose phase has expected its bytes. A
// store reads shared memory through the async proxy: each thread that has written there executes
// fence_proxy_async() before the barrier between the stores and the copy; afterwards the thread that started the
// store waits for its group, with _read until the source may be overwritten.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "fence_proxy_async.cuh"
#include "shared_address.cuh"

namespace ptx
{

static __device__ inline void cp_async_bulk_load(void *shared, const void *global, uint32_t bytes,
                                                 uint64_t *mbarrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(mbarrier))
                 : "memory");
}

static __device__ inline void cp_async_bulk_store(void *global, const void *shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

// adds floats to those in global memory, each as an atomic
static __device__ inline void cp_async_bulk_add(float *global, const float *shared, uint32_t bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
}

static __device__ inline void cp_async_bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

template <int GROUPS>
static __device__ inline void cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(GROUPS) : "memory");
}

template <int GROUPS>
static __device__ inline void cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(GROUPS) : "memory");
}

} // namespace ptx
