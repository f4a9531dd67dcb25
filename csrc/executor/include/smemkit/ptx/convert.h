/* cvt of PTX: between integers and floating point, in every rounding, and to the narrow formats. */
#ifndef SMEMKIT_PTX_CONVERT_H
#define SMEMKIT_PTX_CONVERT_H

#include "registers.h"

namespace smemkit
{

/* rn nearest, ties to even · rna nearest, ties away · rz, rm, rp to zero, down, up; the same to an integer: …i */
enum ptx_cvt_rounding { ptx_cvt_exact, ptx_cvt_rn, ptx_cvt_rna, ptx_cvt_rz, ptx_cvt_rm, ptx_cvt_rp };

/* x as a whole number */
SMEMKIT_INLINE long double ptx_whole(long double x, ptx_cvt_rounding mode)
{
    switch (mode) {
    case ptx_cvt_rz:
        return truncl(x);
    case ptx_cvt_rm:
        return floorl(x);
    case ptx_cvt_rp:
        return ceill(x);
    case ptx_cvt_rna:
        return roundl(x);
    default:
        return nearbyintl(x);
    }
}

/* x rounded to a format of `digits` binary digits, whose smallest normal number is 2^least */
SMEMKIT_INLINE long double ptx_round_to(long double x, int digits, int least, ptx_cvt_rounding mode)
{
    int exponent;
    if (x == 0 || !std::isfinite(x))
        return x;
    frexpl(x, &exponent);
    const int unit = (exponent - 1 > least ? exponent - 1 : least) - (digits - 1);
    return std::copysign(ldexpl(ptx_whole(ldexpl(x, -unit), mode), unit), x);
}

template <class T>
constexpr bool ptx_is_half = std::is_same_v<T, ptx_f16> || std::is_same_v<T, ptx_bf16>;
template <class T>
constexpr bool ptx_is_float = ptx_is_half<T> || std::is_floating_point_v<T>;

/* A finite x beyond the largest number becomes infinity, or that number where the rounding is towards zero. */
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_float_bits(long double x, ptx_cvt_rounding mode)
{
    if (x != x)
        return (ptx_bits<T>)(sizeof(ptx_bits<T>) == 2 ? 0x7fff : sizeof(T) == 4 ? 0x7fffffff : 0xfff8000000000000);
    constexpr bool f16 = std::is_same_v<T, ptx_f16>, bf16 = std::is_same_v<T, ptx_bf16>,
                   f32 = std::is_same_v<T, float>;
    constexpr int digits = f16 ? 11 : bf16 ? 8 : f32 ? 24 : 53, least = f16 ? -14 : bf16 || f32 ? -126 : -1022;
    const long double most = f16 ? 65504.0L : bf16 ? 0x1.fep127L : f32 ? FLT_MAX : (long double)DBL_MAX;
    const bool inwards = mode == ptx_cvt_rz || (mode == ptx_cvt_rm && x > 0) || (mode == ptx_cvt_rp && x < 0);
    long double near = ptx_round_to(x, digits, least, mode);
    if (std::isfinite(x) && std::fabs(near) > most)
        near = std::copysign(inwards ? most : (long double)INFINITY, x);
    if constexpr (ptx_is_half<T>)
        return T::to((float)near);
    else
        return ptx_to_bits((T)near);
}

/* to an integer: out of range is the nearest one, NaN is 0 */
template <class T>
SMEMKIT_INLINE T ptx_to_integer(long double whole)
{
    if (whole != whole)
        return 0;
    const long double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    return whole <= least  ? std::numeric_limits<T>::min()
           : whole >= most ? std::numeric_limits<T>::max()
                           : (T)whole;
}

template <class To, class From, int Mode, bool Saturate, bool Flush>
SMEMKIT_INLINE uint64_t ptx_convert(uint64_t bits)
{
    constexpr ptx_cvt_rounding mode = (ptx_cvt_rounding)(Mode & 7);
    constexpr bool whole = Mode & 8;
    auto x = ptx_value<From>(bits);
    if constexpr (!ptx_is_float<From> && !ptx_is_float<To>) {
        static_assert(mode == ptx_cvt_exact, "a conversion between integers has no rounding");
        if constexpr (Saturate) {
            const __int128 least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
            return (uint64_t)(int64_t)(To)(x < least ? least : x > most ? most : (__int128)x);
        }
        return (uint64_t)(int64_t)(To)x;
    } else if constexpr (!ptx_is_float<To>) {
        static_assert(whole, "a conversion to an integer needs one of .rni .rzi .rmi .rpi");
        const bool flushed = Flush && std::fpclassify(x) == FP_SUBNORMAL;
        return (uint64_t)(int64_t)ptx_to_integer<To>(flushed ? 0 : ptx_whole(x, mode));
    } else {
        static_assert(ptx_is_float<From> || (mode != ptx_cvt_exact && !whole),
                      "a conversion from an integer needs one of .rn .rz .rm .rp");
        long double exact = (long double)x;
        if (Flush && std::fabs(exact) < FLT_MIN)
            exact = std::copysign(0.0L, exact);
        if (whole)
            exact = std::copysign(ptx_whole(exact, mode), exact);
        if (Saturate)
            exact = exact > 1 ? 1 : exact > 0 ? exact : 0;
        return ptx_float_bits<To>(exact, mode == ptx_cvt_exact ? ptx_cvt_rn : mode);
    }
}
enum ptx_cvt_mode {
    ptx_exact = ptx_cvt_exact,
    ptx_to_rn = ptx_cvt_rn,
    ptx_to_rna = ptx_cvt_rna,
    ptx_to_rz = ptx_cvt_rz,
    ptx_to_rm = ptx_cvt_rm,
    ptx_to_rp = ptx_cvt_rp,
    ptx_to_rni = ptx_cvt_rn | 8,
    ptx_to_rzi = ptx_cvt_rz | 8,
    ptx_to_rmi = ptx_cvt_rm | 8,
    ptx_to_rpi = ptx_cvt_rp | 8,
    ptx_to_exact = ptx_cvt_exact
};

/* 10 bits of fraction in a float32 */
template <int Mode, bool Relu>
SMEMKIT_INLINE uint32_t ptx_to_tf32(uint64_t bits)
{
    const float x = ptx_value<float>(bits);
    if (Relu && x < 0)
        return 0;
    return x != x ? 0x7fffffff : bits_of_float((float)ptx_round_to(x, 11, -126, (ptx_cvt_rounding)Mode));
}
template <class To, int Mode, bool Relu, bool Finite>
SMEMKIT_INLINE uint16_t ptx_narrowed(uint64_t bits)
{
    float x = ptx_value<float>(bits);
    const float most = std::is_same_v<To, ptx_f16> ? 65504.0f : 0x1.fep127f;
    if (Relu && !(x > 0))
        x = x != x ? x : 0;
    if (Finite && std::fabs(x) > most)
        x = std::copysign(most, x);
    return ptx_float_bits<To>(x, (ptx_cvt_rounding)Mode);
}
/* a is the upper half */
template <class To, int Mode, bool Relu, bool Finite>
SMEMKIT_INLINE uint32_t ptx_narrowed_pair(uint64_t a, uint64_t b)
{
    using half = typename To::half;
    return ptx_narrowed<half, Mode, Relu, Finite>(b) | (uint32_t)ptx_narrowed<half, Mode, Relu, Finite>(a) << 16;
}

/* The formats of 8 bits: e4m3 has no infinity and 448 as its largest number, e5m2 is IEEE's and has 57344. */
struct ptx_e4m3x2 {
    static constexpr int fraction = 3, bias = 7, nan = 0x7f;
    static constexpr float most = 448;
};
struct ptx_e5m2x2 {
    static constexpr int fraction = 2, bias = 15, nan = 0x7f;
    static constexpr float most = 57344;
};
template <class To, bool Relu>
SMEMKIT_INLINE uint32_t ptx_to_byte(float x)
{
    if (x != x)
        return To::nan;
    if (Relu && x < 0)
        x = 0;
    const uint32_t sign = std::signbit(x) ? 0x80 : 0;
    float near = (float)ptx_round_to(std::fabs(x), To::fraction + 1, 1 - To::bias, ptx_cvt_rn);
    near = near > To::most ? To::most : near;
    int exponent;
    frexpf(near, &exponent);
    if (near < std::ldexp(1.0f, 1 - To::bias)) /* subnormal */
        return sign | (uint32_t)std::ldexp(near, To::bias - 1 + To::fraction);
    return sign | ((uint32_t)(exponent - 1 + To::bias - 1) << To::fraction) +
                      (uint32_t)std::ldexp(near, To::fraction + 1 - exponent);
}
template <class To, bool Relu>
SMEMKIT_INLINE uint32_t ptx_to_bytes(float high, float low)
{
    return ptx_to_byte<To, Relu>(high) << 8 | ptx_to_byte<To, Relu>(low);
}
template <class From, bool Relu>
SMEMKIT_INLINE uint32_t ptx_from_byte(uint32_t bits)
{
    const int exponent = (int)(bits & 0x7f) >> From::fraction, fraction = (int)bits & ((1 << From::fraction) - 1);
    float x = std::ldexp((float)fraction, 1 - From::bias - From::fraction);
    if (exponent)
        x = std::ldexp((float)(fraction | 1 << From::fraction), exponent - From::bias - From::fraction);
    const bool wide = From::fraction == 2 && exponent == 31;
    if (wide ? fraction != 0 : From::fraction == 3 && (bits & 0x7f) == From::nan)
        return 0x7fff;
    if (wide)
        x = INFINITY;
    x = bits & 0x80 ? -x : x;
    return float16_from_float(Relu && x < 0 ? 0 : x);
}
template <class From, bool Relu>
SMEMKIT_INLINE uint32_t ptx_from_bytes(uint64_t bits)
{
    return ptx_from_byte<From, Relu>(bits & 255) | ptx_from_byte<From, Relu>(bits >> 8 & 255) << 16;
}

/* cvt.pack: a and b saturated, a in the upper half; with 8 bits c moves up by 16 */
template <class To>
SMEMKIT_INLINE uint32_t ptx_packed_integers(uint64_t a, uint64_t b, uint64_t c)
{
    constexpr int width = 8 * sizeof(To);
    constexpr uint32_t mask = (1u << width) - 1;
    const uint32_t pair = ((uint32_t)ptx_saturated<To>((int32_t)a) & mask) << width |
                          ((uint32_t)ptx_saturated<To>((int32_t)b) & mask);
    return width == 8 ? (uint32_t)c << 16 | pair : pair;
}

} // namespace smemkit

#endif
