/* The SIMD intrinsics, on four bytes or two halves of a word: __vadd4, __vabsdiffu2, __vcmpgts4, … (CUDA Math API)
 */
#ifndef SMEMKIT_SIMD_H
#define SMEMKIT_SIMD_H

namespace smemkit
{

/* Applies `call` to the lanes of words, each extended to int, and keeps the low bits of its results. */
template <class Lane, class Call>
SMEMKIT_INLINE unsigned each_lane(unsigned x, unsigned y, Call call)
{
    constexpr int width = 8 * (int)sizeof(Lane);
    constexpr unsigned mask = (1u << width) - 1;
    unsigned result = 0;
    for (int i = 0; i < 32; i += width)
        result |= ((unsigned)call((int)(Lane)(x >> i), (int)(Lane)(y >> i)) & mask) << i;
    return result;
}
template <class Lane>
SMEMKIT_INLINE int clamp_lane(int x)
{
    constexpr int least = std::numeric_limits<Lane>::min(), most = std::numeric_limits<Lane>::max();
    return x < least ? least : x > most ? most : x;
}

} // namespace smemkit

#define SMEMKIT_SIMD_1(name, lane, expression)                                                              \
    SMEMKIT_INLINE unsigned name(unsigned x)                                                                \
    {                                                                                                       \
        return smemkit::each_lane<lane>(x, 0, [](int a, int) SMEMKIT_UNSEEN -> int { return expression; }); \
    }
#define SMEMKIT_SIMD_2(name, lane, expression)                                                                \
    SMEMKIT_INLINE unsigned name(unsigned x, unsigned y)                                                      \
    {                                                                                                         \
        return smemkit::each_lane<lane>(x, y, [](int a, int b) SMEMKIT_UNSEEN -> int { return expression; }); \
    }
#define SMEMKIT_SIMD_COMPARE(condition, lane, op, suffix)            \
    SMEMKIT_SIMD_2(__vcmp##condition##suffix, lane, a op b ? -1 : 0) \
    SMEMKIT_SIMD_2(__vset##condition##suffix, lane, a op b ? 1 : 0)
#define SMEMKIT_SIMD(n, signed_lane, unsigned_lane)                                            \
    SMEMKIT_SIMD_1(__vneg##n, signed_lane, -a)                                                 \
    SMEMKIT_SIMD_1(__vnegss##n, signed_lane, smemkit::clamp_lane<signed_lane>(-a))             \
    SMEMKIT_SIMD_1(__vabs##n, signed_lane, a < 0 ? -a : a)                                     \
    SMEMKIT_SIMD_1(__vabsss##n, signed_lane, smemkit::clamp_lane<signed_lane>(a < 0 ? -a : a)) \
    SMEMKIT_SIMD_2(__vadd##n, unsigned_lane, a + b)                                            \
    SMEMKIT_SIMD_2(__vaddss##n, signed_lane, smemkit::clamp_lane<signed_lane>(a + b))          \
    SMEMKIT_SIMD_2(__vaddus##n, unsigned_lane, smemkit::clamp_lane<unsigned_lane>(a + b))      \
    SMEMKIT_SIMD_2(__vsub##n, unsigned_lane, a - b)                                            \
    SMEMKIT_SIMD_2(__vsubss##n, signed_lane, smemkit::clamp_lane<signed_lane>(a - b))          \
    SMEMKIT_SIMD_2(__vsubus##n, unsigned_lane, smemkit::clamp_lane<unsigned_lane>(a - b))      \
    SMEMKIT_SIMD_2(__vabsdiffs##n, signed_lane, a < b ? b - a : a - b)                         \
    SMEMKIT_SIMD_2(__vabsdiffu##n, unsigned_lane, a < b ? b - a : a - b)                       \
    SMEMKIT_SIMD_2(__vavgs##n, signed_lane, (a + b + (a + b >= 0)) >> 1)                       \
    SMEMKIT_SIMD_2(__vavgu##n, unsigned_lane, (a + b + 1) >> 1)                                \
    SMEMKIT_SIMD_2(__vhaddu##n, unsigned_lane, (a + b) >> 1)                                   \
    SMEMKIT_SIMD_2(__vmaxs##n, signed_lane, a < b ? b : a)                                     \
    SMEMKIT_SIMD_2(__vmaxu##n, unsigned_lane, a < b ? b : a)                                   \
    SMEMKIT_SIMD_2(__vmins##n, signed_lane, b < a ? b : a)                                     \
    SMEMKIT_SIMD_2(__vminu##n, unsigned_lane, b < a ? b : a)                                   \
    SMEMKIT_SIMD_COMPARE(eq, unsigned_lane, ==, n)                                             \
    SMEMKIT_SIMD_COMPARE(ne, unsigned_lane, !=, n)                                             \
    SMEMKIT_SIMD_COMPARE(gts, signed_lane, >, n)                                               \
    SMEMKIT_SIMD_COMPARE(gtu, unsigned_lane, >, n)                                             \
    SMEMKIT_SIMD_COMPARE(ges, signed_lane, >=, n)                                              \
    SMEMKIT_SIMD_COMPARE(geu, unsigned_lane, >=, n)                                            \
    SMEMKIT_SIMD_COMPARE(lts, signed_lane, <, n)                                               \
    SMEMKIT_SIMD_COMPARE(ltu, unsigned_lane, <, n)                                             \
    SMEMKIT_SIMD_COMPARE(les, signed_lane, <=, n)                                              \
    SMEMKIT_SIMD_COMPARE(leu, unsigned_lane, <=, n)                                            \
    SMEMKIT_SIMD_SUM(__vsads##n, signed_lane)                                                  \
    SMEMKIT_SIMD_SUM(__vsadu##n, unsigned_lane)
/* the sum of absolute differences */
#define SMEMKIT_SIMD_SUM(name, lane)                                             \
    SMEMKIT_INLINE unsigned name(unsigned x, unsigned y)                         \
    {                                                                            \
        unsigned sum = 0;                                                        \
        smemkit::each_lane<lane>(x, y, [&](int a, int b) SMEMKIT_UNSEEN -> int { \
            sum += (unsigned)(a < b ? b - a : a - b);                            \
            return 0;                                                            \
        });                                                                      \
        return sum;                                                              \
    }
SMEMKIT_SIMD(2, short, unsigned short)
SMEMKIT_SIMD(4, signed char, unsigned char)
#undef SMEMKIT_SIMD
#undef SMEMKIT_SIMD_1
#undef SMEMKIT_SIMD_2
#undef SMEMKIT_SIMD_COMPARE
#undef SMEMKIT_SIMD_SUM

/* The functions for dynamic programming: maxima and minima of two or three numbers, of a sum and a number, with
 * relu not below 0, and of the two halves of a word. Those with __vib… tell which of both they chose. */
namespace smemkit
{

template <class T>
SMEMKIT_INLINE T extreme(T a, T b, bool greatest)
{
    return (a < b) == greatest ? b : a;
}
template <class Call>
SMEMKIT_INLINE unsigned each_half(unsigned a, unsigned b, unsigned c, Call call)
{
    const unsigned low = (unsigned)call(a, b, c) & 0xffff;
    return low | (unsigned)call(a >> 16, b >> 16, c >> 16) << 16;
}

} // namespace smemkit

#define SMEMKIT_DPX(name, suffix, type, most, least)                                                          \
    SMEMKIT_FUNCTION_3(type, name##3_##suffix, type, smemkit::extreme(smemkit::extreme(x, y, most), z, most)) \
    SMEMKIT_FUNCTION_3(type, __viadd##least##_##suffix, type,                                                 \
                       smemkit::extreme((type)((unsigned)x + (unsigned)y), z, most))                          \
    SMEMKIT_INLINE type __vib##least##_##suffix(type x, type y, bool *first)                                  \
    {                                                                                                         \
        smemkit::writes(first, sizeof *first, SMEMKIT_PC);                                                    \
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

#define SMEMKIT_DPX_HALVES(name, suffix, lane, most, floor)                                                \
    SMEMKIT_FUNCTION_3(unsigned, __vi##name##3_##suffix, unsigned,                                         \
                       smemkit::each_half(x, y, z, [](unsigned a, unsigned b, unsigned c) SMEMKIT_UNSEEN { \
                           return floor(                                                                   \
                               smemkit::extreme(smemkit::extreme((lane)a, (lane)b, most), (lane)c, most)); \
                       }))                                                                                 \
    SMEMKIT_FUNCTION_3(unsigned, __viadd##name##_##suffix, unsigned,                                       \
                       smemkit::each_half(x, y, z, [](unsigned a, unsigned b, unsigned c) SMEMKIT_UNSEEN { \
                           return floor(smemkit::extreme((lane)(a + b), (lane)c, most));                   \
                       }))
#define SMEMKIT_NOT_NEGATIVE(x) max(0, (int)(x))
SMEMKIT_DPX_HALVES(max, s16x2, short, true, )
SMEMKIT_DPX_HALVES(min, s16x2, short, false, )
SMEMKIT_DPX_HALVES(max, u16x2, unsigned short, true, )
SMEMKIT_DPX_HALVES(min, u16x2, unsigned short, false, )
SMEMKIT_DPX_HALVES(max, s16x2_relu, short, true, SMEMKIT_NOT_NEGATIVE)
SMEMKIT_DPX_HALVES(min, s16x2_relu, short, false, SMEMKIT_NOT_NEGATIVE)
#undef SMEMKIT_DPX_HALVES
SMEMKIT_FUNCTION_2(unsigned, __vimax_s16x2_relu, unsigned, __vimax3_s16x2_relu(x, y, y))
SMEMKIT_FUNCTION_2(unsigned, __vimin_s16x2_relu, unsigned, __vimin3_s16x2_relu(x, y, y))
#undef SMEMKIT_NOT_NEGATIVE

#define SMEMKIT_DPX_CHOICE(name, suffix, lane, most)                                              \
    SMEMKIT_INLINE unsigned __vib##name##_##suffix(unsigned x, unsigned y, bool *high, bool *low) \
    {                                                                                             \
        smemkit::writes(high, sizeof *high, SMEMKIT_PC);                                          \
        smemkit::writes(low, sizeof *low, SMEMKIT_PC);                                            \
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
