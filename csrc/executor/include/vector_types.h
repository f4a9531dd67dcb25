/* CUDA's vector types: char1 … double4, with CUDA's sizes and alignments, and dim3. Plain structs, so that a
 * float4 moves as one 16-byte access. */
#ifndef SMEMKIT_VECTOR_TYPES_H
#define SMEMKIT_VECTOR_TYPES_H

#define SMEMKIT_VECTORS(name, type, align2, align4)                                 \
    struct name##1                                                                  \
    {                                                                               \
        type x;                                                                     \
    };                                                                              \
    struct alignas(align2) name##2                                                  \
    {                                                                               \
        type x, y;                                                                  \
    };                                                                              \
    struct name##3                                                                  \
    {                                                                               \
        type x, y, z;                                                               \
    };                                                                              \
    struct alignas(align4) name##4                                                  \
    {                                                                               \
        type x, y, z, w;                                                            \
    };                                                                              \
    SMEMKIT_INLINE constexpr name##1 make_##name##1(type x)                         \
    {                                                                               \
        return {x};                                                                 \
    }                                                                               \
    SMEMKIT_INLINE constexpr name##2 make_##name##2(type x, type y)                 \
    {                                                                               \
        return {x, y};                                                              \
    }                                                                               \
    SMEMKIT_INLINE constexpr name##3 make_##name##3(type x, type y, type z)         \
    {                                                                               \
        return {x, y, z};                                                           \
    }                                                                               \
    SMEMKIT_INLINE constexpr name##4 make_##name##4(type x, type y, type z, type w) \
    {                                                                               \
        return {x, y, z, w};                                                        \
    }

SMEMKIT_VECTORS(char, signed char, 2, 4)
SMEMKIT_VECTORS(uchar, unsigned char, 2, 4)
SMEMKIT_VECTORS(short, short, 4, 8)
SMEMKIT_VECTORS(ushort, unsigned short, 4, 8)
SMEMKIT_VECTORS(int, int, 8, 16)
SMEMKIT_VECTORS(uint, unsigned int, 8, 16)
SMEMKIT_VECTORS(long, long, 16, 16)
SMEMKIT_VECTORS(ulong, unsigned long, 16, 16)
SMEMKIT_VECTORS(longlong, long long, 16, 16)
SMEMKIT_VECTORS(ulonglong, unsigned long long, 16, 16)
SMEMKIT_VECTORS(float, float, 8, 16)
SMEMKIT_VECTORS(double, double, 16, 16)

/* CUDA 13 names the alignment of vectors of 32 bytes. */
#define SMEMKIT_ALIGNED_VECTORS(name, type)                                                 \
    struct alignas(16) name##4_16a                                                          \
    {                                                                                       \
        type x, y, z, w;                                                                    \
    };                                                                                      \
    struct alignas(32) name##4_32a                                                          \
    {                                                                                       \
        type x, y, z, w;                                                                    \
    };                                                                                      \
    SMEMKIT_INLINE constexpr name##4_16a make_##name##4_16a(type x, type y, type z, type w) \
    {                                                                                       \
        return {x, y, z, w};                                                                \
    }                                                                                       \
    SMEMKIT_INLINE constexpr name##4_32a make_##name##4_32a(type x, type y, type z, type w) \
    {                                                                                       \
        return {x, y, z, w};                                                                \
    }
SMEMKIT_ALIGNED_VECTORS(long, long)
SMEMKIT_ALIGNED_VECTORS(ulong, unsigned long)
SMEMKIT_ALIGNED_VECTORS(longlong, long long)
SMEMKIT_ALIGNED_VECTORS(ulonglong, unsigned long long)
SMEMKIT_ALIGNED_VECTORS(double, double)
#undef SMEMKIT_ALIGNED_VECTORS

struct dim3 {
    unsigned int x, y, z;
    SMEMKIT_NO_HOOKS constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z)
    {
    }
    SMEMKIT_NO_HOOKS constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    SMEMKIT_NO_HOOKS constexpr operator uint3() const
    {
        return {x, y, z};
    }
};

/* The built-in variables: objects, since kernels may shadow them. They never change for the thread that reads
 * them; the executor sets them at every switch (csrc/executor/block.c). */
#define SMEMKIT_BUILT_IN __attribute__((visibility("default")))
extern "C" {
extern SMEMKIT_BUILT_IN __thread const uint3 threadIdx __asm__("smemkit_thread_index");
extern SMEMKIT_BUILT_IN __thread const uint3 blockIdx __asm__("smemkit_block_index");
extern SMEMKIT_BUILT_IN __thread const uint3 blockDim __asm__("smemkit_block_dim");
extern SMEMKIT_BUILT_IN __thread const uint3 gridDim __asm__("smemkit_grid_dim");
}
static constexpr int warpSize = 32;

#endif
