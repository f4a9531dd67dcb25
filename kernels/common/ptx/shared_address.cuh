// cvta: the address in shared memory that PTX's instructions take. (PTX ISA, "cvta")
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace ptx
{

static __device__ inline uint32_t shared_address(const void *generic)
{
    return (uint32_t)__cvta_generic_to_shared(generic);
}

} // namespace ptx
