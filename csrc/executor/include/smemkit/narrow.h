/* The 16-bit floating-point types, __half and __nv_bfloat16, and their pairs. Values are computed in float32 and
 * rounded to nearest even, which for a single operation gives the GPU's result. */
#ifndef SMEMKIT_NARROW_H
#define SMEMKIT_NARROW_H

#include <cuda_runtime.h>

#include "narrow_bits.h"

namespace smemkit
{

struct binary16 {
    struct raw {
        unsigned short x;
    };
    struct alignas(4) raw2 {
        unsigned short x, y;
    };
    static constexpr auto to_float = float16_to_float;
    static constexpr auto from_float = float16_from_float;
};

struct bfloat {
    struct raw {
        unsigned short x;
    };
    struct alignas(4) raw2 {
        unsigned short x, y;
    };
    static constexpr auto to_float = bfloat16_to_float;
    static constexpr auto from_float = bfloat16_from_float;
};

template <class T>
constexpr bool fits_float = std::numeric_limits<T>::digits <= std::numeric_limits<float>::digits;

/* Construction from a number of any type rounds once. Copies copy two bytes; compound assignments report their
 * accesses to the checker. */
template <class Format>
struct narrow {
    using raw_pair = typename Format::raw2;
    union {
        uint16_t bits;
        uint16_t __x; /* its name in CUDA, which CCCL uses */
    };

    narrow() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    SMEMKIT_NO_HOOKS narrow(T value) : bits(Format::from_float(fits_float<T> ? (float)value : round_to_odd(value)))
    {
    }
    SMEMKIT_NO_HOOKS narrow(typename Format::raw raw) : bits(raw.x)
    {
    }
    SMEMKIT_NO_HOOKS operator typename Format::raw() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return {bits};
    }
    SMEMKIT_NO_HOOKS operator float() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return Format::to_float(bits);
    }
    SMEMKIT_NO_HOOKS float value() const
    {
        return Format::to_float(bits);
    }
    SMEMKIT_NO_HOOKS narrow operator-() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        narrow negative;
        negative.bits = bits ^ 0x8000;
        return negative;
    }
    SMEMKIT_NO_HOOKS narrow operator+() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return load(this);
    }

#define SMEMKIT_OPERATOR(op)                                            \
    SMEMKIT_NO_HOOKS friend narrow operator op(narrow a, narrow b)      \
    {                                                                   \
        return a.value() op b.value();                                  \
    }                                                                   \
    SMEMKIT_NO_HOOKS friend narrow &operator op##=(narrow &a, narrow b) \
    {                                                                   \
        return a.update(SMEMKIT_PC, a.value() op b.value());            \
    }
    SMEMKIT_OPERATOR(+)
    SMEMKIT_OPERATOR(-)
    SMEMKIT_OPERATOR(*)
    SMEMKIT_OPERATOR(/)
#undef SMEMKIT_OPERATOR
#define SMEMKIT_OPERATOR(op)                                     \
    SMEMKIT_NO_HOOKS friend bool operator op(narrow a, narrow b) \
    {                                                            \
        return a.value() op b.value();                           \
    }
    SMEMKIT_OPERATOR(<)
    SMEMKIT_OPERATOR(<=)
    SMEMKIT_OPERATOR(>)
    SMEMKIT_OPERATOR(>=)
    SMEMKIT_OPERATOR(==)
    SMEMKIT_OPERATOR(!=)
#undef SMEMKIT_OPERATOR
#define SMEMKIT_OPERATOR(op, step)                             \
    SMEMKIT_NO_HOOKS friend narrow &operator op(narrow &a)     \
    {                                                          \
        return a.update(SMEMKIT_PC, a.value() step 1);         \
    }                                                          \
    SMEMKIT_NO_HOOKS friend narrow operator op(narrow &a, int) \
    {                                                          \
        narrow old = load(&a);                                 \
        a.update(SMEMKIT_PC, a.value() step 1);                \
        return old;                                            \
    }
    SMEMKIT_OPERATOR(++, +)
    SMEMKIT_OPERATOR(--, -)
#undef SMEMKIT_OPERATOR

    SMEMKIT_NO_HOOKS narrow &update(const void *pc, narrow result)
    {
        report_read(this, sizeof *this, pc);
        report_write(this, sizeof *this, pc);
        bits = result.bits;
        return *this;
    }
};

template <class T>
struct alignas(4) pair {
    T x, y;

    pair() = default;
    SMEMKIT_NO_HOOKS pair(T x, T y) : x(x), y(y)
    {
    }
    SMEMKIT_NO_HOOKS pair(typename T::raw_pair raw)
    {
        x.bits = raw.x;
        y.bits = raw.y;
    }
    SMEMKIT_NO_HOOKS operator typename T::raw_pair() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return {x.bits, y.bits};
    }

#define SMEMKIT_OPERATOR(op)                                      \
    SMEMKIT_NO_HOOKS friend pair operator op(pair a, pair b)      \
    {                                                             \
        return {a.x op b.x, a.y op b.y};                          \
    }                                                             \
    SMEMKIT_NO_HOOKS friend pair &operator op##=(pair &a, pair b) \
    {                                                             \
        report_read(&a, sizeof a, SMEMKIT_PC);                    \
        report_write(&a, sizeof a, SMEMKIT_PC);                   \
        const pair old = load(&a);                                \
        store(&a, pair{old.x op b.x, old.y op b.y});              \
        return a;                                                 \
    }
    SMEMKIT_OPERATOR(+)
    SMEMKIT_OPERATOR(-)
    SMEMKIT_OPERATOR(*)
    SMEMKIT_OPERATOR(/)
#undef SMEMKIT_OPERATOR
#define SMEMKIT_OPERATOR(op)                                 \
    SMEMKIT_NO_HOOKS friend bool operator op(pair a, pair b) \
    {                                                        \
        return a.x op b.x && a.y op b.y;                     \
    }
    SMEMKIT_OPERATOR(<)
    SMEMKIT_OPERATOR(<=)
    SMEMKIT_OPERATOR(>)
    SMEMKIT_OPERATOR(>=)
    SMEMKIT_OPERATOR(==)
#undef SMEMKIT_OPERATOR
    SMEMKIT_NO_HOOKS friend bool operator!=(pair a, pair b)
    {
        return a.x != b.x || a.y != b.y;
    }
    SMEMKIT_NO_HOOKS friend pair operator-(pair a)
    {
        return {-a.x, -a.y};
    }
    SMEMKIT_NO_HOOKS friend pair operator+(pair a)
    {
        return a;
    }
};

template <class Format>
SMEMKIT_INLINE narrow<Format> atomic_add(narrow<Format> *address, const void *pc, narrow<Format> value)
{
    return atomic_update(address, pc, [=](narrow<Format> old) SMEMKIT_NO_HOOKS { return old + value; });
}

/* 0xffff in the half of each that holds */
SMEMKIT_INLINE unsigned halves_mask(bool low, bool high)
{
    return (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
}

/* maximum or minimum: NaN if an operand is NaN */
template <class T>
SMEMKIT_INLINE T or_nan(T x, T y, float otherwise)
{
    return x != x ? x : y != y ? y : (T)otherwise;
}

} // namespace smemkit

/* The functions of a type T and its pair T2; CUDA uses the same names for both types, except conversions. */
#define SMEMKIT_NARROW(T, T2)                                                                                    \
    SMEMKIT_INLINE T2 make_##T2(T x, T y)                                                                        \
    {                                                                                                            \
        return {x, y};                                                                                           \
    }                                                                                                            \
    SMEMKIT_NARROW_ARITHMETIC(T, T2, __hadd, x.value() + y.value())                                              \
    SMEMKIT_NARROW_ARITHMETIC(T, T2, __hsub, x.value() - y.value())                                              \
    SMEMKIT_NARROW_ARITHMETIC(T, T2, __hmul, x.value() * y.value())                                              \
    SMEMKIT_NARROW_BINARY(T, T2, __hdiv, __h2div, x.value() / y.value())                                         \
    SMEMKIT_NARROW_BINARY(T, T2, __hmax, __hmax2, fmaxf(x.value(), y.value()))                                   \
    SMEMKIT_NARROW_BINARY(T, T2, __hmin, __hmin2, fminf(x.value(), y.value()))                                   \
    SMEMKIT_NARROW_BINARY(T, T2, __hmax_nan, __hmax2_nan, smemkit::or_nan(x, y, fmaxf(x.value(), y.value())))    \
    SMEMKIT_NARROW_BINARY(T, T2, __hmin_nan, __hmin2_nan, smemkit::or_nan(x, y, fminf(x.value(), y.value())))    \
    SMEMKIT_NARROW_COMPARISON(T, T2, eq, x.value() == y.value(),                                                 \
                              !(x.value() < y.value() || x.value() > y.value()))                                 \
    SMEMKIT_NARROW_COMPARISON(T, T2, ne, x.value() < y.value() || x.value() > y.value(), x.value() != y.value()) \
    SMEMKIT_NARROW_COMPARISON(T, T2, lt, x.value() < y.value(), !(x.value() >= y.value()))                       \
    SMEMKIT_NARROW_COMPARISON(T, T2, le, x.value() <= y.value(), !(x.value() > y.value()))                       \
    SMEMKIT_NARROW_COMPARISON(T, T2, gt, x.value() > y.value(), !(x.value() <= y.value()))                       \
    SMEMKIT_NARROW_COMPARISON(T, T2, ge, x.value() >= y.value(), !(x.value() < y.value()))                       \
    SMEMKIT_FUNCTION_1(bool, __hisnan, T, x != x)                                                                \
    SMEMKIT_FUNCTION_1(int, __hisinf, T, __builtin_isinf(x.value()) ? x.value() < 0 ? -1 : 1 : 0)                \
    SMEMKIT_FUNCTION_1(T2, __hisnan2, T2, (T2{(float)__hisnan(x.x), (float)__hisnan(x.y)}))                      \
    SMEMKIT_NARROW_UNARY(T, T2, __hneg, __hneg2, -x)                                                             \
    SMEMKIT_NARROW_UNARY(T, T2, __habs, __habs2, fabsf(x.value()))                                               \
    SMEMKIT_NARROW_UNARY(T, T2, hsqrt, h2sqrt, sqrtf(x.value()))                                                 \
    SMEMKIT_NARROW_UNARY(T, T2, hrsqrt, h2rsqrt, 1 / sqrt((double)x.value()))                                    \
    SMEMKIT_NARROW_UNARY(T, T2, hrcp, h2rcp, 1 / x.value())                                                      \
    SMEMKIT_NARROW_UNARY(T, T2, hexp, h2exp, expf(x.value()))                                                    \
    SMEMKIT_NARROW_UNARY(T, T2, hexp2, h2exp2, exp2f(x.value()))                                                 \
    SMEMKIT_NARROW_UNARY(T, T2, hexp10, h2exp10, powf(10.0f, x.value()))                                         \
    SMEMKIT_NARROW_UNARY(T, T2, hlog, h2log, logf(x.value()))                                                    \
    SMEMKIT_NARROW_UNARY(T, T2, hlog2, h2log2, log2f(x.value()))                                                 \
    SMEMKIT_NARROW_UNARY(T, T2, hlog10, h2log10, log10f(x.value()))                                              \
    SMEMKIT_NARROW_UNARY(T, T2, hsin, h2sin, sinf(x.value()))                                                    \
    SMEMKIT_NARROW_UNARY(T, T2, hcos, h2cos, cosf(x.value()))                                                    \
    SMEMKIT_NARROW_UNARY(T, T2, htanh, h2tanh, tanhf(x.value()))                                                 \
    SMEMKIT_NARROW_UNARY(T, T2, htanh_approx, h2tanh_approx, tanhf(x.value()))                                   \
    SMEMKIT_NARROW_UNARY(T, T2, hceil, h2ceil, ceilf(x.value()))                                                 \
    SMEMKIT_NARROW_UNARY(T, T2, hfloor, h2floor, floorf(x.value()))                                              \
    SMEMKIT_NARROW_UNARY(T, T2, htrunc, h2trunc, truncf(x.value()))                                              \
    SMEMKIT_NARROW_UNARY(T, T2, hrint, h2rint, nearbyintf(x.value()))                                            \
    SMEMKIT_NARROW_FMA(T, T2, , sum)                                                                             \
    SMEMKIT_NARROW_FMA(T, T2, _sat, sum >= 1 ? 1 : sum > 0 ? sum : 0)                                            \
    SMEMKIT_NARROW_FMA(T, T2, _relu, sum < 0 ? 0 : sum)                                                          \
    SMEMKIT_FUNCTION_3(T2, __hcmadd, T2, /* x * y + z of complex numbers */                                      \
                       (T2{__hfma(-x.y, y.y, __hfma(x.x, y.x, z.x)), __hfma(x.y, y.x, __hfma(x.x, y.y, z.y))}))  \
    SMEMKIT_INLINE T atomicAdd(T *address, T value)                                                              \
    {                                                                                                            \
        return smemkit::atomic_add(address, SMEMKIT_PC, value);                                                  \
    }                                                                                                            \
    SMEMKIT_INLINE T2 atomicAdd(T2 *address, T2 value) /* each half is atomic, the pair is not */                \
    {                                                                                                            \
        const void *pc = SMEMKIT_PC;                                                                             \
        return {smemkit::atomic_add(&address->x, pc, value.x), smemkit::atomic_add(&address->y, pc, value.y)};   \
    }
#define SMEMKIT_NARROW_UNARY(T, T2, name, name2, expression) \
    SMEMKIT_FUNCTION_1(T, name, T, (T)(expression))          \
    SMEMKIT_FUNCTION_1(T2, name2, T2, (T2{name(x.x), name(x.y)}))
#define SMEMKIT_NARROW_BINARY(T, T2, name, name2, expression) \
    SMEMKIT_FUNCTION_2(T, name, T, (T)(expression))           \
    SMEMKIT_FUNCTION_2(T2, name2, T2, (T2{name(x.x, y.x), name(x.y, y.y)}))
#define SMEMKIT_NARROW_ARITHMETIC(T, T2, name, expression)            \
    SMEMKIT_NARROW_BINARY(T, T2, name, name##2, expression)           \
    SMEMKIT_NARROW_BINARY(T, T2, name##_rn, name##2##_rn, expression) \
    SMEMKIT_NARROW_BINARY(T, T2, name##_sat, name##2##_sat, __saturatef(name(x, y).value()))
#define SMEMKIT_NARROW_COMPARISON(T, T2, name, ordered, unordered)                                                \
    SMEMKIT_FUNCTION_2(bool, __h##name, T, ordered)                                                               \
    SMEMKIT_FUNCTION_2(bool, __h##name##u, T, unordered) /* or an operand is NaN */                               \
    SMEMKIT_FUNCTION_2(T2, __h##name##2, T2, (T2{(float)__h##name(x.x, y.x), (float)__h##name(x.y, y.y)}))        \
    SMEMKIT_FUNCTION_2(T2, __h##name##u2, T2, (T2{(float)__h##name##u(x.x, y.x), (float)__h##name##u(x.y, y.y)})) \
    SMEMKIT_FUNCTION_2(unsigned, __h##name##2_mask, T2,                                                           \
                       smemkit::halves_mask(__h##name(x.x, y.x), __h##name(x.y, y.y)))                            \
    SMEMKIT_FUNCTION_2(unsigned, __h##name##u2_mask, T2,                                                          \
                       smemkit::halves_mask(__h##name##u(x.x, y.x), __h##name##u(x.y, y.y)))                      \
    SMEMKIT_FUNCTION_2(bool, __hb##name##2, T2, __h##name(x.x, y.x) && __h##name(x.y, y.y))                       \
    SMEMKIT_FUNCTION_2(bool, __hb##name##u2, T2, __h##name##u(x.x, y.x) && __h##name##u(x.y, y.y))
#define SMEMKIT_NARROW_FMA(T, T2, suffix, result)                                        \
    SMEMKIT_INLINE T __hfma##suffix(T x, T y, T z)                                       \
    {                                                                                    \
        const double sum = fma((double)x.value(), (double)y.value(), (double)z.value()); \
        return (T)(result);                                                              \
    }                                                                                    \
    SMEMKIT_INLINE T2 __hfma2##suffix(T2 x, T2 y, T2 z)                                  \
    {                                                                                    \
        return {__hfma##suffix(x.x, y.x, z.x), __hfma##suffix(x.y, y.y, z.y)};           \
    }

/* Conversions whose names contain the type's: __float2half, __low2bfloat16, __halves2half2, ... NAME: half or
 * bfloat16
 */
#define SMEMKIT_NARROW_CONVERSIONS(T, T2, NAME)                                                               \
    SMEMKIT_FUNCTION_1(T, __float2##NAME, float, x)                                                           \
    SMEMKIT_FUNCTION_1(T, __float2##NAME##_rn, float, x)                                                      \
    SMEMKIT_FUNCTION_1(T, __float2##NAME##_rz, float, smemkit::directed<T>(x, x<0, x> 0))                     \
    SMEMKIT_FUNCTION_1(T, __float2##NAME##_ru, float, smemkit::directed<T>(x, true, false))                   \
    SMEMKIT_FUNCTION_1(T, __float2##NAME##_rd, float, smemkit::directed<T>(x, false, true))                   \
    SMEMKIT_FUNCTION_1(T, __double2##NAME, double, x)                                                         \
    SMEMKIT_FUNCTION_1(float, __##NAME##2float, T, x.value())                                                 \
    SMEMKIT_NARROW_INTEGER(T, NAME, int, int)                                                                 \
    SMEMKIT_NARROW_INTEGER(T, NAME, uint, unsigned)                                                           \
    SMEMKIT_NARROW_INTEGER(T, NAME, short, short)                                                             \
    SMEMKIT_NARROW_INTEGER(T, NAME, ushort, unsigned short)                                                   \
    SMEMKIT_NARROW_INTEGER(T, NAME, ll, long long)                                                            \
    SMEMKIT_NARROW_INTEGER(T, NAME, ull, unsigned long long)                                                  \
    SMEMKIT_FUNCTION_1(signed char, __##NAME##2char_rz, T, smemkit::saturate<signed char>(truncf(x.value()))) \
    SMEMKIT_FUNCTION_1(unsigned char, __##NAME##2uchar_rz, T,                                                 \
                       smemkit::saturate<unsigned char>(truncf(x.value())))                                   \
    SMEMKIT_FUNCTION_1(unsigned short, __##NAME##_as_ushort, T, x.bits)                                       \
    SMEMKIT_FUNCTION_1(short, __##NAME##_as_short, T, (short)x.bits)                                          \
    SMEMKIT_FUNCTION_1(T, __ushort_as_##NAME, unsigned short, (smemkit::format_of<T>::raw{x}))                \
    SMEMKIT_FUNCTION_1(T, __short_as_##NAME, short, (smemkit::format_of<T>::raw{(unsigned short)x}))          \
    SMEMKIT_FUNCTION_1(T, __low2##NAME, T2, x.x)                                                              \
    SMEMKIT_FUNCTION_1(T, __high2##NAME, T2, x.y)                                                             \
    SMEMKIT_FUNCTION_1(float, __low2float, T2, x.x.value())                                                   \
    SMEMKIT_FUNCTION_1(float, __high2float, T2, x.y.value())
#define SMEMKIT_NARROW_INTEGER(T, NAME, name, type)                                                        \
    SMEMKIT_FUNCTION_1(T, __##name##2##NAME##_rn, type, x)                                                 \
    SMEMKIT_FUNCTION_1(T, __##name##2##NAME##_rz, type, smemkit::directed<T>((long double)x, x<0, x> 0))   \
    SMEMKIT_FUNCTION_1(T, __##name##2##NAME##_ru, type, smemkit::directed<T>((long double)x, true, false)) \
    SMEMKIT_FUNCTION_1(T, __##name##2##NAME##_rd, type, smemkit::directed<T>((long double)x, false, true)) \
    SMEMKIT_FUNCTION_1(type, __##NAME##2##name##_rn, T, smemkit::saturate<type>(nearbyintf(x.value())))    \
    SMEMKIT_FUNCTION_1(type, __##NAME##2##name##_rz, T, smemkit::saturate<type>(truncf(x.value())))        \
    SMEMKIT_FUNCTION_1(type, __##NAME##2##name##_ru, T, smemkit::saturate<type>(ceilf(x.value())))         \
    SMEMKIT_FUNCTION_1(type, __##NAME##2##name##_rd, T, smemkit::saturate<type>(floorf(x.value())))
/* the same for pairs: NAME2 is half2 or bfloat162 */
#define SMEMKIT_NARROW_PAIRS(T, T2, NAME, NAME2)                                           \
    SMEMKIT_FUNCTION_2(T2, __floats2##NAME2##_rn, float, (T2{x, y}))                       \
    SMEMKIT_FUNCTION_1(T2, __float2##NAME2##_rn, float, (T2{x, x}))                        \
    SMEMKIT_FUNCTION_1(T2, __float22##NAME2##_rn, float2, (T2{x.x, x.y}))                  \
    SMEMKIT_FUNCTION_1(float2, __##NAME2##2float2, T2, (float2{x.x.value(), x.y.value()})) \
    SMEMKIT_FUNCTION_1(T2, __##NAME##2##NAME2, T, (T2{x, x}))                              \
    SMEMKIT_FUNCTION_1(T2, __low2##NAME2, T2, (T2{x.x, x.x}))                              \
    SMEMKIT_FUNCTION_1(T2, __high2##NAME2, T2, (T2{x.y, x.y}))                             \
    SMEMKIT_FUNCTION_2(T2, __halves2##NAME2, T, (T2{x, y}))                                \
    SMEMKIT_FUNCTION_2(T2, __lows2##NAME2, T2, (T2{x.x, y.x}))                             \
    SMEMKIT_FUNCTION_2(T2, __highs2##NAME2, T2, (T2{x.y, y.y}))

namespace smemkit
{

template <class T>
struct format_of;
template <class Format>
struct format_of<narrow<Format>> : Format {
};

/* The neighbour of x rounded to nearest, if that is on the wrong side of x */
template <class T, class Wide>
SMEMKIT_INLINE T directed(Wide x, bool not_below, bool not_above)
{
    T near = x;
    if (not_below && near.value() < x)
        near.bits =
            (uint16_t)(near.bits == 0 || near.bits >> 15 ? near.bits == 0 ? 1 : near.bits - 1 : near.bits + 1);
    else if (not_above && near.value() > x)
        near.bits = (uint16_t)(near.bits == 0 ? 0x8001 : near.bits >> 15 ? near.bits + 1 : near.bits - 1);
    return near;
}

} // namespace smemkit

#endif
