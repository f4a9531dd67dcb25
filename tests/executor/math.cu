// The device functions and the vector types: exact where CUDA defines the bits, bounded by its tables elsewhere.
#include "check.h"

#include <cfloat>
#include <climits>
#include <cmath>

// ---- layouts --------------------------------------------------------------------------------------------------

#define LAYOUT(type, size, alignment)           \
    static_assert(sizeof(type) == size, #type); \
    static_assert(alignof(type) == alignment, #type)

LAYOUT(char1, 1, 1);
LAYOUT(uchar1, 1, 1);
LAYOUT(char2, 2, 2);
LAYOUT(uchar2, 2, 2);
LAYOUT(char3, 3, 1);
LAYOUT(uchar3, 3, 1);
LAYOUT(char4, 4, 4);
LAYOUT(uchar4, 4, 4);
LAYOUT(short1, 2, 2);
LAYOUT(ushort1, 2, 2);
LAYOUT(short2, 4, 4);
LAYOUT(ushort2, 4, 4);
LAYOUT(short3, 6, 2);
LAYOUT(ushort3, 6, 2);
LAYOUT(short4, 8, 8);
LAYOUT(ushort4, 8, 8);
LAYOUT(int1, 4, 4);
LAYOUT(uint1, 4, 4);
LAYOUT(int2, 8, 8);
LAYOUT(uint2, 8, 8);
LAYOUT(int3, 12, 4);
LAYOUT(uint3, 12, 4);
LAYOUT(int4, 16, 16);
LAYOUT(uint4, 16, 16);
LAYOUT(long1, 8, 8);
LAYOUT(ulong2, 16, 16);
LAYOUT(longlong1, 8, 8);
LAYOUT(ulonglong1, 8, 8);
LAYOUT(longlong2, 16, 16);
LAYOUT(ulonglong2, 16, 16);
LAYOUT(longlong3, 24, 8);
LAYOUT(float1, 4, 4);
LAYOUT(float2, 8, 8);
LAYOUT(float3, 12, 4);
LAYOUT(float4, 16, 16);
LAYOUT(double1, 8, 8);
LAYOUT(double2, 16, 16);
LAYOUT(double3, 24, 8);
LAYOUT(dim3, 12, 4);
static_assert(sizeof(double4) == 32, "its alignment depends on the toolkit");
static_assert(sizeof(longlong4) == 32, "its alignment depends on the toolkit");
static_assert(std::is_trivially_copyable<float4>::value && std::is_standard_layout<float4>::value,
              "a plain struct");

__global__ void vectors(double *out)
{
    const float4 f = make_float4(1, 2, 3, 4);
    const int3 i = make_int3(-1, -2, -3);
    const uchar4 u = make_uchar4(250, 251, 252, 253);
    double2 d = make_double2(0.5, 0.25);
    d.y += d.x;
    const dim3 one, two(5, 6);
    const uint3 braces = {7, 8, 9};
    out[0] = f.x + 10 * f.y + 100 * f.z + 1000 * f.w;
    out[1] = i.x + 10 * i.y + 100 * i.z;
    out[2] = u.x + u.y + u.z + u.w;
    out[3] = d.x + d.y;
    out[4] = one.x + 10 * one.y + 100 * one.z;
    out[5] = two.x + 10 * two.y + 100 * two.z;
    out[6] = braces.x + 10 * braces.y + 100 * braces.z;
    out[7] = make_short2(-4, 3).x + make_char3(1, 2, -3).z + (int)make_uint2(4, 5).y + make_float2(0.5f, 1).x +
             make_int4(1, 2, 3, 4).w + make_float3(1, 2, 3).z + make_double4(1, 2, 3, 4).w;
    out[8] = make_longlong2(1ll << 40, 2).x;
}

static void vector_types()
{
    Array<double> out(9);
    vectors<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 4321);
    EQUAL(out[1], -321);
    EQUAL(out[2], 250 + 251 + 252 + 253);
    EQUAL(out[3], 1.25);
    EQUAL(out[4], 111);
    EQUAL(out[5], 165);
    EQUAL(out[6], 987);
    EQUAL(out[7], -4 - 3 + 5 + 0.5 + 4 + 3 + 4);
    EQUAL(out[8], 1ll << 40);
    const dim3 by_default, from_int = 3;
    EQUAL(by_default.x * by_default.y * by_default.z, 1u);
    EQUAL(from_int.x + from_int.y + from_int.z, 5u);
}

// ---- exact ----------------------------------------------------------------------------------------------------

// A kernel lists actual and expected values; a double holds every int and float. The factor `one` comes from the
// host, so that no compiler can compute the results.
template <typename T>
struct Result {
    T got, want;
    int line;
};

#define IS(expression, wanted) (out[n++] = {(decltype(out->got))(expression), wanted, __LINE__})

__global__ void integers(Result<double> *out, int one)
{
    int n = 0;
    const int minus = -one;
    const unsigned u5 = 5u * one;
    IS(__popc(0xf0f0u * one), 8);
    IS(__popcll(-1ll * one), 64);
    IS(__clz(one), 31);
    IS(__clz(0 * one), 32);
    IS(__clz(minus), 0);
    IS(__clzll(1ll * one), 63);
    IS(__clzll(0ll * one), 64);
    IS(__ffs(0 * one), 0);
    IS(__ffs(8 * one), 4);
    IS(__ffs(INT_MIN * one), 32);
    IS(__ffsll((1ll << 40) * one), 41);
    IS(__ffsll(0ll * one), 0);
    IS(__brev(1u * one), 2147483648.0);
    IS(__brev(0x0000f00du * one), 0xb00f0000u);
    IS(__byte_perm(0x33221100u * one, 0x77665544u, 0x7520), 0x77552200u);
    IS(__funnelshift_l(0x12345678u * one, 0x9abcdef0u, 8), 0xbcdef012u);
    IS(__funnelshift_r(0x12345678u * one, 0x9abcdef0u, 8), 0xf0123456u);
    IS(__funnelshift_l(0x12345678u * one, 0x9abcdef0u, 32), 0x9abcdef0u); // modulo 32
    IS(__funnelshift_r(0x12345678u * one, 0x9abcdef0u, 0), 0x12345678u);
    IS(__funnelshift_lc(0x12345678u * one, 0x9abcdef0u, 40), 0x12345678u); // clamped to 32
    IS(__funnelshift_rc(0x12345678u * one, 0x9abcdef0u, 40), 0x9abcdef0u);
    IS(__mul24(-3 * one, 1000), -3000);
    IS(__umul24(0x01000003u * one, 5u), 15); // the upper byte is ignored
    IS(__mulhi(INT_MIN * one, 2), -1);
    IS(__mulhi(-5 * one, 7), -1);
    IS(__umulhi(0xffffffffu * one, 0xffffffffu), 0xfffffffeu);
    IS(__sad(-5 * one, 7, 100u), 112);
    IS(__usad(u5, 7u, 100u), 102);
    IS(__hadd(-3 * one, 6), 1);
    IS(__rhadd(-3 * one, 6), 2);
    IS(__uhadd(0xffffffffu * one, 1u), 2147483648.0);
    IS(min(minus, 5), -1);
    IS(max(3 * one, -4), 3);
    IS(min(minus, u5), 5); // all of these compare as unsigned
    IS(min(u5, minus), 5);
    IS(max(minus, u5), 4294967295.0);
    IS(max(u5, minus), 4294967295.0);
    IS(min(-1ll * one, 5ll), -1);
    IS(umin(u5, 3u), 3);
    IS(umax(u5, 3u), 5);
    IS(abs(-7 * one), 7);
    IS(min(2.5f * one, 1.5f), 1.5);
    IS(max(2.5 * one, 1.5), 2.5);
    IS(max(2.5f * one, 3.5), 3.5); // float and double
}

__global__ void wide_integers(Result<long long> *out, int one)
{
    int n = 0;
    IS(__brevll(1ull * one), LLONG_MIN);
    IS(__mul64hi((1ll << 62) * one, -8ll), -2);
    IS(__umul64hi(~0ull * one, ~0ull), -2);
    IS(llabs(-(1ll << 40) * one), 1ll << 40);
    IS(min((1ll << 40) * one, 1ll << 41), 1ll << 40);
    IS(max(1ull << 63, 5ull * one), LLONG_MIN);
    IS(max(-1ll * one, 5ull), -1); // as unsigned
    IS(__double_as_longlong(1.0 * one), 0x3ff0000000000000ll);
    IS(__float2ll_rn(1099511627776.0f * one), 1ll << 40);
    IS(__double2ll_rz(-4503599627370497.0 * one), -4503599627370497ll);
    IS(__float2ull_rz(1e30f * one), -1); // saturates
}

__global__ void conversions(Result<double> *out, int one)
{
    int n = 0;
    const float f = one;
    IS(__float_as_int(1.0f * f), 0x3f800000);
    IS(__float_as_uint(-2.0f * f), 0xc0000000u);
    IS(__int_as_float(0x40490fdb * one), 3.1415927410125732421875);
    IS(__uint_as_float(0xc0000000u * one), -2);
    IS(__longlong_as_double(0x4000000000000000ll * one), 2);
    IS(__hiloint2double(0x40080000 * one, 0), 3);
    IS(__double2hiint(-2.0 * f), -1073741824);
    IS(__double2loint(4294967297.0 * f), 1048576);
    IS(__float2int_rn(2.5f * f), 2); // ties to even
    IS(__float2int_rn(3.5f * f), 4);
    IS(__float2int_rn(-2.5f * f), -2);
    IS(__float2int_rz(-2.7f * f), -2);
    IS(__float2int_ru(2.1f * f), 3);
    IS(__float2int_rd(-2.1f * f), -3);
    IS(__float2uint_rn(3e9f * f), 3e9);
    IS(__float2int_rz(1e20f * f), INT_MAX); // these saturate
    IS(__float2int_rz(-1e20f * f), INT_MIN);
    IS(__float2int_rn(NAN * f), 0);
    IS(__float2uint_rz(-5.0f * f), 0);
    IS(__double2int_rz(1e300 * f), INT_MAX);
    IS(__double2int_rn(-1.5 * f), -2);
    IS(__double2uint_rn(4294967295.0 * f), 4294967295.0);
    IS(__int2float_rn(16777217 * one), 16777216);
    IS(__int2float_ru(16777217 * one), 16777218);
    IS(__int2float_rz(-16777217 * one), -16777216);
    IS(__uint2float_rn(4294967295u * one), 4294967296.0);
    IS(__double2float_rn(0.1 * f), 0.1f);
    IS(__double2float_rz(0.1 * f), 0.099999994039535522);
    IS(__int2double_rn(-7 * one), -7);
    IS(__uint2double_rn(4294967295u * one), 4294967295.0);
}

__global__ void exact_floats(Result<double> *out, int unit)
{
    int n = 0;
    const float one = unit, eps = FLT_EPSILON * one, nan = NAN * one;
    const double deps = DBL_EPSILON * unit;
    IS(fminf(2 * one, -3), -3);
    IS(fmaxf(2 * one, -3), 2);
    IS(fminf(nan, 4), 4); // the number, not the NaN
    IS(fmaxf(4, nan), 4);
    IS(fmin((double)nan, 4.0), 4);
    IS(fmax(4.0, (double)nan), 4);
    IS(sqrtf(2 * one), 0x1.6a09e6p+0);
    IS(sqrt(2.0 * one), 0x1.6a09e667f3bcdp+0);
    IS(fmaf(1 + eps, 1 - eps, -1), -0x1p-46); // one rounding
    IS(__fmaf_rn(1 + eps, 1 - eps, -1), -0x1p-46);
    IS(fma(1 + deps, 1 - deps, -1.0), -0x1p-104);
    IS(__fma_rn(1 + deps, 1 - deps, -1.0), -0x1p-104);
    IS(__fadd_rn(__fmul_rn(1 + eps, 1 - eps), -1), 0); // two roundings: never contracted
    IS(__dadd_rn(__dmul_rn(1 + deps, 1 - deps), -1.0), 0);
    IS(__fsub_rn(__fmul_rn(1 + eps, 1 - eps), 1), 0);
    IS(one / 3, 1.0f / 3);
    IS(__fdiv_rn(one, 3), 1.0f / 3);
    IS(__frcp_rn(3 * one), 1.0f / 3);
    IS(__fsqrt_rn(2 * one), 0x1.6a09e6p+0);
    IS(__dsqrt_rn(2.0 * one), 0x1.6a09e667f3bcdp+0);
    IS(__ddiv_rn(1.0 * one, 3.0), 1.0 / 3);
    IS(__fadd_rn(1, eps / 4), 1);
    IS(__fadd_ru(1, eps / 4), 1 + FLT_EPSILON);
    IS(__fadd_rd(1, -eps / 8), 1 - FLT_EPSILON / 2);
    IS(__fmul_rz(-(1 + eps), 1 + eps), -(1 + 2 * FLT_EPSILON));
    IS(__saturatef(1.5f * one), 1);
    IS(__saturatef(-0.5f * one), 0);
    IS(__saturatef(0.25f * one), 0.25);
    IS(__saturatef(nan), 0);
    IS(fabsf(-2 * one), 2);
    IS(fabs(-2.0 * one), 2);
    IS(abs(-2.5f * one), 2.5);
    IS(floorf(-1.5f * one), -2);
    IS(ceilf(-1.5f * one), -1);
    IS(truncf(-1.5f * one), -1);
    IS(rintf(2.5f * one), 2);
    IS(roundf(2.5f * one), 3);
    IS(nearbyintf(3.5f * one), 4);
    IS(floor(1e10 * one + 0.5), 1e10);
    IS(fmodf(-7.5f * one, 2), -1.5);
    IS(remainderf(7.5f * one, 2), -0.5);
    IS(copysignf(3 * one, -0.0f), -3);
    IS(fdimf(5 * one, 3), 2);
    IS(ldexpf(3 * one, 4), 48);
    IS(scalbnf(3 * one, -1), 1.5);
    IS(lrintf(2.5f * one), 2);
    IS(llrint(-1.5 * one), -2);
    IS(isnan(nan) != 0, 1);
    IS(isnan(one) != 0, 0);
    IS(isinf(INFINITY * one) != 0, 1);
    IS(isfinite(nan) != 0, 0);
    IS(signbit(-one) != 0, 1);
}

template <typename T>
static void listed(void (*kernel)(Result<T> *, int))
{
    const int most = 100;
    Array<Result<T>> out(most);
    out.zero();
    kernel<<<1, 1>>>(out.device, 1);
    RUNS();
    out.download();
    EQUAL(out[0].line > 0 && out[most - 1].line == 0, true);
    for (int i = 0; i < most && out[i].line; ++i)
        equal("math.cu", out[i].line, "this", -1, out[i].got, out[i].want);
}

// ---- bounded: ulps from the CUDA guide's tables ---------------------------------------------------------------

#define FLOATS(F)                                 \
    F(rsqrtf(x), 1 / sqrt(x), 2)                  \
    F(cbrtf(x), cbrt(x), 1)                       \
    F(rcbrtf(x), 1 / cbrt(x), 1)                  \
    F(expf(x), exp(x), 2)                         \
    F(exp2f(x), exp2(x), 2)                       \
    F(exp10f(x), pow(10, x), 2)                   \
    F(expm1f(x), expm1(x), 1)                     \
    F(logf(x), log(x), 1)                         \
    F(log2f(x), log2(x), 1)                       \
    F(log10f(x), log10(x), 2)                     \
    F(log1pf(x), log1p(x), 1)                     \
    F(sinf(x), sin(x), 2)                         \
    F(cosf(x), cos(x), 2)                         \
    F(tanf(x), tan(x), 4)                         \
    F(atanf(x), atan(x), 2)                       \
    F(asinf(x / 8), asin((double)(x / 8)), 2)     \
    F(acosf(x / 8), acos((double)(x / 8)), 2)     \
    F(atan2f(x, -2), atan2(x, -2.0), 3)           \
    F(sinhf(x), sinh(x), 3)                       \
    F(coshf(x), cosh(x), 2)                       \
    F(tanhf(x), tanh(x), 2)                       \
    F(erff(x), erf(x), 2)                         \
    F(erfcf(x), erfc(x), 4)                       \
    F(tgammaf(x), tgamma(x), 5)                   \
    F(hypotf(x, 3), hypot(x, 3.0), 3)             \
    F(powf(x, 1.5f), pow(x, 1.5), 4)              \
    F(sinpif(x / 16), sin(M_PI *x / 16), 2)       \
    F(cospif(x / 16), cos(M_PI *x / 16), 2)       \
    F(normcdff(x), 0.5 * erfc(-x * M_SQRT1_2), 5) \
    F(rhypotf(x, 3), 1 / hypot(x, 3.0), 2)        \
    F(norm3df(x, 3, 4), sqrt(x *x + 25), 3)       \
    F(__fdividef(x, 3), x / 3, 2)                 \
    F(__frsqrt_rn(x), 1 / sqrt(x), 1)             \
    F(__expf(x), exp(x), 16)                      \
    F(__exp10f(x), pow(10, x), 64)                \
    F(__powf(x, 1.5f), pow(x, 1.5), 256)          \
    F(sqrtf(x) + (float)sqrt(x) + std::sqrt(x), 3 * sqrt(x), 4)

// The absolute error of these is bounded, by about 2^-21 near 1.
#define APPROXIMATE(F)     \
    F(__sinf(x), sin(x))   \
    F(__cosf(x), cos(x))   \
    F(__logf(x), log(x))   \
    F(__log2f(x), log2(x)) \
    F(__log10f(x), log10(x))

static const float points[] = {0.3f, 0.75f, 1.25f, 2.0f, 3.0f, 4.7f};
static const int POINTS = 6;

__global__ void float_functions(const float *xs, float *out)
{
    const float x = xs[threadIdx.x];
    int n = 0;
#define F(call, ...) out[POINTS * n++ + threadIdx.x] = call;
    FLOATS(F)
    APPROXIMATE(F)
#undef F
}

__global__ void pairs(const float *xs, float *s, float *c, double *ds, double *dc)
{
    const float x = xs[threadIdx.x];
    const int i = threadIdx.x;
    sincosf(x, &s[i], &c[i]);
    __sincosf(x, &s[i + POINTS], &c[i + POINTS]);
    sincos(x, &ds[i], &dc[i]);
    int exponent;
    float whole;
    const float fraction = frexpf(x, &exponent), rest = modff(x, &whole);
    ds[i + POINTS] = ldexpf(fraction, exponent);
    dc[i + POINTS] = rest + whole;
}

static double ulp(double x)
{
    return ldexp(1, ilogb(x) - 23);
}

static void bounded()
{
    Array<float> xs(POINTS), out(64 * POINTS), s(2 * POINTS), c(2 * POINTS);
    Array<double> ds(2 * POINTS), dc(2 * POINTS);
    memcpy(xs.host, points, sizeof points);
    xs.upload();
    float_functions<<<1, POINTS>>>(xs.device, out.device);
    pairs<<<1, POINTS>>>(xs.device, s.device, c.device, ds.device, dc.device);
    RUNS();
    out.download();
    s.download();
    c.download();
    ds.download();
    dc.download();
    for (int i = 0; i < POINTS; ++i) {
        const double x = points[i];
        int n = 0;
#define F(call, want, ulps)                                                       \
    within(__LINE__, #call, out[POINTS * n + i], want, (ulps + 0.5) * ulp(want)); \
    ++n;
        FLOATS(F)
#undef F
#define F(call, want)                                         \
    within(__LINE__, #call, out[POINTS * n + i], want, 3e-6); \
    ++n;
        APPROXIMATE(F)
#undef F
        WITHIN(s[i], sin(x), 2.5 * ulp(sin(x)));
        WITHIN(c[i], cos(x), 2.5 * ulp(cos(x)));
        WITHIN(s[i + POINTS], sin(x), 3e-6);
        WITHIN(c[i + POINTS], cos(x), 3e-6);
        WITHIN(ds[i], sin(x), 4e-16);
        WITHIN(dc[i], cos(x), 4e-16);
        EQUAL_AT(i, ds[i + POINTS], x);
        EQUAL_AT(i, dc[i + POINTS], x);
    }
}

// ---- loads and stores with hints ------------------------------------------------------------------------------

__global__ void hints(const float *__restrict__ in, const float4 *__restrict__ in4, float *out)
{
    const float4 v = __ldg(&in4[threadIdx.x]);
    const int i = threadIdx.x;
    out[i] = __ldg(&in[i]) + __ldcg(&in[i]) + __ldcs(&in[i]) + __ldca(&in[i]) + v.w;
    __stcg(&out[4 + i], in[i]);
    __stcs(&out[8 + i], in[i]);
}

static void hinted()
{
    Array<float> in(16), out(12);
    for (int i = 0; i < 16; ++i)
        in[i] = (float)i;
    in.upload();
    hints<<<1, 4>>>(in.device, (const float4 *)in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 4; ++i) {
        EQUAL_AT(i, out[i], 4 * i + 4 * i + 3);
        EQUAL_AT(i, out[4 + i], i);
        EQUAL_AT(i, out[8 + i], i);
    }
}

int main()
{
    vector_types();
    listed(integers);
    listed(wide_integers);
    listed(conversions);
    listed(exact_floats);
    bounded();
    hinted();
    return verdict();
}
