// An atomic for any operation of a reduction: compare-and-swap until nobody has come between. The sums, for
// which the hardware has an instruction, use that.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "reduce_ops.cuh"

template <class To, class From>
static __device__ To bits_as(From from)
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
        wanted = bits_as<Word>(Operation::combine(bits_as<State>(expected), value));
        if (wanted == expected)
            return; // a new least element is rare: most threads need not queue for the cell
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

__device__ inline void atomic_combine(Count, Count::State *cell, Count::State value)
{
    atomicAdd((unsigned long long *)&cell->count, (unsigned long long)value.count);
}
