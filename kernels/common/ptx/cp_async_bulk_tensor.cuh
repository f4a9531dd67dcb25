// cp.async.bulk.tensor: one thread starts the copy of a box of a tensor, sm_90 and above. (PTX ISA,
// "cp.async.bulk.tensor")
//
// A CUtensorMap describes the tensor, the box and its layout in shared memory. x counts elements of the last
// dimension; elements outside the tensor are zeros. The bytes of the whole box arrive at the mbarrier, whose phase
// has expected them. The map is a kernel's __grid_constant__ parameter.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

#include "shared_address.cuh"

namespace ptx
{

static __device__ inline void cp_async_bulk_tensor_load(void *shared, const CUtensorMap *map, int x, int y, int z,
                                                        uint64_t *mbarrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(mbarrier))
                 : "memory");
}

// The same, to the shared memory of each block of a cluster whose bit is set in `ranks`: to the place that
// `shared` has there, and its bytes arrive at the mbarrier at `mbarrier`'s place.
static __device__ inline void cp_async_bulk_tensor_multicast(void *shared, const CUtensorMap *map, int x, int y,
                                                             int z, uint64_t *mbarrier, uint16_t ranks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(mbarrier)), "h"(ranks)
                 : "memory");
}

// The copy of a box to the tensor, without what lies outside of it. It is part of a bulk group: see
// cp_async_bulk.cuh.
static __device__ inline void cp_async_bulk_tensor_store(const CUtensorMap *map, int x, int y, int z,
                                                         const void *shared)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(shared_address(shared))
                 : "memory");
}

} // namespace ptx
