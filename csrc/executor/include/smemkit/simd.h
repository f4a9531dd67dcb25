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

#endif
