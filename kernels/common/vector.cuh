// Vector loads of contiguous elements: 4, 8 or 16 bytes from any address, by aligned loads only.
//
// A vector load must be aligned to its size. An unaligned vector is assembled from the two aligned ones that
// contain its bytes; neighbouring threads share these, so that each is read from memory once and then from the L1
// cache. Both loads, `low` and `high`, are issued first and combined when the value is needed, so that several can
// be in flight.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <cstring>

#ifdef __CUDA_ARCH_LIST__ // compiled by nvcc
#include "ptx/cache_hint.cuh"
#endif

template <int BYTES>
struct alignas(BYTES) Vector {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what one instruction loads");
    uint32_t word[BYTES / 4];
};

template <class In, int BYTES>
static __device__ In element(const Vector<BYTES> &vector, int i) // [0, BYTES / sizeof(In))
{
    In x;

    if constexpr (sizeof(In) < 4) {
        const uint32_t bits = vector.word[i * sizeof(In) / 4] >> (8 * (i * sizeof(In) % 4));
        memcpy(&x, &bits, sizeof x);
    } else {
        memcpy(&x, &vector.word[i * sizeof(In) / 4], sizeof x);
    }
    return x;
}

// The address range of an array. Nothing outside is read.
struct ByteRange {
    const unsigned char *begin, *end;
};

// 16 bytes at a multiple of 16, with 0 for bytes outside the array; not inlined, because it is rare
static __device__ __noinline__ uint4 load_partly_in_bounds(const unsigned char *from, ByteRange array)
{
    uint32_t word[4] = {0, 0, 0, 0};

#pragma unroll
    for (int i = 0; i < 16; i++)
        if (from + i >= array.begin && from + i < array.end)
            word[i / 4] |= (uint32_t)from[i] << (8 * (i % 4));
    return {word[0], word[1], word[2], word[3]};
}

template <int BYTES>
static __device__ Vector<BYTES> load_aligned(const unsigned char *from)
{
    if constexpr (BYTES == 16) {
        const uint4 x = __ldg((const uint4 *)from);
        return {{x.x, x.y, x.z, x.w}};
    } else if constexpr (BYTES == 8) {
        const uint2 x = __ldg((const uint2 *)from);
        return {{x.x, x.y}};
    } else {
        return {{__ldg((const unsigned *)from)}};
    }
}

// An L2 cache policy: a fraction `l2_share` of the addresses gets normal eviction priority, the others are evicted
// first. So part of an array larger than L2 is still cached when it is read again.
static __device__ inline uint64_t l2_policy(float l2_share)
{
    uint64_t policy = 0;

#if defined(__CUDA_ARCH_LIST__) && __CUDA_ARCH__ >= 800
    policy = ptx::createpolicy_fractional_evict_normal_evict_first(l2_share);
#else
    (void)l2_share;
#endif
    return policy;
}

static __device__ inline Vector<16> load_aligned(const unsigned char *from, uint64_t policy)
{
#if defined(__CUDA_ARCH_LIST__) && __CUDA_ARCH__ >= 800
    Vector<16> x;

    ptx::ld_global_nc_v4_u32(x.word, from, policy);
    return x;
#else
    (void)policy;
    return load_aligned<16>(from);
#endif
}

// exactly 16 bytes from any address; not inlined, because it is rare
static __device__ __noinline__ Vector<16> load_bytes(const unsigned char *from)
{
    Vector<16> vector;

#pragma unroll
    for (int i = 0; i < 4; i++)
        vector.word[i] =
            from[4 * i] | from[4 * i + 1] << 8 | from[4 * i + 2] << 16 | (uint32_t)from[4 * i + 3] << 24;
    return vector;
}

template <int BYTES>
static __device__ Vector<BYTES> load_in_bounds(const unsigned char *from, ByteRange array)
{
    if (from >= array.begin && from + BYTES <= array.end)
        return load_aligned<BYTES>(from);
    const uint4 edge = load_partly_in_bounds(from, array);
    Vector<BYTES> vector;
    memcpy(&vector, &edge, sizeof vector);
    return vector;
}

// A load of BYTES from any element's address, in flight between begin() and end().
template <class In, int BYTES>
struct UnalignedLoad {
    Vector<BYTES> low, high; // the two aligned vectors; `high` is unused if one contains all bytes
    unsigned shift;          // offset of the first byte in `low`, [0, BYTES)

    // Only `count` bytes matter; they are inside the array.
    __device__ void begin(const unsigned char *from, int count, ByteRange array)
    {
        shift = (unsigned)((uintptr_t)from & (BYTES - 1));
        if (shift == 0 && count == BYTES) {
            low = load_aligned<BYTES>(from);
        } else {
            low = load_in_bounds<BYTES>(from - shift, array);
            high = shift + count > BYTES ? load_in_bounds<BYTES>(from - shift + BYTES, array) : low;
        }
    }

    // Begins a load of all BYTES, where BYTES before and after them may be read as well.
    __device__ void begin(const unsigned char *from)
    {
        shift = (unsigned)((uintptr_t)from & (BYTES - 1));
        low = load_aligned<BYTES>(from - shift);
        high = load_aligned<BYTES>(from - shift + BYTES);
    }

    // Loads all BYTES, and reads no other byte.
    __device__ void issue_bytewise(const unsigned char *from)
    {
        shift = 0;
        low = load_bytes(from);
    }

    __device__ Vector<BYTES> end() const
    {
        constexpr int WORDS = BYTES / 4;

        if (shift == 0)
            return low;
        uint32_t word[2 * WORDS];
        Vector<BYTES> vector;
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            word[i] = low.word[i];
            word[i + WORDS] = high.word[i];
        }
        if (WORDS == 4 && shift & 8)
#pragma unroll
            for (int i = 0; i + 2 < 2 * WORDS; i++)
                word[i] = word[i + 2];
        if (WORDS >= 2 && shift & 4)
#pragma unroll
            for (int i = 0; i + 1 < 2 * WORDS; i++)
                word[i] = word[i + 1];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            vector.word[i] = sizeof(In) < 4 ? __funnelshift_r(word[i], word[i + 1], 8 * (shift & 3)) : word[i];
        return vector;
    }
};
