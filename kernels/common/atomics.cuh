// An atomic for any operation of a reduction: compare-and-swap until nobody has come between. The sums, for
// which the hardware has an instruction, use that.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

#include "reduce_ops.cuh"

template <class Operation>
__device__ void atomic_combine(Operation, int32_t *address, int32_t value)
{
    int32_t seen = *address, expected;
    do {
        expected = seen;
        seen = atomicCAS(address, expected, Operation::combine(expected, value));
    } while (seen != expected);
}

template <class Operation>
__device__ void atomic_combine(Operation, float *address, float value)
{
    int32_t *word = (int32_t *)address;
    int32_t seen = *word, expected;
    do {
        expected = seen;
        seen = atomicCAS(word, expected, __float_as_int(Operation::combine(__int_as_float(expected), value)));
    } while (seen != expected);
}

__device__ inline void atomic_combine(Sum<float>, float *address, float value)
{
    atomicAdd(address, value);
}

__device__ inline void atomic_combine(Sum<double>, double *address, double value)
{
    atomicAdd(address, value);
}

__device__ inline void atomic_combine(Sum<int64_t>, int64_t *address, int64_t value)
{
    atomicAdd((unsigned long long *)address, (unsigned long long)value);
}
