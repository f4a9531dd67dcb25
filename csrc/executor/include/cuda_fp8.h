/* The 8-bit floating-point types of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022) under CUDA's
 * names: E4M3 (no infinity, largest 448) and E5M2 (IEEE, largest 57344), with their vectors of two and four.
 * Conversions round once, to nearest even. Constructors saturate; the functions __nv_cvt_… take the choice. A NaN
 * becomes 0x7f, as by PTX's cvt. */
#ifndef SMEMKIT_CUDA_FP8_H
#define SMEMKIT_CUDA_FP8_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace smemkit
{

struct fp8_format {
    int fraction, bias;      /* bits of the fraction; bias of the exponent */
    unsigned most, overflow; /* the code of the largest finite number, and what larger ones become */
};
template <__nv_fp8_interpretation_t KIND>
constexpr fp8_format fp8_format_of =
    KIND == __NV_E4M3 ? fp8_format{3, 7, 0x7e, 0x7f} : fp8_format{2, 15, 0x7b, 0x7c};

SMEMKIT_INLINE uint8_t fp8_from_float(float value, bool saturates, __nv_fp8_interpretation_t kind)
{
    const fp8_format format = kind == __NV_E4M3 ? fp8_format_of<__NV_E4M3> : fp8_format_of<__NV_E5M2>;
    const uint32_t bits = bits_of_float(value), sign = bits >> 24 & 0x80, x = bits & 0x7fffffff;
    const int dropped = 23 - format.fraction, least_exponent = 128 - format.bias; /* biased as in float */

    if (x > 0x7f800000)
        return 0x7f;
    uint32_t code;
    if (x >> 23 < (uint32_t)least_exponent) { /* subnormal: added to a number whose unit is the subnormals' */
        const float unit = float_of_bits((uint32_t)(least_exponent + dropped) << 23);
        code = bits_of_float(float_of_bits(x) + unit) - bits_of_float(unit);
    } else {
        code = (x + (1u << (dropped - 1)) - 1 + (x >> dropped & 1)) >> dropped;
        code -= (uint32_t)(127 - format.bias) << format.fraction;
    }
    if (code > format.most)
        code = saturates ? format.most : format.overflow;
    return (uint8_t)(sign | code);
}

SMEMKIT_INLINE float fp8_to_float(uint8_t code, __nv_fp8_interpretation_t kind)
{
    if (kind == __NV_E5M2)
        return float16_to_float((uint16_t)(code << 8));
    const uint32_t sign = (uint32_t)(code & 0x80) << 24, x = code & 0x7f;
    if (x == 0x7f)
        return float_of_bits(sign | 0x7fffffff);
    return float_of_bits(sign | bits_of_float(float_of_bits(x << 20) * 0x1p120f));
}

template <class Pair>
SMEMKIT_INLINE float2 floats_of(Pair pair)
{
    return {pair.x.value(), pair.y.value()};
}

/* One number. `__x` is its code, as in CUDA. */
template <__nv_fp8_interpretation_t KIND>
struct fp8 {
    __nv_fp8_storage_t __x;

    fp8() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    SMEMKIT_NO_HOOKS explicit fp8(T value)
        : __x(fp8_from_float(fits_float<T> ? (float)value : round_to_odd(value), true, KIND))
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8(__half value) : fp8(value.value())
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8(__nv_bfloat16 value) : fp8(value.value())
    {
    }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>>
    SMEMKIT_NO_HOOKS explicit operator T() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        const float value = fp8_to_float(__x, KIND);
        if constexpr (std::is_integral_v<T>)
            return saturate<T>(truncf(value));
        else
            return value;
    }
    SMEMKIT_NO_HOOKS explicit operator bool() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return (__x & 0x7f) != 0;
    }
    SMEMKIT_NO_HOOKS explicit operator __half() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return fp8_to_float(__x, KIND);
    }
    SMEMKIT_NO_HOOKS explicit operator __nv_bfloat16() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return fp8_to_float(__x, KIND);
    }
};

/* Two numbers; the low byte is x. */
template <__nv_fp8_interpretation_t KIND>
struct fp8x2 {
    __nv_fp8x2_storage_t __x;

    fp8x2() = default;
    SMEMKIT_NO_HOOKS explicit fp8x2(float2 v)
        : __x((__nv_fp8x2_storage_t)(fp8<KIND>(v.x).__x | fp8<KIND>(v.y).__x << 8))
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8x2(double2 v)
        : __x((__nv_fp8x2_storage_t)(fp8<KIND>(v.x).__x | fp8<KIND>(v.y).__x << 8))
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8x2(__half2 v) : fp8x2(floats_of(v))
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8x2(__nv_bfloat162 v) : fp8x2(floats_of(v))
    {
    }
    SMEMKIT_NO_HOOKS explicit operator float2() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return {fp8_to_float((uint8_t)__x, KIND), fp8_to_float((uint8_t)(__x >> 8), KIND)};
    }
    SMEMKIT_NO_HOOKS explicit operator __half2() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return {fp8_to_float((uint8_t)__x, KIND), fp8_to_float((uint8_t)(__x >> 8), KIND)};
    }
};

/* Four numbers; the lowest byte is x. */
template <__nv_fp8_interpretation_t KIND>
struct fp8x4 {
    __nv_fp8x4_storage_t __x;

    fp8x4() = default;
    SMEMKIT_NO_HOOKS explicit fp8x4(float4 v)
        : __x(fp8x2<KIND>(float2{v.x, v.y}).__x | (unsigned)fp8x2<KIND>(float2{v.z, v.w}).__x << 16)
    {
    }
    template <class V, class = std::enable_if_t<sizeof(V) == 32>> /* double4, of any alignment */
    SMEMKIT_NO_HOOKS explicit fp8x4(V v)
        : __x(fp8x2<KIND>(double2{v.x, v.y}).__x | (unsigned)fp8x2<KIND>(double2{v.z, v.w}).__x << 16)
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8x4(__half2 low, __half2 high)
        : __x(fp8x2<KIND>(low).__x | (unsigned)fp8x2<KIND>(high).__x << 16)
    {
    }
    SMEMKIT_NO_HOOKS explicit fp8x4(__nv_bfloat162 low, __nv_bfloat162 high)
        : __x(fp8x2<KIND>(low).__x | (unsigned)fp8x2<KIND>(high).__x << 16)
    {
    }
    SMEMKIT_NO_HOOKS explicit operator float4() const
    {
        report_read(this, sizeof *this, SMEMKIT_PC);
        return {fp8_to_float((uint8_t)__x, KIND), fp8_to_float((uint8_t)(__x >> 8), KIND),
                fp8_to_float((uint8_t)(__x >> 16), KIND), fp8_to_float((uint8_t)(__x >> 24), KIND)};
    }
};

} // namespace smemkit

typedef smemkit::fp8<__NV_E4M3> __nv_fp8_e4m3;
typedef smemkit::fp8<__NV_E5M2> __nv_fp8_e5m2;
typedef smemkit::fp8x2<__NV_E4M3> __nv_fp8x2_e4m3;
typedef smemkit::fp8x2<__NV_E5M2> __nv_fp8x2_e5m2;
typedef smemkit::fp8x4<__NV_E4M3> __nv_fp8x4_e4m3;
typedef smemkit::fp8x4<__NV_E5M2> __nv_fp8x4_e5m2;

/* from one number, and from two: `value` is a float, or one for each */
#define SMEMKIT_TO_FP8(name, type, value)                                                            \
    SMEMKIT_INLINE __nv_fp8_storage_t __nv_cvt_##name##_to_fp8(type x, __nv_saturation_t saturation, \
                                                               __nv_fp8_interpretation_t kind)       \
    {                                                                                                \
        return smemkit::fp8_from_float(value, saturation == __NV_SATFINITE, kind);                   \
    }
#define SMEMKIT_TO_FP8X2(name, type, one)                                                                \
    SMEMKIT_INLINE __nv_fp8x2_storage_t __nv_cvt_##name##_to_fp8x2(type v, __nv_saturation_t saturation, \
                                                                   __nv_fp8_interpretation_t kind)       \
    {                                                                                                    \
        const int low = __nv_cvt_##one##_to_fp8({v.x}, saturation, kind);                                \
        return (__nv_fp8x2_storage_t)(low | __nv_cvt_##one##_to_fp8({v.y}, saturation, kind) << 8);      \
    }
SMEMKIT_TO_FP8(float, float, x)
SMEMKIT_TO_FP8(double, double, smemkit::round_to_odd(x))
SMEMKIT_TO_FP8(halfraw, __half_raw, smemkit::float16_to_float(x.x))
SMEMKIT_TO_FP8(bfloat16raw, __nv_bfloat16_raw, smemkit::bfloat16_to_float(x.x))
SMEMKIT_TO_FP8X2(float2, float2, float)
SMEMKIT_TO_FP8X2(double2, double2, double)
SMEMKIT_TO_FP8X2(halfraw2, __half2_raw, halfraw)
SMEMKIT_TO_FP8X2(bfloat16raw2, __nv_bfloat162_raw, bfloat16raw)
#undef SMEMKIT_TO_FP8
#undef SMEMKIT_TO_FP8X2

SMEMKIT_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind)
{
    return {smemkit::float16_from_float(smemkit::fp8_to_float(x, kind))};
}
SMEMKIT_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind)
{
    return {__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)x, kind).x,
            __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(x >> 8), kind).x};
}

#endif
