/* The 16-bit floating-point types, __half and __nv_bfloat16, and their pairs. A value is computed in float32 and
 * rounded to nearest even, which for one operation gives what the GPU's own instruction gives. */
#ifndef SMEMKIT_NARROW_H
#define SMEMKIT_NARROW_H

#include <cuda_runtime.h>

#include "narrow_bits.h"

namespace smemkit
{

struct binary16 {
    static constexpr auto to_float = float16_to_float;
    static constexpr auto from_float = float16_from_float;
};

struct bfloat {
    static constexpr auto to_float = bfloat16_to_float;
    static constexpr auto from_float = bfloat16_from_float;
};

template <class T>
constexpr bool fits_float = std::numeric_limits<T>::digits <= std::numeric_limits<float>::digits;

/* made of a number of any type, it is rounded once */
template <class Format>
struct narrow {
    uint16_t bits;

    narrow() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    narrow(T value) : bits(Format::from_float(fits_float<T> ? (float)value : round_to_odd(value)))
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
#define SMEMKIT_NARROW(T, T2)                                                                           \
    static inline T2 make_##T2(T x, T y)                                                                \
    {                                                                                                   \
        return {x, y};                                                                                  \
    }                                                                                                   \
    SMEMKIT_NARROW_BINARY(T, T2, __hadd, __hadd2, x + y)                                                \
    SMEMKIT_NARROW_BINARY(T, T2, __hsub, __hsub2, x - y)                                                \
    SMEMKIT_NARROW_BINARY(T, T2, __hmul, __hmul2, x *y)                                                 \
    SMEMKIT_NARROW_BINARY(T, T2, __hmax, __hmax2, std::fmax((float)x, (float)y))                        \
    SMEMKIT_NARROW_BINARY(T, T2, __hmin, __hmin2, std::fmin((float)x, (float)y))                        \
    SMEMKIT_FUNCTION_2(T, __hdiv, T, x / y)                                                             \
    SMEMKIT_FUNCTION_2(bool, __hlt, T, x < y)                                                           \
    SMEMKIT_FUNCTION_2(bool, __hle, T, x <= y)                                                          \
    SMEMKIT_FUNCTION_2(bool, __hgt, T, x > y)                                                           \
    SMEMKIT_FUNCTION_2(bool, __hge, T, x >= y)                                                          \
    SMEMKIT_FUNCTION_2(bool, __heq, T, x == y)                                                          \
    SMEMKIT_FUNCTION_2(bool, __hne, T, x != y)                                                          \
    SMEMKIT_FUNCTION_1(bool, __hisnan, T, (float)x != (float)x)                                         \
    SMEMKIT_FUNCTION_1(T, __hneg, T, -x)                                                                \
    SMEMKIT_FUNCTION_1(T, __habs, T, std::fabs((float)x))                                               \
    SMEMKIT_FUNCTION_1(T, hsqrt, T, std::sqrt((float)x))                                                \
    SMEMKIT_FUNCTION_1(T, hexp, T, std::exp((float)x))                                                  \
    SMEMKIT_FUNCTION_1(T, hlog, T, std::log((float)x))                                                  \
    SMEMKIT_FUNCTION_3(T, __hfma, T, (T)std::fma((double)(float)x, (double)(float)y, (double)(float)z)) \
    static inline T2 __hfma2(T2 a, T2 b, T2 c)                                                          \
    {                                                                                                   \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                          \
    }                                                                                                   \
    static inline T atomicAdd(T *address, T value)                                                      \
    {                                                                                                   \
        return smemkit::atomic_update(address, [=](T old) { return old + value; });                     \
    }                                                                                                   \
    static inline T2 atomicAdd(T2 *address, T2 value) /* each half is atomic, the pair is not */        \
    {                                                                                                   \
        return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};                      \
    }
#define SMEMKIT_NARROW_BINARY(T, T2, name, name2, expression) \
    SMEMKIT_FUNCTION_2(T, name, T, (T)(expression))           \
    static inline T2 name2(T2 a, T2 b)                        \
    {                                                         \
        return {name(a.x, b.x), name(a.y, b.y)};              \
    }

#endif
