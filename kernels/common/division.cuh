// Division by a number that all threads share: a multiplication by its reciprocal, since the division of integers
// takes some twenty instructions (Granlund and Montgomery, "Division by invariant integers using multiplication",
// 1994).
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

// n / by is n * multiplier >> shift, for n < 2^31
struct divisor {
    uint32_t by, multiplier;
    int shift;
};

inline divisor make_divisor(int64_t by)
{
    int log2 = 0;

    while ((int64_t)1 << log2 < by)
        log2++;
    return {(uint32_t)by, (uint32_t)((((uint64_t)1 << (31 + log2)) + by - 1) / by), 31 + log2};
}

static __device__ inline uint32_t divide(uint32_t n, const divisor &d)
{
    return (uint32_t)((uint64_t)n * d.multiplier >> d.shift);
}

// The reciprocal of a small number, for divide_small; 0 stands for that of 1.
__host__ __device__ inline uint32_t small_reciprocal(uint32_t by)
{
    return by == 1 ? 0 : UINT32_MAX / by + 1;
}

// n / by in one multiplication, for n * by < 2^32
static __device__ inline uint32_t divide_small(uint32_t n, uint32_t reciprocal)
{
    return reciprocal ? __umulhi(n, reciprocal) : n;
}
