// Four neighbours in a row, as one load or store of 16 bytes where that is possible. The row has `left` elements
// from the first of them on; 0 or less: they are outside the matrix. `aligned`: rows begin at multiples of 16
// bytes.
#pragma once

#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <cstdint>

// Elements outside the matrix are 0.
static __device__ inline float4 load_vector(const float *x, int64_t left, bool aligned)
{
    if (aligned && left >= 4)
        return *(const float4 *)x;
    return {left > 0 ? x[0] : 0, left > 1 ? x[1] : 0, left > 2 ? x[2] : 0, left > 3 ? x[3] : 0};
}

static __device__ inline void store_vector(float *x, const float *values, int64_t left, bool aligned)
{
    if (aligned && left >= 4)
        *(float4 *)x = {values[0], values[1], values[2], values[3]};
    else
        for (int e = 0; e < 4; e++)
            if (e < left)
                x[e] = values[e];
}

// Whether the rows of A, B and C begin at multiples of 16 bytes.
static inline bool rows_are_aligned(const void *a, const void *b, const void *c, int64_t k, int64_t n)
{
    return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 16 == 0 && k % 4 == 0 && n % 4 == 0;
}
