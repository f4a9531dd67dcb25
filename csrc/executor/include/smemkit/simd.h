/* The SIMD intrinsics, on four bytes or two halves of a word: __vadd4, __vabsdiffu2, __vcmpgts4, … (CUDA Math API)
 */
#ifndef SMEMKIT_SIMD_H
#define SMEMKIT_SIMD_H

/* The word of the results of `expression` for a, b and c, the lanes of words, each extended to int. A macro: a
 * template would be instantiated for every kernel, even from a precompiled header. */
#define SMEMKIT_EACH_LANE(lane, x, y, z, expression)                                               \
    constexpr int width = 8 * (int)sizeof(lane);                                                   \
    unsigned result = 0;                                                                           \
    for (int at = 0; at < 32; at += width) {                                                       \
        const int a = (lane)(x >> at), b = (lane)(y >> at), c = (lane)(z >> at);                   \
        (void)a, (void)b, (void)c, result |= ((unsigned)(expression) & ~0u >> (32 - width)) << at; \
    }                                                                                              \
    return result;
#define SMEMKIT_SATURATED(lane, x) \
    smemkit::clamp(x, std::numeric_limits<lane>::min(), std::numeric_limits<lane>::max())

namespace smemkit
{

SMEMKIT_INLINE int clamp(int x, int least, int most)
{
    return x < least ? least : x > most ? most : x;
}

} // namespace smemkit

#define SMEMKIT_SIMD_1(name, lane, expression)         \
    SMEMKIT_INLINE unsigned name(unsigned x)           \
    {                                                  \
        SMEMKIT_EACH_LANE(lane, x, 0u, 0u, expression) \
    }
#define SMEMKIT_SIMD_2(name, lane, expression)           \
    SMEMKIT_INLINE unsigned name(unsigned x, unsigned y) \
    {                                                    \
        SMEMKIT_EACH_LANE(lane, x, y, 0u, expression)    \
    }
#define SMEMKIT_SIMD_3(name, lane, expression)                       \
    SMEMKIT_INLINE unsigned name(unsigned x, unsigned y, unsigned z) \
    {                                                                \
        SMEMKIT_EACH_LANE(lane, x, y, z, expression)                 \
    }
#define SMEMKIT_SIMD_COMPARE(condition, lane, op, suffix)            \
    SMEMKIT_SIMD_2(__vcmp##condition##suffix, lane, a op b ? -1 : 0) \
    SMEMKIT_SIMD_2(__vset##condition##suffix, lane, a op b ? 1 : 0)
#define SMEMKIT_SIMD(n, signed_lane, unsigned_lane)                                          \
    SMEMKIT_SIMD_1(__vneg##n, signed_lane, -a)                                               \
    SMEMKIT_SIMD_1(__vnegss##n, signed_lane, SMEMKIT_SATURATED(signed_lane, -a))             \
    SMEMKIT_SIMD_1(__vabs##n, signed_lane, a < 0 ? -a : a)                                   \
    SMEMKIT_SIMD_1(__vabsss##n, signed_lane, SMEMKIT_SATURATED(signed_lane, a < 0 ? -a : a)) \
    SMEMKIT_SIMD_2(__vadd##n, unsigned_lane, a + b)                                          \
    SMEMKIT_SIMD_2(__vaddss##n, signed_lane, SMEMKIT_SATURATED(signed_lane, a + b))          \
    SMEMKIT_SIMD_2(__vaddus##n, unsigned_lane, SMEMKIT_SATURATED(unsigned_lane, a + b))      \
    SMEMKIT_SIMD_2(__vsub##n, unsigned_lane, a - b)                                          \
    SMEMKIT_SIMD_2(__vsubss##n, signed_lane, SMEMKIT_SATURATED(signed_lane, a - b))          \
    SMEMKIT_SIMD_2(__vsubus##n, unsigned_lane, SMEMKIT_SATURATED(unsigned_lane, a - b))      \
    SMEMKIT_SIMD_2(__vabsdiffs##n, signed_lane, a < b ? b - a : a - b)                       \
    SMEMKIT_SIMD_2(__vabsdiffu##n, unsigned_lane, a < b ? b - a : a - b)                     \
    SMEMKIT_SIMD_2(__vavgs##n, signed_lane, (a + b + (a + b >= 0)) >> 1)                     \
    SMEMKIT_SIMD_2(__vavgu##n, unsigned_lane, (a + b + 1) >> 1)                              \
    SMEMKIT_SIMD_2(__vhaddu##n, unsigned_lane, (a + b) >> 1)                                 \
    SMEMKIT_SIMD_2(__vmaxs##n, signed_lane, a < b ? b : a)                                   \
    SMEMKIT_SIMD_2(__vmaxu##n, unsigned_lane, a < b ? b : a)                                 \
    SMEMKIT_SIMD_2(__vmins##n, signed_lane, b < a ? b : a)                                   \
    SMEMKIT_SIMD_2(__vminu##n, unsigned_lane, b < a ? b : a)                                 \
    SMEMKIT_SIMD_COMPARE(eq, unsigned_lane, ==, n)                                           \
    SMEMKIT_SIMD_COMPARE(ne, unsigned_lane, !=, n)                                           \
    SMEMKIT_SIMD_COMPARE(gts, signed_lane, >, n)                                             \
    SMEMKIT_SIMD_COMPARE(gtu, unsigned_lane, >, n)                                           \
    SMEMKIT_SIMD_COMPARE(ges, signed_lane, >=, n)                                            \
    SMEMKIT_SIMD_COMPARE(geu, unsigned_lane, >=, n)                                          \
    SMEMKIT_SIMD_COMPARE(lts, signed_lane, <, n)                                             \
    SMEMKIT_SIMD_COMPARE(ltu, unsigned_lane, <, n)                                           \
    SMEMKIT_SIMD_COMPARE(les, signed_lane, <=, n)                                            \
    SMEMKIT_SIMD_COMPARE(leu, unsigned_lane, <=, n)                                          \
    SMEMKIT_SIMD_SUM(__vsads##n, signed_lane)                                                \
    SMEMKIT_SIMD_SUM(__vsadu##n, unsigned_lane)
/* the sum of absolute differences */
#define SMEMKIT_SIMD_SUM(name, lane)                             \
    SMEMKIT_INLINE unsigned name(unsigned x, unsigned y)         \
    {                                                            \
        unsigned sum = 0;                                        \
        for (int at = 0; at < 32; at += 8 * (int)sizeof(lane)) { \
            const int a = (lane)(x >> at), b = (lane)(y >> at);  \
            sum += (unsigned)(a < b ? b - a : a - b);            \
        }                                                        \
        return sum;                                              \
    }
SMEMKIT_SIMD(2, short, unsigned short)
SMEMKIT_SIMD(4, signed char, unsigned char)
#undef SMEMKIT_SIMD
#undef SMEMKIT_SIMD_1
#undef SMEMKIT_SIMD_2
#undef SMEMKIT_SIMD_COMPARE
#undef SMEMKIT_SIMD_SUM
#undef SMEMKIT_SATURATED

/* The functions for dynamic programming: maxima and minima of two or three numbers, of a sum and a number, with
 * relu not below 0, and of the two halves of a word. Those with __vib… report which of the two they chose. */
namespace smemkit
{

template <class T>
SMEMKIT_INLINE T extreme(T a, T b, bool greatest)
{
    return (a < b) == greatest ? b : a;
}

} // namespace smemkit

#define SMEMKIT_DPX(name, suffix, type, most, least)                                                          \
    SMEMKIT_FUNCTION_3(type, name##3_##suffix, type, smemkit::extreme(smemkit::extreme(x, y, most), z, most)) \
    SMEMKIT_FUNCTION_3(type, __viadd##least##_##suffix, type,                                                 \
                       smemkit::extreme((type)((unsigned)x + (unsigned)y), z, most))                          \
    SMEMKIT_INLINE type __vib##least##_##suffix(type x, type y, bool *first)                                  \
    {                                                                                                         \
        smemkit::report_write(first, sizeof *first, SMEMKIT_PC);                                              \
        *first = most ? x >= y : x <= y;                                                                      \
        return *first ? x : y;                                                                                \
    }
SMEMKIT_DPX(__vimax, s32, int, true, max)
SMEMKIT_DPX(__vimin, s32, int, false, min)
SMEMKIT_DPX(__vimax, u32, unsigned, true, max)
SMEMKIT_DPX(__vimin, u32, unsigned, false, min)
#undef SMEMKIT_DPX

#define SMEMKIT_DPX_RELU(name, most)                                                          \
    SMEMKIT_FUNCTION_2(int, __vi##name##_s32_relu, int, max(0, smemkit::extreme(x, y, most))) \
    SMEMKIT_FUNCTION_3(int, __vi##name##3_s32_relu, int, max(0, __vi##name##3_s32(x, y, z)))  \
    SMEMKIT_FUNCTION_3(int, __viadd##name##_s32_relu, int, max(0, __viadd##name##_s32(x, y, z)))
SMEMKIT_DPX_RELU(max, true)
SMEMKIT_DPX_RELU(min, false)
#undef SMEMKIT_DPX_RELU

#define SMEMKIT_DPX_HALVES(name, suffix, lane, most, floor)                                                      \
    SMEMKIT_SIMD_3(__vi##name##3_##suffix, lane, floor(smemkit::extreme(smemkit::extreme(a, b, most), c, most))) \
    SMEMKIT_SIMD_3(__viadd##name##_##suffix, lane, floor(smemkit::extreme((int)(lane)(a + b), c, most)))
#define SMEMKIT_NOT_NEGATIVE(x) max(0, x)
SMEMKIT_DPX_HALVES(max, s16x2, short, true, )
SMEMKIT_DPX_HALVES(min, s16x2, short, false, )
SMEMKIT_DPX_HALVES(max, u16x2, unsigned short, true, )
SMEMKIT_DPX_HALVES(min, u16x2, unsigned short, false, )
SMEMKIT_DPX_HALVES(max, s16x2_relu, short, true, SMEMKIT_NOT_NEGATIVE)
SMEMKIT_DPX_HALVES(min, s16x2_relu, short, false, SMEMKIT_NOT_NEGATIVE)
#undef SMEMKIT_DPX_HALVES
#undef SMEMKIT_SIMD_3
#undef SMEMKIT_EACH_LANE
SMEMKIT_FUNCTION_2(unsigned, __vimax_s16x2_relu, unsigned, __vimax3_s16x2_relu(x, y, y))
SMEMKIT_FUNCTION_2(unsigned, __vimin_s16x2_relu, unsigned, __vimin3_s16x2_relu(x, y, y))
#undef SMEMKIT_NOT_NEGATIVE

#define SMEMKIT_DPX_CHOICE(name, suffix, lane, most)                                              \
    SMEMKIT_INLINE unsigned __vib##name##_##suffix(unsigned x, unsigned y, bool *high, bool *low) \
    {                                                                                             \
        smemkit::report_write(high, sizeof *high, SMEMKIT_PC);                                    \
        smemkit::report_write(low, sizeof *low, SMEMKIT_PC);                                      \
        *low = most ? (lane)x >= (lane)y : (lane)x <= (lane)y;                                    \
        *high = most ? (lane)(x >> 16) >= (lane)(y >> 16) : (lane)(x >> 16) <= (lane)(y >> 16);   \
        return ((*low ? x : y) & 0xffff) | ((*high ? x : y) & 0xffff0000u);                       \
    }
SMEMKIT_DPX_CHOICE(max, s16x2, short, true)
SMEMKIT_DPX_CHOICE(min, s16x2, short, false)
SMEMKIT_DPX_CHOICE(max, u16x2, unsigned short, true)
SMEMKIT_DPX_CHOICE(min, u16x2, unsigned short, false)
#undef SMEMKIT_DPX_CHOICE

#endif
