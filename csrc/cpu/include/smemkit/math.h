/* CUDA's device functions that C++ does not have, as far as kernels of the textbook kind use them. The fast
 * approximations are the accurate functions here. */
#ifndef SMEMKIT_MATH_H
#define SMEMKIT_MATH_H

/* min and max of mixed types: CUDA has overloads for each pair; they give the common type */
template <class A, class B>
static inline constexpr std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin((T)a, (T)b);
    else
        return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B>
static inline constexpr std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax((T)a, (T)b);
    else
        return (T)a < (T)b ? (T)b : (T)a;
}

static inline float rsqrtf(float x)
{
    return 1.0f / std::sqrt(x);
}
static inline double rsqrt(double x)
{
    return 1.0 / std::sqrt(x);
}
static inline float __saturatef(float x)
{
    return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; /* NaN becomes 0 */
}
/* The C library has declared functions of these names, so they are macros for what they approximate. */
#define __expf(x)          std::exp((float)(x))
#define __exp10f(x)        std::pow(10.0f, (float)(x))
#define __logf(x)          std::log((float)(x))
#define __log2f(x)         std::log2((float)(x))
#define __log10f(x)        std::log10((float)(x))
#define __sinf(x)          std::sin((float)(x))
#define __cosf(x)          std::cos((float)(x))
#define __tanf(x)          std::tan((float)(x))
#define __powf(x, y)       std::pow((float)(x), (float)(y))
#define __sincosf(x, s, c) sincosf(x, s, c)

static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline float __fsqrt_rn(float x)
{
    return std::sqrt(x);
}
static inline float __frsqrt_rn(float x)
{
    return 1.0f / std::sqrt(x);
}
static inline float __fadd_rn(float x, float y)
{
    return x + y;
}
static inline float __fsub_rn(float x, float y)
{
    return x - y;
}
static inline float __fmul_rn(float x, float y)
{
    volatile float product = x * y; /* never part of an fma, as on the GPU */
    return product;
}
static inline float __fdiv_rn(float x, float y)
{
    return x / y;
}
static inline float __fmaf_rn(float x, float y, float z)
{
    return std::fma(x, y, z);
}
static inline double __fma_rn(double x, double y, double z)
{
    return std::fma(x, y, z);
}
static inline double __dadd_rn(double x, double y)
{
    return x + y;
}
static inline double __dmul_rn(double x, double y)
{
    volatile double product = x * y;
    return product;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline unsigned long long __brevll(unsigned long long x)
{
    unsigned long long y = 0;
    for (int i = 0; i < 64; i++)
        y |= (x >> i & 1) << (63 - i);
    return y;
}
static inline unsigned __brev(unsigned x)
{
    return (unsigned)(__brevll(x) >> 32);
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 15, byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        if (nibble & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline int __mul24(int x, int y)
{
    return (int)((unsigned)((x << 8) >> 8) * (unsigned)((y << 8) >> 8));
}
static inline unsigned __umul24(unsigned x, unsigned y)
{
    return (x & 0xffffff) * (y & 0xffffff);
}
static inline int __mulhi(int x, int y)
{
    return (int)((int64_t)x * y >> 32);
}
static inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((uint64_t)x * y >> 32);
}
static inline long long __mul64hi(long long x, long long y)
{
    return (long long)((__int128)x * y >> 64);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline unsigned __sad(int x, int y, unsigned z)
{
    return (unsigned)(x > y ? (int64_t)x - y : (int64_t)y - x) + z;
}

#define SMEMKIT_BITCAST(name, to, from) \
    static inline to name(from x)       \
    {                                   \
        to y;                           \
        memcpy(&y, &x, sizeof y);       \
        return y;                       \
    }
SMEMKIT_BITCAST(__float_as_int, int, float)
SMEMKIT_BITCAST(__float_as_uint, unsigned, float)
SMEMKIT_BITCAST(__int_as_float, float, int)
SMEMKIT_BITCAST(__uint_as_float, float, unsigned)
SMEMKIT_BITCAST(__double_as_longlong, long long, double)
SMEMKIT_BITCAST(__longlong_as_double, double, long long)
#undef SMEMKIT_BITCAST

static inline int __float2int_rn(float x)
{
    return (int)std::nearbyint(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline int __float2int_ru(float x)
{
    return (int)std::ceil(x);
}
static inline int __float2int_rd(float x)
{
    return (int)std::floor(x);
}
static inline unsigned __float2uint_rn(float x)
{
    return (unsigned)std::nearbyint(x);
}
static inline unsigned __float2uint_rz(float x)
{
    return (unsigned)x;
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline int __double2int_rn(double x)
{
    return (int)std::nearbyint(x);
}
static inline int __double2int_rz(double x)
{
    return (int)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}

/* Loads and stores with a cache hint: there is nothing to hint at. */
template <class T>
static inline T __ldg(const T *address)
{
    return *address;
}
template <class T>
static inline T __ldcg(const T *address)
{
    return *address;
}
template <class T>
static inline T __ldcs(const T *address)
{
    return *address;
}
template <class T>
static inline void __stcg(T *address, T value)
{
    *address = value;
}
template <class T>
static inline void __stcs(T *address, T value)
{
    *address = value;
}

static inline long long clock64()
{
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    long long ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}
#endif
