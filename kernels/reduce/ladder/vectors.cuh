// 16 bytes of elements, and their load from any address.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

template <class In>
struct alignas(16) VectorOf {
    In element[16 / sizeof(In)];
};

template <class In>
static __device__ VectorOf<In> load_vector(const In *from)
{
    VectorOf<In> vector;

    if ((uintptr_t)from % 16 == 0)
        return *(const VectorOf<In> *)from;
    for (int e = 0; e < 16 / (int)sizeof(In); e++) // an unaligned row
        vector.element[e] = from[e];
    return vector;
}
