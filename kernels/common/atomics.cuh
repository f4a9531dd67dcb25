// An atomic for any reduction operation, by a compare-and-swap loop. Sums use the hardware's atomic add.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce_ops.cuh"

template <class To, class From>
static __device__ To bit_cast(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

template <class Operation>
__device__ void atomic_combine(Operation, typename Operation::State *cell, typename Operation::State value)
{
    using State = typename Operation::State;
    using Word = std::conditional_t<sizeof(State) == 4, unsigned, unsigned long long>;
    Word *word = (Word *)cell;
    Word seen = *word, expected, wanted;

    do {
        expected = seen;
        wanted = bit_cast<Word>(Operation::combine(bit_cast<State>(expected), value));
        if (wanted == expected)
            return; // the cell would not change: most threads stop here and do not contend for it
        seen = atomicCAS(word, expected, wanted);
    } while (seen != expected);
}

__device__ inline void atomic_combine(Sum<float>, float *cell, float value)
{
    atomicAdd(cell, value);
}

__device__ inline void atomic_combine(Sum<double>, double *cell, double value)
{
    atomicAdd(cell, value);
}

__device__ inline void atomic_combine(Sum<uint64_t>, uint64_t *cell, uint64_t value)
{
    atomicAdd((unsigned long long *)cell, (unsigned long long)value);
}
