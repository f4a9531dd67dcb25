/* The 16-bit floating-point types, __half and __nv_bfloat16, and their pairs. A value is computed in float32 and
 * rounded to nearest even, which for one operation gives what the GPU's own instruction gives. */
#ifndef SMEMKIT_NARROW_H
#define SMEMKIT_NARROW_H

#include <cuda_runtime.h>

namespace smemkit
{

/* IEEE binary16: 5 bits of exponent, 10 of fraction */
struct binary16 {
    static uint16_t from_float(float value)
    {
        const uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000;
        uint32_t x = bits & 0x7fffffff;

        if (x > 0x7f800000)
            return 0x7fff; /* NaN, CUDA's */
        if (x >= 0x477ff000)
            return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
        if (x < 0x38800000)                   /* below 2^-14: the units of 0.5 are the steps of the subnormals */
            x = __float_as_uint(__uint_as_float(x) + 0.5f) - __float_as_uint(0.5f);
        else
            x = (x + 0xfff + (x >> 13 & 1) - 0x38000000) >> 13;
        return (uint16_t)(sign | x);
    }
    static float to_float(uint16_t bits)
    {
        const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, x = (uint32_t)(bits & 0x7fff) << 13;

        if (x >= 0x0f800000)
            return __uint_as_float(sign | 0x7f800000 | x);
        return __uint_as_float(sign | __float_as_uint(__uint_as_float(x) * 0x1p112f));
    }
};

/* bfloat16: the upper half of a float32 */
struct bfloat {
    static uint16_t from_float(float value)
    {
        const uint32_t bits = __float_as_uint(value);

        return value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    static float to_float(uint16_t bits)
    {
        return __uint_as_float((uint32_t)bits << 16);
    }
};

template <class Format>
struct narrow {
    uint16_t bits;

    narrow() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    narrow(T value) : bits(Format::from_float((float)value))
    {
    }
    operator float() const
    {
        return Format::to_float(bits);
    }

#define SMEMKIT_OPERATOR(op)                           \
    friend narrow operator op(narrow a, narrow b)      \
    {                                                  \
        return (float)a op(float) b;                   \
    }                                                  \
    friend narrow &operator op##=(narrow &a, narrow b) \
    {                                                  \
        return a = a op b;                             \
    }
    SMEMKIT_OPERATOR(+)
    SMEMKIT_OPERATOR(-)
    SMEMKIT_OPERATOR(*)
    SMEMKIT_OPERATOR(/)
#undef SMEMKIT_OPERATOR
#define SMEMKIT_OPERATOR(op)                    \
    friend bool operator op(narrow a, narrow b) \
    {                                           \
        return (float)a op(float) b;            \
    }
    SMEMKIT_OPERATOR(<)
    SMEMKIT_OPERATOR(<=)
    SMEMKIT_OPERATOR(>)
    SMEMKIT_OPERATOR(>=)
    SMEMKIT_OPERATOR(==)
    SMEMKIT_OPERATOR(!=)
#undef SMEMKIT_OPERATOR
    narrow operator-() const
    {
        narrow negative;
        negative.bits = bits ^ 0x8000;
        return negative;
    }
};

template <class T>
struct alignas(4) pair {
    T x, y;
};

} // namespace smemkit

/* The functions of one type T and its pair T2; CUDA has the same names for both types, but for conversions. */
#define SMEMKIT_NARROW(T, T2)                                                                                  \
    static inline T2 make_##T2(T x, T y)                                                                       \
    {                                                                                                          \
        return {x, y};                                                                                         \
    }                                                                                                          \
    SMEMKIT_NARROW_BINARY(T, T2, __hadd, __hadd2, x + y)                                                       \
    SMEMKIT_NARROW_BINARY(T, T2, __hsub, __hsub2, x - y)                                                       \
    SMEMKIT_NARROW_BINARY(T, T2, __hmul, __hmul2, x *y)                                                        \
    SMEMKIT_NARROW_BINARY(T, T2, __hmax, __hmax2, std::fmax((float)x, (float)y))                               \
    SMEMKIT_NARROW_BINARY(T, T2, __hmin, __hmin2, std::fmin((float)x, (float)y))                               \
    SMEMKIT_FUNCTION_2(T, __hdiv, T, x / y)                                                                    \
    SMEMKIT_FUNCTION_2(bool, __hlt, T, x < y)                                                                  \
    SMEMKIT_FUNCTION_2(bool, __hle, T, x <= y)                                                                 \
    SMEMKIT_FUNCTION_2(bool, __hgt, T, x > y)                                                                  \
    SMEMKIT_FUNCTION_2(bool, __hge, T, x >= y)                                                                 \
    SMEMKIT_FUNCTION_2(bool, __heq, T, x == y)                                                                 \
    SMEMKIT_FUNCTION_2(bool, __hne, T, x != y)                                                                 \
    SMEMKIT_FUNCTION_1(bool, __hisnan, T, (float)x != (float)x)                                                \
    SMEMKIT_FUNCTION_1(T, __hneg, T, -x)                                                                       \
    SMEMKIT_FUNCTION_1(T, __habs, T, std::fabs((float)x))                                                      \
    SMEMKIT_FUNCTION_1(T, hsqrt, T, std::sqrt((float)x))                                                       \
    SMEMKIT_FUNCTION_1(T, hexp, T, std::exp((float)x))                                                         \
    SMEMKIT_FUNCTION_1(T, hlog, T, std::log((float)x))                                                         \
    SMEMKIT_FUNCTION_3(T, __hfma, T, (T)(float)std::fma((double)(float)x, (double)(float)y, (double)(float)z)) \
    static inline T2 __hfma2(T2 a, T2 b, T2 c)                                                                 \
    {                                                                                                          \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                 \
    }                                                                                                          \
    static inline T atomicAdd(T *address, T value)                                                             \
    {                                                                                                          \
        return smemkit::atomic_update(address, [=](T old) { return old + value; });                            \
    }                                                                                                          \
    static inline T2 atomicAdd(T2 *address, T2 value) /* each half is atomic, the pair is not */               \
    {                                                                                                          \
        return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};                             \
    }
#define SMEMKIT_NARROW_BINARY(T, T2, name, name2, expression) \
    SMEMKIT_FUNCTION_2(T, name, T, (T)(expression))           \
    static inline T2 name2(T2 a, T2 b)                        \
    {                                                         \
        return {name(a.x, b.x), name(a.y, b.y)};              \
    }

#endif
