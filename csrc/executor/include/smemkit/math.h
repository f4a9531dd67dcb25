/* CUDA's device functions that C++ lacks and that textbook kernels use. The fast approximations are the accurate
 * functions here. */
#ifndef SMEMKIT_MATH_H
#define SMEMKIT_MATH_H

#include "../../ptx.h"

/* min and max: not templates for equal types, so that they do not compete with std::min and std::max */
#define SMEMKIT_MIN_MAX(type, least, most)  \
    SMEMKIT_INLINE type min(type a, type b) \
    {                                       \
        return least;                       \
    }                                       \
    SMEMKIT_INLINE type max(type a, type b) \
    {                                       \
        return most;                        \
    }
#define SMEMKIT_INTEGER_MIN_MAX(type) SMEMKIT_MIN_MAX(type, b < a ? b : a, a < b ? b : a)
SMEMKIT_INTEGER_MIN_MAX(int)
SMEMKIT_INTEGER_MIN_MAX(unsigned int)
SMEMKIT_INTEGER_MIN_MAX(long)
SMEMKIT_INTEGER_MIN_MAX(unsigned long)
SMEMKIT_INTEGER_MIN_MAX(long long)
SMEMKIT_INTEGER_MIN_MAX(unsigned long long)
SMEMKIT_MIN_MAX(float, fminf(a, b), fmaxf(a, b))
SMEMKIT_MIN_MAX(double, ::fmin(a, b), ::fmax(a, b))
#undef SMEMKIT_INTEGER_MIN_MAX
#undef SMEMKIT_MIN_MAX

/* for two types, in their common type */
template <class A, class B>
SMEMKIT_INLINE std::enable_if_t<!std::is_same_v<A, B>, std::common_type_t<A, B>> min(A a, B b)
{
    return min((std::common_type_t<A, B>)a, (std::common_type_t<A, B>)b);
}
template <class A, class B>
SMEMKIT_INLINE std::enable_if_t<!std::is_same_v<A, B>, std::common_type_t<A, B>> max(A a, B b)
{
    return max((std::common_type_t<A, B>)a, (std::common_type_t<A, B>)b);
}

using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

#define SMEMKIT_FUNCTION_1(type, name, x_type, expression) \
    SMEMKIT_INLINE type name(x_type x)                     \
    {                                                      \
        return expression;                                 \
    }
#define SMEMKIT_FUNCTION_2(type, name, xy_type, expression) \
    SMEMKIT_INLINE type name(xy_type x, xy_type y)          \
    {                                                       \
        return expression;                                  \
    }
#define SMEMKIT_FUNCTION_3(type, name, xyz_type, expression)     \
    SMEMKIT_INLINE type name(xyz_type x, xyz_type y, xyz_type z) \
    {                                                            \
        return expression;                                       \
    }

/* C23's, which newer C libraries declare: with C linkage they may be declared before, too */
#define SMEMKIT_C_FUNCTION_1(type, name, expression)              \
    extern "C" SMEMKIT_NO_HOOKS inline type name(type x) noexcept \
    {                                                             \
        return expression;                                        \
    }
SMEMKIT_C_FUNCTION_1(double, rsqrt, 1 / std::sqrt(x))
SMEMKIT_FUNCTION_1(double, rcbrt, double, 1 / std::cbrt(x))

namespace smemkit
{

/* sin(pi (x + quarters / 2)): the nearest multiple of a half is subtracted, exactly, and chooses the function */
SMEMKIT_INLINE double sine_of_pi(double x, int quarters)
{
    const double r = std::remainder(x, 2.0), n = std::rint(2 * r), t = M_PI * (r - n / 2);
    const int quadrant = ((int)n + quarters) & 3;
    const double value = quadrant & 1 ? std::cos(t) : std::sin(t);
    return x != x || std::isinf(x) ? r : quadrant & 2 ? -value : value;
}
/* erfc(-x / sqrt(2)), with a correction for the rounded argument, which matters where erfc is steep */
SMEMKIT_INLINE double erfc_of_scaled(double x)
{
    const double t = -x * M_SQRT1_2, t_error = std::fma(-x, M_SQRT1_2, -t) - x * -0x1.bdd3413b26456p-55;
    const double value = std::erfc(t);
    return std::isfinite(t) ? value - M_2_SQRTPI * std::exp(-t * t) * t_error : value;
}

} // namespace smemkit

SMEMKIT_C_FUNCTION_1(double, sinpi, smemkit::sine_of_pi(x, 0))
SMEMKIT_C_FUNCTION_1(double, cospi, smemkit::sine_of_pi(x, 1))
SMEMKIT_FUNCTION_1(double, normcdf, double, smemkit::erfc_of_scaled(x) / 2)
SMEMKIT_FUNCTION_2(double, rhypot, double, 1 / std::hypot(x, y))
SMEMKIT_FUNCTION_3(double, norm3d, double, std::hypot(x, y, z))
SMEMKIT_FUNCTION_3(double, rnorm3d, double, 1 / std::hypot(x, y, z))
SMEMKIT_C_FUNCTION_1(float, rsqrtf, (float)rsqrt((double)x))
SMEMKIT_FUNCTION_1(float, rcbrtf, float, (float)rcbrt((double)x))
SMEMKIT_C_FUNCTION_1(float, sinpif, (float)sinpi((double)x))
SMEMKIT_C_FUNCTION_1(float, cospif, (float)cospi((double)x))
SMEMKIT_FUNCTION_1(float, normcdff, float, (float)normcdf((double)x))
SMEMKIT_FUNCTION_2(float, rhypotf, float, (float)rhypot((double)x, (double)y))
SMEMKIT_FUNCTION_3(float, norm3df, float, (float)norm3d((double)x, (double)y, (double)z))
SMEMKIT_FUNCTION_3(float, rnorm3df, float, (float)rnorm3d((double)x, (double)y, (double)z))
SMEMKIT_FUNCTION_2(unsigned, umin, unsigned, y < x ? y : x)
SMEMKIT_FUNCTION_2(unsigned, umax, unsigned, x < y ? y : x)
SMEMKIT_FUNCTION_2(long long, llmin, long long, y < x ? y : x)
SMEMKIT_FUNCTION_2(long long, llmax, long long, x < y ? y : x)
SMEMKIT_FUNCTION_2(unsigned long long, ullmin, unsigned long long, y < x ? y : x)
SMEMKIT_FUNCTION_2(unsigned long long, ullmax, unsigned long long, x < y ? y : x)
SMEMKIT_FUNCTION_2(float, fdividef, float, x / y)
SMEMKIT_INLINE void sincospi(double x, double *sine, double *cosine)
{
    *sine = sinpi(x);
    *cosine = cospi(x);
}
SMEMKIT_INLINE void sincospif(float x, float *sine, float *cosine)
{
    *sine = sinpif(x);
    *cosine = cospif(x);
}

SMEMKIT_INLINE float __saturatef(float x)
{
    return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f; /* NaN becomes 0 */
}
/* The C library declares functions with these names, so they are macros. */
#define __expf(x)          expf(x)
#define __exp10f(x)        powf(10.0f, x)
#define __logf(x)          logf(x)
#define __log2f(x)         log2f(x)
#define __log10f(x)        log10f(x)
#define __sinf(x)          sinf(x)
#define __cosf(x)          cosf(x)
#define __tanf(x)          tanf(x)
#define __powf(x, y)       powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)

SMEMKIT_FUNCTION_2(float, __fdividef, float, x / y)

/* Arithmetic with a given rounding direction. Never fused, as on the GPU. float32 operations are computed in
 * double, which is exact enough to round correctly. */
namespace smemkit
{

template <class To, class From>
SMEMKIT_INLINE To round_down(From exact)
{
    To near = (To)exact;
    return (From)near > exact ? std::nextafter(near, -std::numeric_limits<To>::infinity()) : near;
}
template <class To, class From>
SMEMKIT_INLINE To round_up(From exact)
{
    To near = (To)exact;
    return (From)near < exact ? std::nextafter(near, std::numeric_limits<To>::infinity()) : near;
}
template <class To, class From>
SMEMKIT_INLINE To round_to_zero(From exact)
{
    return exact < 0 ? round_up<To>(exact) : round_down<To>(exact);
}

} // namespace smemkit

#define SMEMKIT_ROUNDED_2(name, expression)                                             \
    SMEMKIT_FUNCTION_2(float, name##_rn, float, (float)(expression))                    \
    SMEMKIT_FUNCTION_2(float, name##_rd, float, smemkit::round_down<float>(expression)) \
    SMEMKIT_FUNCTION_2(float, name##_ru, float, smemkit::round_up<float>(expression))   \
    SMEMKIT_FUNCTION_2(float, name##_rz, float, smemkit::round_to_zero<float>(expression))
#define SMEMKIT_ROUNDED_1(name, expression)                                             \
    SMEMKIT_FUNCTION_1(float, name##_rn, float, (float)(expression))                    \
    SMEMKIT_FUNCTION_1(float, name##_rd, float, smemkit::round_down<float>(expression)) \
    SMEMKIT_FUNCTION_1(float, name##_ru, float, smemkit::round_up<float>(expression))   \
    SMEMKIT_FUNCTION_1(float, name##_rz, float, smemkit::round_to_zero<float>(expression))
SMEMKIT_ROUNDED_2(__fadd, (double)x + (double)y)
SMEMKIT_ROUNDED_2(__fsub, (double)x - (double)y)
SMEMKIT_ROUNDED_2(__fmul, (double)x *(double)y)
SMEMKIT_ROUNDED_2(__fdiv, (double)x / (double)y)
SMEMKIT_ROUNDED_1(__frcp, 1 / (double)x)
SMEMKIT_ROUNDED_1(__fsqrt, std::sqrt((double)x))
SMEMKIT_FUNCTION_1(float, __frsqrt_rn, float, (float)rsqrt((double)x))
SMEMKIT_FUNCTION_3(float, __fmaf_rn, float, std::fma(x, y, z))
SMEMKIT_FUNCTION_3(double, __fma_rn, double, std::fma(x, y, z))
SMEMKIT_INLINE double __dadd_rn(double x, double y)
{
    volatile double sum = x + y;
    return sum;
}
SMEMKIT_INLINE double __dmul_rn(double x, double y)
{
    volatile double product = x * y;
    return product;
}
SMEMKIT_FUNCTION_2(double, __dsub_rn, double, __dadd_rn(x, -y))
SMEMKIT_FUNCTION_2(double, __ddiv_rn, double, x / y)
SMEMKIT_FUNCTION_1(double, __drcp_rn, double, 1 / x)
SMEMKIT_FUNCTION_1(double, __dsqrt_rn, double, std::sqrt(x))

/* float64 with a given rounding: from the sign of the error of the result to nearest, which fma and two-sum give
 * exactly unless the result is subnormal or overflows (Muller et al., Handbook of Floating-Point Arithmetic). */
namespace smemkit
{

/* The result to nearest `near`, moved to its neighbour if its error, exact - near, has the wrong sign */
SMEMKIT_INLINE double directed(double near, double error, char mode)
{
    const double up = std::numeric_limits<double>::infinity();
    if (!std::isfinite(near) || error == 0 || error != error)
        return near;
    if ((mode == 'u' || (mode == 'z' && near < 0)) && error > 0)
        return std::nextafter(near, up);
    if ((mode == 'd' || (mode == 'z' && near > 0)) && error < 0)
        return std::nextafter(near, -up);
    return near;
}
SMEMKIT_INLINE double directed_sum(double x, double y, char mode)
{
    const double sum = __dadd_rn(x, y), y_part = sum - x, x_part = sum - y_part;
    return directed(sum, (x - x_part) + (y - y_part), mode);
}
SMEMKIT_INLINE double directed_quotient(double x, double y, char mode)
{
    const double near = x / y, rest = std::fma(-near, y, x); /* has the sign of the error, but for y's */
    return directed(near, y < 0 ? -rest : rest, mode);
}
SMEMKIT_INLINE double directed_root(double x, char mode)
{
    const double near = std::sqrt(x);
    return directed(near, std::fma(-near, near, x), mode);
}

} // namespace smemkit

#define SMEMKIT_DIRECTED(mode, letter)                                                                           \
    SMEMKIT_FUNCTION_2(double, __dadd_##mode, double, smemkit::directed_sum(x, y, letter))                       \
    SMEMKIT_FUNCTION_2(double, __dsub_##mode, double, smemkit::directed_sum(x, -y, letter))                      \
    SMEMKIT_FUNCTION_2(double, __dmul_##mode, double, smemkit::directed(x *y, std::fma(x, y, -(x * y)), letter)) \
    SMEMKIT_FUNCTION_2(double, __ddiv_##mode, double, smemkit::directed_quotient(x, y, letter))                  \
    SMEMKIT_FUNCTION_1(double, __drcp_##mode, double, smemkit::directed_quotient(1, x, letter))                  \
    SMEMKIT_FUNCTION_1(double, __dsqrt_##mode, double, smemkit::directed_root(x, letter))
SMEMKIT_DIRECTED(ru, 'u')
SMEMKIT_DIRECTED(rd, 'd')
SMEMKIT_DIRECTED(rz, 'z')
#undef SMEMKIT_DIRECTED

/* The inverses of erf and erfc: Newton's method on the C library's functions, from Winitzki's approximation
 * (2008). Where the probability's rounding limits it, the step is in the logarithm of erfc. */
SMEMKIT_INLINE double erfinv(double y);
SMEMKIT_INLINE double erfcinv(double y)
{
    if (y >= 0.5 && y <= 1.5)
        return erfinv(1 - y); /* an exact difference */
    if (!(y > 0 && y < 2))
        return y == 0 ? (double)INFINITY : y == 2 ? -(double)INFINITY : (double)NAN;
    const double p = y < 1 ? y : 2 - y; /* the smaller tail */
    const double log_part = std::log(p * (2 - p)), a = 4.33 + log_part / 2;
    double x = std::sqrt(std::sqrt(a * a - log_part / 0.147) - a);
    for (int i = 0; i < 8 && x < 27; i++) {
        const double tail = std::erfc(x), slope = M_2_SQRTPI * std::exp(-x * x);
        x += tail * std::log(tail / p) / slope;
    }
    return y < 1 ? x : -x;
}
SMEMKIT_INLINE double erfinv(double y)
{
    if (std::abs(y) > 0.5)
        return y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
    double x = y / M_2_SQRTPI;
    for (int i = 0; i < 6; i++)
        x -= (std::erf(x) - y) / (M_2_SQRTPI * std::exp(-x * x));
    return x;
}
SMEMKIT_FUNCTION_1(double, normcdfinv, double, -M_SQRT2 *erfcinv(2 * x))
SMEMKIT_FUNCTION_1(float, erfinvf, float, (float)erfinv((double)x))
SMEMKIT_FUNCTION_1(float, erfcinvf, float, (float)erfcinv((double)x))
SMEMKIT_FUNCTION_1(float, normcdfinvf, float, (float)normcdfinv((double)x))
SMEMKIT_INLINE double norm4d(double a, double b, double c, double d)
{
    return std::hypot(std::hypot(a, b, c), d);
}
SMEMKIT_INLINE float norm4df(float a, float b, float c, float d)
{
    return (float)norm4d(a, b, c, d);
}
SMEMKIT_INLINE double rnorm4d(double a, double b, double c, double d)
{
    return 1 / norm4d(a, b, c, d);
}
SMEMKIT_INLINE float rnorm4df(float a, float b, float c, float d)
{
    return (float)rnorm4d(a, b, c, d);
}

SMEMKIT_INLINE int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
SMEMKIT_INLINE int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
SMEMKIT_INLINE int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
SMEMKIT_INLINE int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
SMEMKIT_INLINE int __ffs(int x)
{
    return __builtin_ffs(x);
}
SMEMKIT_INLINE int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
SMEMKIT_INLINE unsigned long long __brevll(unsigned long long x)
{
    unsigned long long y = 0;
    for (int i = 0; i < 64; i++)
        y |= (x >> i & 1) << (63 - i);
    return y;
}
SMEMKIT_INLINE unsigned __brev(unsigned x)
{
    return (unsigned)(__brevll(x) >> 32);
}
SMEMKIT_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 15, byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
        if (nibble & 8)
            byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
SMEMKIT_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
SMEMKIT_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
SMEMKIT_INLINE int __mul24(int x, int y)
{
    return (int)((unsigned)((x << 8) >> 8) * (unsigned)((y << 8) >> 8));
}
SMEMKIT_INLINE unsigned __umul24(unsigned x, unsigned y)
{
    return (x & 0xffffff) * (y & 0xffffff);
}
SMEMKIT_INLINE int __mulhi(int x, int y)
{
    return (int)((int64_t)x * y >> 32);
}
SMEMKIT_INLINE unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((uint64_t)x * y >> 32);
}
SMEMKIT_INLINE long long __mul64hi(long long x, long long y)
{
    return (long long)((__int128)x * y >> 64);
}
SMEMKIT_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
SMEMKIT_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) << (shift < 32 ? shift : 32) >> 32);
}
SMEMKIT_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift < 32 ? shift : 32));
}
SMEMKIT_FUNCTION_2(int, __hadd, int, (int)(((int64_t)x + y) >> 1))
SMEMKIT_FUNCTION_2(int, __rhadd, int, (int)(((int64_t)x + y + 1) >> 1))
SMEMKIT_FUNCTION_2(unsigned, __uhadd, unsigned, (unsigned)(((uint64_t)x + y) >> 1))
SMEMKIT_FUNCTION_2(unsigned, __urhadd, unsigned, (unsigned)(((uint64_t)x + y + 1) >> 1))
SMEMKIT_FUNCTION_3(unsigned, __usad, unsigned, (x > y ? x - y : y - x) + z)
SMEMKIT_INLINE unsigned __sad(int x, int y, unsigned z)
{
    return (unsigned)(x > y ? (int64_t)x - y : (int64_t)y - x) + z;
}

#define SMEMKIT_BITCAST(name, to, from) \
    SMEMKIT_INLINE to name(from x)      \
    {                                   \
        to y;                           \
        memcpy(&y, &x, sizeof y);       \
        return y;                       \
    }
SMEMKIT_BITCAST(__float_as_int, int, float)
SMEMKIT_BITCAST(__float_as_uint, unsigned, float)
SMEMKIT_BITCAST(__int_as_float, float, int)
SMEMKIT_BITCAST(__uint_as_float, float, unsigned)
SMEMKIT_BITCAST(__double_as_longlong, long long, double)
SMEMKIT_BITCAST(__longlong_as_double, double, long long)
#undef SMEMKIT_BITCAST

SMEMKIT_FUNCTION_1(int, __double2hiint, double, (int)(__double_as_longlong(x) >> 32))
SMEMKIT_FUNCTION_1(int, __double2loint, double, (int)__double_as_longlong(x))
SMEMKIT_INLINE double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)((uint64_t)(unsigned)high << 32 | (unsigned)low));
}

/* Conversions to an integer saturate, and NaN becomes 0, as on the GPU. */
namespace smemkit
{

template <class To, class From>
SMEMKIT_INLINE To saturate(From x)
{
    if (x != x)
        return 0;
    constexpr To most = std::numeric_limits<To>::max(), least = std::numeric_limits<To>::min();
    if (x >= (From)most)
        return most;
    if (x <= (From)least)
        return least;
    return (To)x;
}

} // namespace smemkit

#define SMEMKIT_TO_INTEGER(from, to, from_type, to_type)                                                        \
    SMEMKIT_FUNCTION_1(to_type, __##from##2##to##_rn, from_type, smemkit::saturate<to_type>(std::nearbyint(x))) \
    SMEMKIT_FUNCTION_1(to_type, __##from##2##to##_rz, from_type, smemkit::saturate<to_type>(std::trunc(x)))     \
    SMEMKIT_FUNCTION_1(to_type, __##from##2##to##_ru, from_type, smemkit::saturate<to_type>(std::ceil(x)))      \
    SMEMKIT_FUNCTION_1(to_type, __##from##2##to##_rd, from_type, smemkit::saturate<to_type>(std::floor(x)))
SMEMKIT_TO_INTEGER(float, int, float, int)
SMEMKIT_TO_INTEGER(float, uint, float, unsigned)
SMEMKIT_TO_INTEGER(float, ll, float, long long)
SMEMKIT_TO_INTEGER(float, ull, float, unsigned long long)
SMEMKIT_TO_INTEGER(double, int, double, int)
SMEMKIT_TO_INTEGER(double, uint, double, unsigned)
SMEMKIT_TO_INTEGER(double, ll, double, long long)
SMEMKIT_TO_INTEGER(double, ull, double, unsigned long long)
#undef SMEMKIT_TO_INTEGER

#define SMEMKIT_TO_FLOAT(from, from_type, wide)                                                       \
    SMEMKIT_FUNCTION_1(float, __##from##2float_rn, from_type, (float)x)                               \
    SMEMKIT_FUNCTION_1(float, __##from##2float_rz, from_type, smemkit::round_to_zero<float>((wide)x)) \
    SMEMKIT_FUNCTION_1(float, __##from##2float_ru, from_type, smemkit::round_up<float>((wide)x))      \
    SMEMKIT_FUNCTION_1(float, __##from##2float_rd, from_type, smemkit::round_down<float>((wide)x))
SMEMKIT_TO_FLOAT(int, int, double)
SMEMKIT_TO_FLOAT(uint, unsigned, double)
SMEMKIT_TO_FLOAT(double, double, double)
SMEMKIT_TO_FLOAT(ll, long long, long double)
SMEMKIT_TO_FLOAT(ull, unsigned long long, long double)
#undef SMEMKIT_TO_FLOAT
SMEMKIT_FUNCTION_1(double, __int2double_rn, int, (double)x)
SMEMKIT_FUNCTION_1(double, __uint2double_rn, unsigned, (double)x)
SMEMKIT_FUNCTION_1(double, __ll2double_rn, long long, (double)x)
SMEMKIT_FUNCTION_1(double, __ull2double_rn, unsigned long long, (double)x)

/* Loads and stores with a cache hint, which is ignored. */
#define SMEMKIT_LOAD(name, read_only)                                    \
    template <class T>                                                   \
    SMEMKIT_INLINE T name(const T *address)                              \
    {                                                                    \
        smemkit::report_read(address, sizeof(T), SMEMKIT_PC, read_only); \
        return smemkit::load(address);                                   \
    }
#define SMEMKIT_STORE(name)                                               \
    template <class T>                                                    \
    SMEMKIT_INLINE void name(T *address, std::enable_if_t<true, T> value) \
    {                                                                     \
        smemkit::report_write(address, sizeof(T), SMEMKIT_PC);            \
        smemkit::store(address, value);                                   \
    }
SMEMKIT_LOAD(__ldg, true)
SMEMKIT_LOAD(__ldcg, false)
SMEMKIT_LOAD(__ldca, false)
SMEMKIT_LOAD(__ldcs, false)
SMEMKIT_LOAD(__ldlu, false)
SMEMKIT_LOAD(__ldcv, false)
SMEMKIT_STORE(__stwb)
SMEMKIT_STORE(__stcg)
SMEMKIT_STORE(__stcs)
SMEMKIT_STORE(__stwt)
#undef SMEMKIT_LOAD
#undef SMEMKIT_STORE

SMEMKIT_INLINE long long clock64()
{
    return smemkit_clock64();
}
/* clock(), declared by the C library, calls the executor's function. */
extern "C" clock_t clock() noexcept __asm__("smemkit_clock");
/* SIMD within a word, the common functions */
SMEMKIT_INLINE int __dp4a(int x, int y, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int)(signed char)(x >> i) * (int)(signed char)(y >> i);
    return sum;
}
SMEMKIT_INLINE unsigned __dp4a(unsigned x, unsigned y, unsigned sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (x >> i & 255) * (y >> i & 255);
    return sum;
}

/* Shared memory is a window of 32-bit addresses, as on a GPU; other addresses are generic ones. */
SMEMKIT_INLINE size_t __cvta_generic_to_shared(const void *address)
{
    return smemkit_to_shared(address);
}
SMEMKIT_INLINE void *__cvta_shared_to_generic(size_t address)
{
    return smemkit_from_shared(address);
}
SMEMKIT_INLINE unsigned __isShared(const void *address)
{
    return smemkit_is_shared(address);
}
SMEMKIT_INLINE unsigned __isLocal(const void *address)
{
    return smemkit_is_local(address);
}
namespace smemkit
{
bool is_constant(const void *address); /* of this source; cpu_module.py defines it */
} // namespace smemkit
SMEMKIT_INLINE unsigned __isConstant(const void *address)
{
    return smemkit::is_constant(address);
}
SMEMKIT_INLINE unsigned __isGlobal(const void *address)
{
    return !smemkit_is_cluster_shared(address) && !__isLocal(address) && !__isConstant(address);
}
#define SMEMKIT_GENERIC_SPACE(name)                                     \
    SMEMKIT_INLINE size_t __cvta_generic_to_##name(const void *address) \
    {                                                                   \
        return (size_t)address;                                         \
    }                                                                   \
    SMEMKIT_INLINE void *__cvta_##name##_to_generic(size_t address)     \
    {                                                                   \
        return (void *)address;                                         \
    }
SMEMKIT_GENERIC_SPACE(global)
SMEMKIT_GENERIC_SPACE(local)
SMEMKIT_GENERIC_SPACE(constant)
SMEMKIT_GENERIC_SPACE(grid_constant)
#undef SMEMKIT_GENERIC_SPACE
SMEMKIT_UNAVAILABLE("on the CPU device each thread has a copy of a __grid_constant__ parameter")
unsigned __isGridConstant(const void *address);

#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif
#define __assume(condition) ((void)0)

#endif
