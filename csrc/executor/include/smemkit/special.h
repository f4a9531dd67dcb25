/* Functions of the CUDA Math API that neither C++ nor math.h has: erfcx, modified Bessel functions, norms of
 * arrays, fused operations with a direction, and the overloads for float of functions of double. */
#ifndef SMEMKIT_SPECIAL_H
#define SMEMKIT_SPECIAL_H

namespace smemkit
{

/* exp(x²), of a square whose rounding error is taken into account */
SMEMKIT_INLINE double exp_of_square(double x)
{
    const double square = x * x, error = std::fma(x, x, -square);
    const double value = std::exp(square);
    return std::isfinite(value) ? value + value * error : value;
}

/* exp(x²) erfc(x) of a large x: its continued fraction (Abramowitz and Stegun, 7.1.14), from its 60th term */
SMEMKIT_INLINE double erfcx_fraction(double x)
{
    double rest = x;
    for (int n = 60; n > 0; n--)
        rest = x + n * 0.5 / rest;
    return 0.5 * M_2_SQRTPI / rest;
}

/* The modified Bessel functions of order n, which is 0 or 1, for x >= 0: the power series (Abramowitz and Stegun,
 * 9.6.10), and from 30 on the asymptotic one (9.7.1), whose smallest term is below the last bit */
SMEMKIT_INLINE double bessel_i(int n, double x)
{
    if (!(x <= 750)) /* infinity, NaN */
        return x + x;
    long double term = n ? x / 2.0L : 1, sum = term;
    if (x < 30) {
        for (int k = 1; term > sum * 0x1p-64L; k++)
            sum += term *= x * (long double)x / (4.0L * k * (k + n));
        return (double)sum;
    }
    term = sum = 1;
    for (int k = 1; std::abs(term) > 0x1p-64L && k < 40; k++)
        sum += term *= ((2 * k - 1) * (2 * k - 1) - 4.0L * n) / (8.0L * k * x);
    return (double)(std::exp((long double)x) / std::sqrt(2 * 3.14159265358979323846264L * x) * sum);
}

template <class T>
SMEMKIT_INLINE double norm_of(int count, const T *values, const void *pc)
{
    long double sum = 0; /* with a range that holds all squares */
    report_read(values, (unsigned)(sizeof(T) * (size_t)count), pc);
    for (int i = 0; i < count; i++) {
        if (std::isinf(values[i]))
            return INFINITY;
        sum += (long double)values[i] * values[i];
    }
    return (double)std::sqrt(sum);
}

/* x * y + z and the sign of its error (Boldo and Muller, "Exact and approximated error of the FMA", 2011) */
SMEMKIT_INLINE double directed_fma(double x, double y, double z, char mode)
{
    const double near = std::fma(x, y, z), product = x * y, low = std::fma(x, y, -product);
    const double a = z + low, a_low = (z - (a - (a - z))) + (low - (a - z));
    const double b = product + a, b_low = (product - (b - (b - product))) + (a - (b - product));
    return directed(near, ((b - near) + b_low) + a_low, mode);
}
/* in double, rounded to odd, so that rounding it to float rounds once */
SMEMKIT_INLINE double odd_fma(float x, float y, float z)
{
    const double product = (double)x * y, sum = product + z;
    const double z_part = sum - product, error = (product - (sum - z_part)) + (z - z_part);
    if (error == 0 || error != error || (__double_as_longlong(sum) & 1))
        return sum;
    return std::nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
}

} // namespace smemkit

SMEMKIT_INLINE double erfcx(double x)
{
    return x < 10 ? smemkit::exp_of_square(x) * std::erfc(x) : smemkit::erfcx_fraction(x);
}
SMEMKIT_FUNCTION_1(float, erfcxf, float, (float)erfcx((double)x))
SMEMKIT_FUNCTION_1(double, cyl_bessel_i0, double, smemkit::bessel_i(0, std::abs(x)))
SMEMKIT_FUNCTION_1(double, cyl_bessel_i1, double, std::copysign(smemkit::bessel_i(1, std::abs(x)), x))
SMEMKIT_FUNCTION_1(float, cyl_bessel_i0f, float, (float)cyl_bessel_i0((double)x))
SMEMKIT_FUNCTION_1(float, cyl_bessel_i1f, float, (float)cyl_bessel_i1((double)x))

SMEMKIT_INLINE double norm(int count, const double *values)
{
    return smemkit::norm_of(count, values, SMEMKIT_PC);
}
SMEMKIT_INLINE double rnorm(int count, const double *values)
{
    return 1 / smemkit::norm_of(count, values, SMEMKIT_PC);
}
SMEMKIT_INLINE float normf(int count, const float *values)
{
    return (float)smemkit::norm_of(count, values, SMEMKIT_PC);
}
SMEMKIT_INLINE float rnormf(int count, const float *values)
{
    return (float)(1 / smemkit::norm_of(count, values, SMEMKIT_PC));
}

#define SMEMKIT_DIRECTED_FMA(mode, letter, rounded)                                            \
    SMEMKIT_FUNCTION_3(double, __fma_##mode, double, smemkit::directed_fma(x, y, z, letter))   \
    SMEMKIT_FUNCTION_3(float, __fmaf_##mode, float, rounded<float>(smemkit::odd_fma(x, y, z))) \
    SMEMKIT_FUNCTION_3(float, __fmaf_ieee_##mode, float, __fmaf_##mode(x, y, z))               \
    SMEMKIT_FUNCTION_1(double, __ll2double_##mode, long long, rounded<double>((long double)x)) \
    SMEMKIT_FUNCTION_1(double, __ull2double_##mode, unsigned long long, rounded<double>((long double)x))
SMEMKIT_DIRECTED_FMA(ru, 'u', smemkit::round_up)
SMEMKIT_DIRECTED_FMA(rd, 'd', smemkit::round_down)
SMEMKIT_DIRECTED_FMA(rz, 'z', smemkit::round_to_zero)
#undef SMEMKIT_DIRECTED_FMA
SMEMKIT_FUNCTION_3(float, __fmaf_ieee_rn, float, std::fma(x, y, z))

/* CUDA overloads these for float; those of the C library are in math.h */
#define SMEMKIT_OF_FLOAT(name) SMEMKIT_FUNCTION_1(float, name, float, name##f(x))
SMEMKIT_OF_FLOAT(rsqrt)
SMEMKIT_OF_FLOAT(rcbrt)
SMEMKIT_OF_FLOAT(sinpi)
SMEMKIT_OF_FLOAT(cospi)
SMEMKIT_OF_FLOAT(erfinv)
SMEMKIT_OF_FLOAT(erfcinv)
SMEMKIT_OF_FLOAT(normcdf)
SMEMKIT_OF_FLOAT(normcdfinv)
SMEMKIT_OF_FLOAT(erfcx)
SMEMKIT_OF_FLOAT(exp10)
SMEMKIT_OF_FLOAT(j0)
SMEMKIT_OF_FLOAT(j1)
SMEMKIT_OF_FLOAT(y0)
SMEMKIT_OF_FLOAT(y1)
SMEMKIT_OF_FLOAT(cyl_bessel_i0)
SMEMKIT_OF_FLOAT(cyl_bessel_i1)
#undef SMEMKIT_OF_FLOAT
SMEMKIT_FUNCTION_2(float, rhypot, float, rhypotf(x, y))
SMEMKIT_INLINE float jn(int n, float x)
{
    return jnf(n, x);
}
SMEMKIT_INLINE float yn(int n, float x)
{
    return ynf(n, x);
}
SMEMKIT_INLINE void sincospi(float x, float *sine, float *cosine)
{
    sincospif(x, sine, cosine);
}
SMEMKIT_INLINE void sincos(float x, float *sine, float *cosine)
{
    sincosf(x, sine, cosine);
}

/* ---- integers ---- */

SMEMKIT_FUNCTION_1(unsigned short, __nv_bswap16, unsigned short, __builtin_bswap16(x))
SMEMKIT_FUNCTION_1(unsigned, __nv_bswap32, unsigned, __builtin_bswap32(x))
SMEMKIT_FUNCTION_1(unsigned long long, __nv_bswap64, unsigned long long, __builtin_bswap64(x))

namespace smemkit
{
/* the sum of `sum` and the products of the 16-bit numbers of a with two bytes of b, from bit `from` on */
template <class Sum, class Half, class Byte>
SMEMKIT_INLINE Sum dot_of_two(Sum a, Sum b, Sum sum, int from)
{
    for (int i = 0; i < 2; i++)
        sum += (Sum)(Half)(a >> 16 * i) * (Sum)(Byte)(b >> (from + 8 * i));
    return sum;
}
} // namespace smemkit
#define SMEMKIT_DP2A(name, from)                                                                      \
    SMEMKIT_FUNCTION_3(int, name, int, (smemkit::dot_of_two<int, short, signed char>(x, y, z, from))) \
    SMEMKIT_FUNCTION_3(unsigned, name, unsigned,                                                      \
                       (smemkit::dot_of_two<unsigned, unsigned short, unsigned char>(x, y, z, from)))
SMEMKIT_DP2A(__dp2a_lo, 0)
SMEMKIT_DP2A(__dp2a_hi, 16)
#undef SMEMKIT_DP2A

/* The position of the offset-th bit of `mask` from `base` on, upwards or downwards; ~0 if there is none */
SMEMKIT_INLINE unsigned __fns(unsigned mask, unsigned base, int offset)
{
    if (offset == 0)
        return base < 32 && mask >> base & 1 ? base : ~0u;
    const int step = offset > 0 ? 1 : -1;
    int left = offset > 0 ? offset : -offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0)
            return (unsigned)at;
    return ~0u;
}

#endif
