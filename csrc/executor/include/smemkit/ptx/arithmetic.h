/* Arithmetic, logic and comparisons of PTX. Functions that approximate on a GPU are rounded to nearest here. */
#ifndef SMEMKIT_PTX_ARITHMETIC_H
#define SMEMKIT_PTX_ARITHMETIC_H

#include <cfenv>

#include "registers.h"

namespace smemkit
{

/* ---- moves ---- */

template <class Whole, unsigned N>
SMEMKIT_INLINE Whole ptx_join(const uint32_t (&part)[N])
{
    constexpr unsigned width = 8 * sizeof(Whole) / N;
    uint64_t whole = 0;
    for (unsigned i = 0; i < N; i++)
        whole |= (part[i] & (~0ull >> (64 - width))) << i * width;
    return (Whole)whole;
}
template <class Whole, unsigned N>
SMEMKIT_INLINE void ptx_split(uint64_t whole, uint32_t (&part)[N])
{
    constexpr unsigned width = 8 * sizeof(Whole) / N;
    for (unsigned i = 0; i < N; i++)
        part[i] = (uint32_t)(whole >> i * width & (~0ull >> (64 - width)));
}

/* ---- integers ---- */

/* a + b and a - b with the carry flag, which `carry` holds */
template <class T, bool In, bool Out>
SMEMKIT_INLINE ptx_bits<T> ptx_add_carry(uint64_t a, uint64_t b, bool &carry)
{
    const unsigned __int128 sum = (unsigned __int128)(ptx_bits<T>)a + (ptx_bits<T>)b + (In && carry);
    if (Out)
        carry = (bool)(sum >> 8 * sizeof(T));
    return (ptx_bits<T>)sum;
}
template <class T, bool In, bool Out>
SMEMKIT_INLINE ptx_bits<T> ptx_sub_borrow(uint64_t a, uint64_t b, bool &carry)
{
    const unsigned __int128 taken = (unsigned __int128)(ptx_bits<T>)b + (In && carry);
    const ptx_bits<T> result = (ptx_bits<T>)((ptx_bits<T>)a - (ptx_bits<T>)taken);
    if (Out)
        carry = taken > (ptx_bits<T>)a;
    return result;
}

template <class T, bool High>
SMEMKIT_INLINE ptx_bits<T> ptx_multiply(uint64_t a, uint64_t b)
{
    const __int128 product = (__int128)(T)a * (T)b; /* its low bits are right for u64, too */
    if constexpr (std::is_same_v<T, uint64_t>)
        return High ? (uint64_t)((unsigned __int128)a * b >> 64) : a * b;
    else
        return (ptx_bits<T>)(High ? product >> 8 * sizeof(T) : product);
}
template <class T>
SMEMKIT_INLINE uint64_t ptx_multiply_wide(uint64_t a, uint64_t b)
{
    return (uint64_t)((int64_t)(T)a * (int64_t)(T)b);
}
template <class T, bool High>
SMEMKIT_INLINE uint32_t ptx_multiply_24(uint64_t a, uint64_t b)
{
    const auto low_24 = [](uint64_t x) SMEMKIT_NO_HOOKS { return (int64_t)((T)((uint32_t)x << 8) >> 8); };
    return (uint32_t)(low_24(a) * low_24(b) >> (High ? 16 : 0));
}
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_absolute_difference(uint64_t a, uint64_t b)
{
    return (ptx_bits<T>)((T)a < (T)b ? b - a : a - b);
}
/* division by zero has no defined result */
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_div(uint64_t a, uint64_t b)
{
    if ((T)b == 0)
        return (ptx_bits<T>)~0ull;
    if (std::is_signed_v<T> && (T)b == (T)-1) /* the least number's quotient wraps */
        return (ptx_bits<T>)(0 - a);
    return (ptx_bits<T>)((T)a / (T)b);
}
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_rem(uint64_t a, uint64_t b)
{
    return (T)b == 0 ? (ptx_bits<T>)a : (T)b == (T)-1 && std::is_signed_v<T> ? 0 : (ptx_bits<T>)((T)a % (T)b);
}
template <class T, bool Max, bool Relu>
SMEMKIT_INLINE ptx_bits<T> ptx_extreme(uint64_t a, uint64_t b)
{
    const T x = (T)a, y = (T)b, result = (x < y) == Max ? y : x;
    return (ptx_bits<T>)(Relu && result < 0 ? 0 : result);
}
struct ptx_abs_op {
    template <class T>
    SMEMKIT_NO_HOOKS T operator()(T x) const
    {
        return (T)(x < 0 ? 0 - x : x);
    }
};
struct ptx_neg_op {
    template <class T>
    SMEMKIT_NO_HOOKS T operator()(T x) const
    {
        return (T)(0 - x);
    }
};

/* ---- bits ---- */

template <class T>
SMEMKIT_INLINE uint32_t ptx_leading_zeros(uint64_t bits)
{
    return (T)bits ? (uint32_t)(__builtin_clzll((T)bits) - (64 - 8 * (int)sizeof(T))) : 8 * sizeof(T);
}
/* the position of the highest bit that differs from the sign; ~0 if there is none */
template <class T, bool Shift>
SMEMKIT_INLINE uint32_t ptx_leading_bit(uint64_t a)
{
    const ptx_bits<T> bits = (ptx_bits<T>)((T)a < 0 ? ~a : a);
    const uint32_t position = bits ? 63 - (uint32_t)__builtin_clzll(bits) : ~0u;
    return Shift && bits ? 8 * (uint32_t)sizeof(T) - 1 - position : position;
}
template <class T>
SMEMKIT_INLINE T ptx_reversed(uint64_t bits)
{
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); i++)
        result |= (T)(bits >> i & 1) << (8 * sizeof(T) - 1 - i);
    return result;
}
/* PTX ISA, bfe: a signed field is extended by its highest bit, or the word's */
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_extract_field(uint64_t bits, uint64_t at, uint64_t count)
{
    constexpr unsigned width = 8 * sizeof(T);
    const unsigned start = at & 255, length = count & 255;
    const unsigned last = start + length - 1 < width - 1 ? start + length - 1 : width - 1;
    const bool sign = std::is_signed_v<T> && length && (bits >> last & 1);
    const uint64_t field = start < width ? (uint64_t)(ptx_bits<T>)bits >> start : 0;
    const unsigned kept = start + length > width ? (start < width ? width - start : 0) : length;
    const uint64_t mask = kept >= 64 ? ~0ull : (1ull << kept) - 1;
    return (ptx_bits<T>)((field & mask) | (sign ? ~mask : 0));
}
/* bfi: the lowest bits of a replace a field of b */
template <class T>
SMEMKIT_INLINE T ptx_insert_field(uint64_t a, uint64_t b, uint64_t at, uint64_t count)
{
    const unsigned start = at & 255, length = count & 255;
    if (start >= 8 * sizeof(T))
        return (T)b;
    const uint64_t mask = (length >= 64 ? ~0ull : (1ull << length) - 1) << start;
    return (T)((b & ~mask) | (a << start & mask));
}
SMEMKIT_INLINE uint32_t ptx_bit_mask(uint64_t at, uint64_t count, bool wrap)
{
    const uint32_t start = (uint32_t)at, length = (uint32_t)count;
    const uint32_t from = wrap         ? start & 31
                          : start < 32 ? start
                                       : 32,
                   bits = wrap          ? length & 31
                          : length < 32 ? length
                                        : 32;
    return (uint32_t)(((1ull << bits) - 1) << from);
}
template <class T>
SMEMKIT_INLINE T ptx_shift_left(uint64_t a, uint64_t by)
{
    return (uint32_t)by < 8 * sizeof(T) ? (T)((T)a << (uint32_t)by) : 0;
}
template <class T>
SMEMKIT_INLINE ptx_bits<T> ptx_shift_right(uint64_t a, uint64_t by)
{
    constexpr uint32_t width = 8 * sizeof(T);
    if ((uint32_t)by >= width)
        return (ptx_bits<T>)((T)a < 0 ? ~0ull : 0);
    return (ptx_bits<T>)((T)a >> (uint32_t)by);
}
SMEMKIT_INLINE uint32_t ptx_distance(uint64_t by, bool wrap)
{
    return wrap ? (uint32_t)by & 31 : (uint32_t)by < 32 ? (uint32_t)by : 32;
}
template <bool Left>
SMEMKIT_INLINE uint32_t ptx_funnel_shift(uint64_t low, uint64_t high, uint32_t by)
{
    const uint64_t both = high << 32 | (uint32_t)low;
    return (uint32_t)(Left ? both << by >> 32 : both >> by);
}
/* prmt's modes, as the selector of its general form */
#define SMEMKIT_PTX_SELECT(name, expression)               \
    SMEMKIT_INLINE uint32_t ptx_select_##name(uint64_t by) \
    {                                                      \
        const unsigned s = by & 3;                         \
        uint32_t selector = 0;                             \
        for (unsigned i = 0; i < 4; i++)                   \
            selector |= (uint32_t)(expression) << 4 * i;   \
        return selector;                                   \
    }
SMEMKIT_PTX_SELECT(f4e, s + i)
SMEMKIT_PTX_SELECT(b4e, (s - i) & 7)
SMEMKIT_PTX_SELECT(rc8, s)
SMEMKIT_PTX_SELECT(ecl, i > s ? i : s)
SMEMKIT_PTX_SELECT(ecr, i < s ? i : s)
SMEMKIT_PTX_SELECT(rc16, (s & 1) * 2 + (i & 1))
#undef SMEMKIT_PTX_SELECT

/* dp4a and dp2a: a's lanes of `Bits` bits times b's bytes */
template <int Bits, class A, class B>
SMEMKIT_INLINE uint32_t ptx_dot(uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t sum = (uint32_t)c;
    for (int i = 0; i < 32 / Bits; i++) {
        const int x = Bits == 8             ? std::is_signed_v<A> ? (int8_t)(a >> 8 * i) : (uint8_t)(a >> 8 * i)
                                  : std::is_signed_v<A> ? (int16_t)(a >> 16 * i)
                                            : (uint16_t)(a >> 16 * i);
        const int y = std::is_signed_v<B> ? (int8_t)(b >> 8 * i) : (uint8_t)(b >> 8 * i);
        sum += (uint32_t)(x * y);
    }
    return sum;
}
SMEMKIT_PTX_OPERATION(vadd4, (T x, T y), x + y)
SMEMKIT_PTX_OPERATION(vsub4, (T x, T y), x - y)
SMEMKIT_PTX_OPERATION(vmin4, (T x, T y), y < x ? y : x)
SMEMKIT_PTX_OPERATION(vmax4, (T x, T y), x < y ? y : x)
SMEMKIT_PTX_OPERATION(vabsdiff4, (T x, T y), x < y ? y - x : x - y)
/* the video instructions on four bytes: with Add, c + the sum of the results, otherwise the results, each to its
 * byte */
template <class D, class A, class B, bool Saturate, bool Add, class Op>
SMEMKIT_INLINE uint32_t ptx_four_bytes(Op op, uint64_t a, uint64_t b, uint64_t c)
{
    using Byte = std::conditional_t<std::is_signed_v<D>, int8_t, uint8_t>;
    uint32_t result = 0, sum = (uint32_t)c;
    for (int i = 0; i < 32; i += 8) {
        const int x = std::is_signed_v<A> ? (int8_t)(a >> i) : (uint8_t)(a >> i);
        const int y = std::is_signed_v<B> ? (int8_t)(b >> i) : (uint8_t)(b >> i);
        const int z = Saturate ? ptx_saturated<Byte>(op(x, y)) : op(x, y);
        result |= (uint32_t)(uint8_t)z << i;
        sum += (uint32_t)z;
    }
    return Add ? sum : result;
}

/* ---- floating point ---- */

enum ptx_rounding { ptx_rn = FE_TONEAREST, ptx_rz = FE_TOWARDZERO, ptx_rm = FE_DOWNWARD, ptx_rp = FE_UPWARD };
enum { ptx_approx = FE_TONEAREST, ptx_full = FE_TONEAREST };

SMEMKIT_PTX_OPERATION(rcp, (T x), 1 / x)
SMEMKIT_PTX_OPERATION(sqrt, (T x), std::sqrt(x))
SMEMKIT_PTX_OPERATION(rsqrt, (T x), (T)(1 / std::sqrt((double)x)))
SMEMKIT_PTX_OPERATION(sin, (T x), (T)std::sin((double)x))
SMEMKIT_PTX_OPERATION(cos, (T x), (T)std::cos((double)x))
SMEMKIT_PTX_OPERATION(lg2, (T x), (T)std::log2((double)x))
SMEMKIT_PTX_OPERATION(ex2, (T x), (T)std::exp2((double)x))
SMEMKIT_PTX_OPERATION(tanh, (T x), (T)std::tanh((double)x))
SMEMKIT_PTX_OPERATION(fma, (T x, T y, T z), std::fma(x, y, z))

/* a NaN loses against a number, unless Nan */
template <bool Max, bool Nan>
struct ptx_extreme_op {
    template <class T>
    SMEMKIT_NO_HOOKS T operator()(T x, T y) const
    {
        if (x != x || y != y)
            return Nan ? std::numeric_limits<T>::quiet_NaN() : x != x ? y : x;
        if (x == y) /* -0 is less than +0 */
            return std::signbit(x) == Max ? y : x;
        return (x < y) == Max ? y : x;
    }
};

template <bool Flush, class T>
SMEMKIT_INLINE T ptx_flushed(T x)
{
    return Flush && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign((T)0, x) : x;
}

/* Hides a value's origin from the compiler, which otherwise computes with it before the rounding is set. */
template <class T>
SMEMKIT_INLINE T ptx_hidden(T value)
{
    __asm__ volatile("" : "+m"(value));
    return value;
}

/* One operation, rounded in this direction. */
template <class T, int Round, bool Flush = false, bool Saturate = false, class Op, class... Bits>
SMEMKIT_INLINE ptx_bits<T> ptx_rounded(Op op, Bits... bits)
{
    T result;
    if constexpr (Round == FE_TONEAREST) {
        result = op(ptx_flushed<Flush>(ptx_value<T>(bits))...);
    } else {
        std::fesetround(Round);
        result = ptx_hidden(op(ptx_hidden(ptx_flushed<Flush>(ptx_value<T>(bits)))...));
        std::fesetround(FE_TONEAREST);
    }
    result = ptx_flushed<Flush>(result);
    if (Saturate)
        result = result > 1 ? (T)1 : result > 0 ? result : (T)0; /* NaN becomes 0 */
    if (result != result && sizeof(T) == 4)
        return (ptx_bits<T>)0x7fffffff; /* CUDA's NaN */
    return ptx_to_bits(result);
}

/* An operation on halves, or on both of a pair. One of float32 rounds twice without harm; fma needs more. */
template <class T, bool Saturate = false, bool Relu = false, class Op, class... Bits>
SMEMKIT_INLINE auto ptx_packed(Op op, Bits... bits)
{
    if constexpr (std::is_same_v<T, ptx_f16> || std::is_same_v<T, ptx_bf16>) {
        float result = round_to_odd((long double)op((double)T::from(bits)...));
        if (Saturate)
            result = result > 1 ? 1 : result > 0 ? result : 0;
        if (Relu && result < 0)
            result = 0;
        return T::to(result);
    } else {
        using half = typename T::half;
        const uint32_t low = ptx_packed<half, Saturate, Relu>(op, (uint16_t)bits...);
        return low | (uint32_t)ptx_packed<half, Saturate, Relu>(op, (uint16_t)(bits >> 16)...) << 16;
    }
}

/* abs and neg change the sign's bits only */
template <class T, bool Flush, bool Negate>
SMEMKIT_INLINE auto ptx_sign(uint64_t bits)
{
    if constexpr (std::is_floating_point_v<T>) {
        const T x = ptx_flushed<Flush>(ptx_value<T>(bits));
        return ptx_to_bits(Negate ? -x : std::fabs(x));
    } else {
        constexpr bool pair = std::is_same_v<T, ptx_f16x2> || std::is_same_v<T, ptx_bf16x2>;
        using word = std::conditional_t<pair, uint32_t, uint16_t>;
        constexpr word signs = (word)0x80008000;
        return (word)(Negate ? bits ^ signs : bits & ~(uint64_t)signs);
    }
}

/* ---- comparisons ---- */

/* `ordered`: the result for numbers; `unordered`: the one if an operand is NaN */
#define SMEMKIT_PTX_COMPARE(name, ordered, unordered)                          \
    template <class T>                                                         \
    SMEMKIT_INLINE bool ptx_compare_##name(uint64_t a, uint64_t b)             \
    {                                                                          \
        const auto x = ptx_value<T>(a), y = ptx_value<T>(b);                   \
        if constexpr (std::is_floating_point_v<std::remove_cv_t<decltype(x)>>) \
            return x != x || y != y ? unordered : ordered;                     \
        else                                                                   \
            return ordered;                                                    \
    }
SMEMKIT_PTX_COMPARE(eq, x == y, false)
SMEMKIT_PTX_COMPARE(ne, x != y, false)
SMEMKIT_PTX_COMPARE(lt, x < y, false)
SMEMKIT_PTX_COMPARE(le, x <= y, false)
SMEMKIT_PTX_COMPARE(gt, x > y, false)
SMEMKIT_PTX_COMPARE(ge, x >= y, false)
SMEMKIT_PTX_COMPARE(lo, x < y, false)
SMEMKIT_PTX_COMPARE(ls, x <= y, false)
SMEMKIT_PTX_COMPARE(hi, x > y, false)
SMEMKIT_PTX_COMPARE(hs, x >= y, false)
SMEMKIT_PTX_COMPARE(equ, x == y, true)
SMEMKIT_PTX_COMPARE(neu, x != y, true)
SMEMKIT_PTX_COMPARE(ltu, x < y, true)
SMEMKIT_PTX_COMPARE(leu, x <= y, true)
SMEMKIT_PTX_COMPARE(gtu, x > y, true)
SMEMKIT_PTX_COMPARE(geu, x >= y, true)
SMEMKIT_PTX_COMPARE(num, true, false)
SMEMKIT_PTX_COMPARE(nan, false, true)
#undef SMEMKIT_PTX_COMPARE

template <class P, class Q>
SMEMKIT_INLINE void ptx_setp(P &&p, Q &&q, bool result)
{
    p = result;
    q = !result;
}
template <class P, class Q, class Op>
SMEMKIT_INLINE void ptx_setp(P &&p, Q &&q, bool result, Op op, bool other)
{
    p = op((int)result, (int)other) != 0;
    q = op((int)!result, (int)other) != 0;
}
template <class To>
SMEMKIT_INLINE uint32_t ptx_set(bool result)
{
    return !result ? 0 : std::is_floating_point_v<To> ? 0x3f800000 : ~0u;
}

#define SMEMKIT_PTX_TEST(name, expression) \
    template <class T>                     \
    SMEMKIT_INLINE bool ptx_is_##name(T x) \
    {                                      \
        return expression;                 \
    }
SMEMKIT_PTX_TEST(finite, std::isfinite(x))
SMEMKIT_PTX_TEST(infinite, std::isinf(x))
SMEMKIT_PTX_TEST(number, !std::isnan(x))
SMEMKIT_PTX_TEST(notanumber, std::isnan(x))
SMEMKIT_PTX_TEST(normal, std::isnormal(x))
SMEMKIT_PTX_TEST(subnormal, std::fpclassify(x) == FP_SUBNORMAL)
#undef SMEMKIT_PTX_TEST

} // namespace smemkit

#endif
