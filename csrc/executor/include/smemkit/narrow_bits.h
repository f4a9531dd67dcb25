/* Conversions between float32 and the bits of the 16-bit floating-point types: for the dialect's __half and
 * __nv_bfloat16, and for C on the host, whose compilers may lack _Float16. Rounds to nearest, ties to even; in C++
 * everything is in namespace smemkit. */
#ifndef SMEMKIT_NARROW_BITS_H
#define SMEMKIT_NARROW_BITS_H

#include <stdint.h>
#include <string.h>

#ifndef SMEMKIT_INLINE /* in C */
#define SMEMKIT_INLINE static inline
#endif

#ifdef __cplusplus
namespace smemkit
{
#endif

SMEMKIT_INLINE uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

SMEMKIT_INLINE float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE binary16: 5 bits of exponent, 10 of fraction */
SMEMKIT_INLINE float float16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, x = (uint32_t)(bits & 0x7fff) << 13;

    if (x >= 0x0f800000) /* infinity, NaN */
        return float_of_bits(sign | 0x7f800000 | x);
    return float_of_bits(sign | bits_of_float(float_of_bits(x) * 0x1p112f));
}

SMEMKIT_INLINE uint16_t float16_from_float(float value)
{
    const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000;
    uint32_t x = bits & 0x7fffffff;

    if (x > 0x7f800000)
        return 0x7fff; /* NaN, CUDA's */
    if (x >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
    if (x < 0x38800000)                   /* below 2^-14: subnormals, in steps of the unit of 0.5 */
        x = bits_of_float(float_of_bits(x) + 0.5f) - bits_of_float(0.5f);
    else
        x = (x + 0xfff + (x >> 13 & 1) - 0x38000000) >> 13;
    return (uint16_t)(sign | x);
}

/* bfloat16: the upper half of a float32 */
SMEMKIT_INLINE float bfloat16_to_float(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

SMEMKIT_INLINE uint16_t bfloat16_from_float(float value)
{
    const uint32_t bits = bits_of_float(value);

    return value != value ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounds to odd: the float that equals `value`, or the neighbouring float whose last bit is 1. Rounding that to 16
 * bits gives what rounding `value` directly would have given. A long double holds every double and every 64-bit
 * integer. */
SMEMKIT_INLINE float round_to_odd(long double value)
{
    const float near = (float)value;
    const long double back = near;
    uint32_t bits = bits_of_float(near);

    if (back == value || value != value)
        return near;
    if ((value > 0) == (back > value)) /* rounded away from zero, perhaps to infinity */
        bits--;
    return float_of_bits(bits | 1);
}

#ifdef __cplusplus
}
#endif

#endif
