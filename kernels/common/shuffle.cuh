// Shuffles of what is wider than a register: a warp exchanges 4 bytes a lane at a time.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

// the value of the lane `delta` above, of a warp whose lanes all take part; of the last lanes their own
template <class T>
static __device__ inline T shuffle_down(T value, int delta)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32_t words[sizeof(T) / 4];

    memcpy(words, &value, sizeof value);
    for (uint32_t &word : words)
        word = __shfl_down_sync(~0u, word, delta);
    memcpy((void *)&value, words, sizeof value);
    return value;
}
