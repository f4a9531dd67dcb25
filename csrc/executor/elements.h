/* The elements of the matrix instructions: numbers in registers and in shared memory, as doubles and back. */
#ifndef SMEMKIT_EXECUTOR_ELEMENTS_H
#define SMEMKIT_EXECUTOR_ELEMENTS_H

#include <stdbool.h>
#include <string.h>

#include "include/smemkit/narrow_bits.h"
#include "ptx.h"

#define INLINE static inline __attribute__((always_inline))

typedef double four_t __attribute__((vector_size(32)));
typedef float four_floats_t __attribute__((vector_size(16)));
typedef int32_t four_words_t __attribute__((vector_size(16)));
typedef uint16_t four_halves_t __attribute__((vector_size(8)));
static inline int bits_of(enum smemkit_element type)
{
    static const int bits[] = {16, 16, 32, 32, 64, 8, 8, 4, 4, 1, 32, 8, 8};

    return bits[type];
}

/* infinity and NaN have all bits of the exponent set */
INLINE four_words_t floats_of_halves(four_words_t bits)
{
    const four_words_t x = (bits & 0x7fff) << 13, special = x >= 0x0f800000;
    const four_words_t number = (four_words_t)((four_floats_t)x * 0x1p112f);

    return (number & ~special) | ((x | 0x7f800000) & special) | (bits & 0x8000) << 16;
}

/* 4 bits of exponent, 3 of fraction; no infinity */
INLINE float e4m3_to_float(uint8_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x80) << 24, x = (uint32_t)(bits & 0x7f) << 20;

    if ((bits & 0x7f) == 0x7f)
        return float_of_bits(sign | 0x7fffffff);
    return float_of_bits(sign | bits_of_float(float_of_bits(x) * 0x1p120f));
}

/* Converts the elements in consecutive registers to numbers, four at a time: most of the time is spent here. */
INLINE void convert(const uint32_t *words, unsigned count, enum smemkit_element type, double *to)
{
    const uint16_t *halves = (const uint16_t *)words;
    const uint8_t *bytes = (const uint8_t *)words;
    four_t four;

#define CONVERT(type, from, bits)                                      \
    for (unsigned i = 0; i < count; i += 4) {                          \
        type raw;                                                      \
                                                                       \
        memcpy(&raw, from + i, sizeof raw);                            \
        four = __builtin_convertvector((four_floats_t)(bits), four_t); \
        memcpy(to + i, &four, sizeof four);                            \
    }                                                                  \
    break
#define EACH(expression)                 \
    for (unsigned i = 0; i < count; i++) \
        to[i] = (double)(expression);    \
    break
    switch (type) {
    case SMEMKIT_F16:
        CONVERT(four_halves_t, halves, floats_of_halves(__builtin_convertvector(raw, four_words_t)));
    case SMEMKIT_BF16:
        CONVERT(four_halves_t, halves, __builtin_convertvector(raw, four_words_t) << 16);
    case SMEMKIT_TF32: /* the last 13 bits are not read */
        CONVERT(four_words_t, words, raw & ~0x1fff);
    case SMEMKIT_F32:
        CONVERT(four_words_t, words, raw);
    case SMEMKIT_F64:
        memcpy(to, words, count * sizeof *to);
        break;
    case SMEMKIT_S8:
        EACH((int8_t)bytes[i]);
    case SMEMKIT_U8:
        EACH(bytes[i]);
    case SMEMKIT_S4:
        EACH((int8_t)((bytes[i / 2] >> i % 2 * 4 & 15) << 4) / 16);
    case SMEMKIT_U4:
        EACH(bytes[i / 2] >> i % 2 * 4 & 15);
    case SMEMKIT_E4M3:
        EACH(e4m3_to_float(bytes[i]));
    case SMEMKIT_E5M2: /* the upper half of a float16 */
        EACH(float16_to_float((uint16_t)(bytes[i] << 8)));
    default:
        EACH((int32_t)words[i]);
    }
#undef CONVERT
#undef EACH
}

INLINE void convert_back(const double *from, unsigned count, enum smemkit_element type, uint32_t *words)
{
    if (type == SMEMKIT_F64)
        memcpy(words, from, count * sizeof *from);
    else if (type == SMEMKIT_F16)
        for (unsigned i = 0; i < count; i += 2)
            words[i / 2] = float16_from_float(round_to_odd(from[i])) |
                           (uint32_t)float16_from_float(round_to_odd(from[i + 1])) << 16;
    else
        for (unsigned i = 0; i < count; i += 4) {
            four_t four;
            four_floats_t near;
            four_words_t bits;

            memcpy(&four, from + i, sizeof four);
            near = __builtin_convertvector(four, four_floats_t);
            bits = near == near;
            bits = ((four_words_t)near & bits) | (0x7fffffff & ~bits); /* CUDA's NaN */
            memcpy(words + i, &bits, sizeof bits);
        }
}

#endif
