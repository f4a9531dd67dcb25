// Halves and bfloat16s: the functions and operators that both have, for single values and for pairs.
#include "check.h"

#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
struct Names;
template <>
struct Names<__half> {
    using Pair = __half2;
    static constexpr double EPS = 1.0 / 1024;
    __host__ __device__ static __half make(float x)
    {
        return __float2half(x);
    }
    __device__ static __half2 make2(float x, float y)
    {
        return __floats2half2_rn(x, y);
    }
    __device__ static float low(__half2 x)
    {
        return __half2float(__low2half(x));
    }
    __device__ static float high(__half2 x)
    {
        return __half2float(__high2half(x));
    }
    __device__ static __half2 swapped(__half2 x)
    {
        return __halves2half2(__high2half(x), __low2half(x));
    }
    __device__ static __half2 lows(__half2 x, __half2 y)
    {
        return __hadd2(__lows2half2(x, y), __hsub2(__high2half2(x), __highs2half2(x, x)));
    }
    __device__ static int integers(__half x)
    {
        return 1000 * __half2int_rn(x) + 100 * __half2int_rz(x) + 10 * __half2int_rd(x) + __half2int_ru(x);
    }
    __device__ static __half of(int x)
    {
        return __int2half_rn(x);
    }
};
template <>
struct Names<__nv_bfloat16> {
    using Pair = __nv_bfloat162;
    static constexpr double EPS = 1.0 / 128;
    __host__ __device__ static __nv_bfloat16 make(float x)
    {
        return __float2bfloat16(x);
    }
    __device__ static __nv_bfloat162 make2(float x, float y)
    {
        return __floats2bfloat162_rn(x, y);
    }
    __device__ static float low(__nv_bfloat162 x)
    {
        return __bfloat162float(__low2bfloat16(x));
    }
    __device__ static float high(__nv_bfloat162 x)
    {
        return __bfloat162float(__high2bfloat16(x));
    }
    __device__ static __nv_bfloat162 swapped(__nv_bfloat162 x)
    {
        return __halves2bfloat162(__high2bfloat16(x), __low2bfloat16(x));
    }
    __device__ static __nv_bfloat162 lows(__nv_bfloat162 x, __nv_bfloat162 y)
    {
        return __hadd2(__lows2bfloat162(x, y), __hsub2(__high2bfloat162(x), __highs2bfloat162(x, x)));
    }
    __device__ static int integers(__nv_bfloat16 x)
    {
        return 1000 * __bfloat162int_rn(x) + 100 * __bfloat162int_rz(x) + 10 * __bfloat162int_rd(x) +
               __bfloat162int_ru(x);
    }
    __device__ static __nv_bfloat16 of(int x)
    {
        return __int2bfloat16_rn(x);
    }
};

// ---- arithmetic -----------------------------------------------------------------------------------------------

enum { ARITHMETIC = 26, FUNCTIONS = 16, COMPARISONS = 17 };

template <typename T>
__global__ void arithmetic(float *out)
{
    using N = Names<T>;
    const T x = N::make(1.5f), y = N::make(-0.25f), z = N::make(4.0f);
    const auto xy = N::make2(1.5f, -0.25f), zz = N::make2(4.0f, 0.5f);
    int n = 0;
    auto keep = [&](float value) { out[n++] = value; };
    keep(x + y);
    keep(x - y);
    keep(x * y);
    keep(x / y);
    keep(-x);
    T t = x;
    t += z;
    t *= y;
    t -= x;
    t /= z;
    ++t;
    t++;
    keep(t);
    keep(__hadd(x, y));
    keep(__hmul_sat(x, z));
    keep(__hsub_sat(y, x));
    keep(__hdiv(z, x));
    keep(__hfma(x, y, z));
    keep(__hfma_sat(x, z, y));
    keep(__hneg(z));
    keep(__habs(y));
    keep(__hmax(x, y));
    keep(__hmin(x, y));
    const auto sum = xy + zz, product = __hmul2(xy, zz), fused = __hfma2(xy, zz, xy);
    keep(N::low(sum));
    keep(N::high(sum));
    keep(N::low(product));
    keep(N::high(product));
    keep(N::low(fused));
    keep(N::high(__hneg2(fused)));
    keep(N::low(N::swapped(xy)));
    keep(N::high(N::lows(xy, zz)));
    auto pair = xy;
    pair *= zz;
    pair = pair - zz;
    keep(N::low(pair));
    keep(N::high(h2sqrt(zz * zz)));
}

template <typename T>
static void calculated()
{
    const double third = 8.0 / 3;
    const double want[ARITHMETIC] = {1.25,  1.75,   -0.375, -6,    -1.5,  1.28125, 1.25,  1,   0,
                                     third, 3.625,  1,      -4,    0.25,  1.5,     -0.25, 5.5, 0.25,
                                     6,     -0.125, 7.5,    0.375, -0.25, 4,       2,     0.5};
    Array<float> out(ARITHMETIC);
    arithmetic<T><<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < ARITHMETIC; ++i)
        if (i == 5 || i == 9)
            WITHIN(out[i], want[i], 3 * Names<T>::EPS);
        else
            EQUAL_AT(i, out[i], want[i]);
}

// ---- functions ------------------------------------------------------------------------------------------------

template <typename T>
__global__ void functions(float *out)
{
    using N = Names<T>;
    const T x = N::make(2.25f);
    int n = 0;
    auto keep = [&](float value) { out[n++] = value; };
    keep(hsqrt(x));
    keep(hrsqrt(x));
    keep(hrcp(x));
    keep(hexp(x));
    keep(hexp2(x));
    keep(hexp10(N::make(0.5f)));
    keep(hlog(x));
    keep(hlog2(x));
    keep(hlog10(x));
    keep(hsin(x));
    keep(hcos(x));
    keep(hceil(x));
    keep(hfloor(-x));
    keep(htrunc(-x));
    keep(hrint(N::make(2.5f)));
    keep(N::high(h2exp(N::make2(0.0f, 2.25f))));
}

template <typename T>
static void functioned()
{
    const double x = 2.25;
    const double want[FUNCTIONS] = {1.5,      1 / 1.5, 1 / x,  exp(x), exp2(x), sqrt(10.0), log(x), log2(x),
                                    log10(x), sin(x),  cos(x), 3,      -3,      -2,         2,      exp(x)};
    Array<float> out(FUNCTIONS);
    functions<T><<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < FUNCTIONS; ++i)
        WITHIN(out[i], want[i], 2 * Names<T>::EPS * std::fabs(want[i]));
}

// ---- comparisons ----------------------------------------------------------------------------------------------

template <typename T>
__global__ void comparisons(int *out)
{
    using N = Names<T>;
    const T one = N::make(1.0f), two = N::make(2.0f), nan = N::make(NAN);
    const auto a = N::make2(1.0f, 2.0f), b = N::make2(1.0f, 3.0f);
    int n = 0;
    auto keep = [&](int value) { out[n++] = value; };
    keep(one < two);
    keep(one == two);
    keep(one >= nan);
    keep(one != nan);
    keep(__hlt(two, one));
    keep(__hge(two, two));
    keep(__heq(nan, nan));
    keep(__hne(one, two));
    keep(__hltu(one, nan));
    keep(__hisnan(nan));
    keep(__hisinf(N::make(-INFINITY)));
    keep(__hbeq2(a, b));
    keep(__hble2(a, b));
    keep((int)N::low(__heq2(a, b)));
    keep((int)N::high(__heq2(a, b)));
    keep(a == b);
    keep(__hisnan(__hmax_nan(one, nan)) + 2 * __hisnan(__hmax(one, nan)));
}

template <typename T>
static void compared()
{
    const int want[COMPARISONS] = {1, 0, 0, 1, 0, 1, 0, 1, 1, 1, -1, 0, 1, 1, 0, 0, 1};
    Array<int> out(COMPARISONS);
    comparisons<T><<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < COMPARISONS; ++i)
        EQUAL_AT(i, out[i], want[i]);
}

// ---- conversions, and halves in shared memory -----------------------------------------------------------------

template <typename T>
__global__ void conversions(int *out)
{
    using N = Names<T>;
    out[0] = N::integers(N::make(2.5f));
    out[1] = N::integers(N::make(-2.5f));
    out[2] = (int)(float)N::of(17);
}

__global__ void directed(float *out)
{
    out[0] = __half2float(__float2half_rz(1.0009f));
    out[1] = __half2float(__float2half_ru(1.0001f));
    out[2] = __half2float(__float2half_rd(-1.0001f));
    out[3] = __half2float(__float2half_rn(1.0009f));
    const __half_raw raw = __float2half(0.5f);
    out[4] = raw.x;
    out[5] = __half2float(__ushort_as_half(__half_as_ushort(__half(raw))));
}

template <typename T>
__global__ void summed(const T *in, float *out)
{
    __shared__ T items[64];
    const int i = threadIdx.x;
    items[i] = in[i];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (i < half)
            items[i] += items[i + half];
        __syncthreads();
    }
    T most = __ldg(&in[i]);
    for (int step = 16; step > 0; step /= 2)
        most = __hmax(most, __shfl_xor_sync(0xffffffffu, most, step));
    if (i == 0) {
        out[0] = items[0];
        out[1] = most;
    }
}

template <typename T>
static void check_conversions()
{
    Array<int> out(3);
    conversions<T><<<1, 1>>>(out.device);
    RUNS();
    out.download();
    EQUAL(out[0], 2000 + 200 + 20 + 3);
    EQUAL(out[1], -2000 - 200 - 30 - 2);
    EQUAL(out[2], 17);
    Array<T> in(64);
    Array<float> sum(2);
    for (int i = 0; i < 64; ++i)
        in[i] = Names<T>::make(i % 4);
    in.upload();
    summed<T><<<1, 64>>>(in.device, sum.device);
    RUNS();
    sum.download();
    EQUAL(sum[0], 96.0f);
    EQUAL(sum[1], 3.0f);
}

int main()
{
    calculated<__half>();
    calculated<__nv_bfloat16>();
    functioned<__half>();
    functioned<__nv_bfloat16>();
    compared<__half>();
    compared<__nv_bfloat16>();
    check_conversions<__half>();
    check_conversions<__nv_bfloat16>();
    {
        Array<float> out(6);
        directed<<<1, 1>>>(out.device);
        RUNS();
        out.download();
        EQUAL(out[0], 1.0f);
        EQUAL(out[1], 1.0f + 1.0f / 1024);
        EQUAL(out[2], -1.0f - 1.0f / 1024);
        EQUAL(out[3], 1.0f + 1.0f / 1024);
        EQUAL(out[4], 0x3800);
        EQUAL(out[5], 0.5f);
    }
    return verdict();
}
