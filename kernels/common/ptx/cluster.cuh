// The blocks of a cluster: their numbers, their barrier, and arrivals at each other's mbarriers, sm_90 and above.
// (PTX ISA, "%cluster_ctarank", "barrier.cluster", "mapa", "mbarrier.arrive")
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "shared_address.cuh"

namespace ptx
{

static __device__ inline uint32_t cluster_ctarank()
{
    uint32_t rank;

    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Arrives without making writes visible; fence_mbarrier_init makes mbarriers so.
static __device__ inline void barrier_cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// waits until all threads of all blocks of the cluster have arrived or exited
static __device__ inline void barrier_cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Arrives at the mbarrier that is at the same place in the shared memory of block `rank`. It releases at block
// scope, the default: it says that the thread's reads are complete, for which it has waited, but shows no writes
// to the other block. (A release in the cluster would take a fence that waits for all of the thread's accesses.)
static __device__ inline void mbarrier_arrive_at_rank(uint64_t *mbarrier, uint32_t rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(mbarrier)),
                 "r"(rank)
                 : "memory");
}

} // namespace ptx
