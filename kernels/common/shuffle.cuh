// Shuffles for types wider than a register: a warp shuffle exchanges 4 bytes per lane at a time.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

// The value that shuffle(word) gets for each word of the value.
template <class T, class F>
static __device__ inline T shuffle_words(T value, F shuffle)
{
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32_t words[sizeof(T) / 4];

    memcpy(words, &value, sizeof value);
    for (uint32_t &word : words)
        word = shuffle(word);
    memcpy((void *)&value, words, sizeof value);
    return value;
}

// The value of lane `lane + delta`; the last `delta` lanes get their own value. All 32 lanes must take part.
template <class T>
static __device__ inline T shuffle_down(T value, int delta)
{
    return shuffle_words(value, [&](uint32_t word) { return __shfl_down_sync(~0u, word, delta); });
}

// The value of lane `lane ^ mask`. All 32 lanes must take part.
template <class T>
static __device__ inline T shuffle_xor(T value, int mask)
{
    return shuffle_words(value, [&](uint32_t word) { return __shfl_xor_sync(~0u, word, mask); });
}
