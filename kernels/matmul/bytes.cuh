// Bytes that a lane exchanges among its own words: no instruction transposes them.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

// Word j of the result is byte j of each of four words.
static __device__ inline void transpose_bytes(uint32_t (&to)[4], const uint32_t (&from)[4])
{
    uint32_t low[2], high[2]; // bytes 0 and 1, and 2 and 3, of two words

    for (int i = 0; i < 2; i++) {
        low[i] = __byte_perm(from[2 * i], from[2 * i + 1], 0x5140);
        high[i] = __byte_perm(from[2 * i], from[2 * i + 1], 0x7362);
    }
    to[0] = __byte_perm(low[0], low[1], 0x5410);
    to[1] = __byte_perm(low[0], low[1], 0x7632);
    to[2] = __byte_perm(high[0], high[1], 0x5410);
    to[3] = __byte_perm(high[0], high[1], 0x7632);
}
