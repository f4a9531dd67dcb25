// Headers and functions that tutorials use: cache hints, constants, SIMD words, clocks, address spaces.
#include "check.h"

#include <cmath>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
#include <vector_functions.h>
#include <vector_types.h>

// ---- loads and stores with a hint -----------------------------------------------------------------------------

template <typename T>
__global__ void hinted(const T *__restrict__ in, T *__restrict__ out)
{
    const int i = threadIdx.x;
    __stcs(&out[i], __ldg(&in[i]));
    __stcg(&out[32 + i], __ldcg(&in[i]));
    __stwb(&out[64 + i], __ldca(in + i));
    __stwt(out + 96 + i, __ldcs(in + i));
    out[128 + i] = __ldcv(in + i);
}

template <typename T>
static void check_hinted(T (*make)(int))
{
    Array<T> in(32), out(160);
    for (int i = 0; i < 32; ++i)
        in[i] = make(i);
    in.upload();
    hinted<<<1, 32>>>(in.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 160; ++i)
        EQUAL_AT(i, memcmp(&out[i], &in[i % 32], sizeof(T)), 0);
}

// ---- constants ------------------------------------------------------------------------------------------------

__global__ void constants(double *out)
{
    out[0] = CUDART_PI_F;
    out[1] = CUDART_PI;
    out[2] = CUDART_INF_F > 1e38f && -CUDART_INF < -1e300;
    out[3] = CUDART_NAN_F != CUDART_NAN_F && CUDART_NAN != CUDART_NAN;
    out[4] = CUDART_SQRT_TWO_F;
    out[5] = CUDART_LN2;
    out[6] = CUDART_MAX_NORMAL_F;
}

// From the CUDA guide, for GPUs without this atomic. The executor and all current GPUs have it.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
__device__ double atomicAdd(double *address, double value);
#endif

__global__ void asks(int *out)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    *out = 7;
#else
    *out = 0;
#endif
}

// ---- integers -------------------------------------------------------------------------------------------------

__global__ void integers(long long *out)
{
    int n = 0;
    auto keep = [&](long long value) { out[n++] = value; };
    keep(__dp4a(0x01ff02fe, 0x7f038001, 10));    // 127 - 3 - 256 - 2 + 10
    keep(__dp4a(0x01ff02feu, 0x7f038001u, 10u)); // 127 + 765 + 256 + 254 + 10
    keep(llmin(-(1ll << 40), 5));
    keep(llmax(-(1ll << 40), 5));
    keep((long long)ullmin(1ull << 63, 7));
    keep(umin(3u, 0xffffffffu));
    keep(min(3u, 7) + max(-2, -5) + min(2ll, 9ll) + (long long)max(1.5f, 2.0));
    keep(__mul24(-3, 5) + (int)__umul24(0x1000003u, 2));
    keep(__sad(-3, 5, 10));
    keep(__byte_perm(0x33221100, 0x77665544, 0x7520) == 0x77552200);
    keep(__funnelshift_l(0x80000000u, 1u, 1));
    keep(__brev(1u) == 0x80000000u);
    keep(__clz(1) + 100 * __ffs(8) + 1000 * __popc(255));
    keep(__clzll(1) + 100 * __ffsll(1ll << 40) + 10000 * __popcll(~0ull));
}

static void check_integers()
{
    const long long want[] = {127 - 3 - 256 - 2 + 10,
                              127 + 765 + 256 + 254 + 10,
                              -(1ll << 40),
                              5,
                              7,
                              3,
                              3 - 2 + 2 + 2,
                              -15 + 6,
                              18,
                              1,
                              3,
                              1,
                              8431,
                              644163};
    const int count = sizeof want / sizeof *want;
    Array<long long> out(count);
    integers<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < count; ++i)
        EQUAL_AT(i, out[i], want[i]);
}

// ---- floating point -------------------------------------------------------------------------------------------

__global__ void floats(double *out, float x)
{
    float s, c;
    double ds, dc;
    sincosf(x, &s, &c);
    out[0] = s * s + c * c;
    __sincosf(x, &s, &c);
    out[1] = s;
    sincospif(0.25f, &s, &c);
    out[2] = s;
    sincospi(0.25, &ds, &dc);
    out[3] = dc;
    out[4] = __fdividef(x, 4) + fdividef(x, 2.0f);
    out[5] = __expf(x) + __logf(x) + __powf(x, 2) + __exp10f(1);
    out[6] = rsqrtf(4.0f) + __frsqrt_rn(16.0f) + __saturatef(-1.0f) + __fmaf_rn(x, 2.0f, 1.0f);
    out[7] = exp10f(2.0f) + exp10(3.0) + cbrtf(27.0f) + hypotf(3.0f, 4.0f) + fmaf(2, 3, 4);
    out[8] = erff(0.5f) + erfcf(0.5f) + tgammaf(5.0f) + lgammaf(1.0f) + copysignf(1.0f, -2.0f);
}

static void check_floats()
{
    const double x = 0.75;
    Array<double> out(9);
    floats<<<1, 1>>>(out.device, x);
    RUNS();
    out.download();
    WITHIN(out[0], 1, 1e-6);
    WITHIN(out[1], sin(x), 1e-5);
    WITHIN(out[2], sqrt(0.5), 1e-6);
    WITHIN(out[3], sqrt(0.5), 1e-12);
    WITHIN(out[4], x / 4 + x / 2, 1e-6);
    WITHIN(out[5], exp(x) + log(x) + x * x + 10, 1e-4);
    WITHIN(out[6], 0.5 + 0.25 + 2.5, 1e-6);
    WITHIN(out[7], 100 + 1000 + 3 + 5 + 10, 1e-3);
    WITHIN(out[8], 1 + 24 - 1, 1e-4);
}

// ---- atomics as they are often written ------------------------------------------------------------------------

__device__ float atomic_max(float *address, float value)
{
    int *bits = (int *)address, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__device__ double atomic_add(double *address, double value)
{
    unsigned long long int *bits = (unsigned long long int *)address;
    unsigned long long int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

__global__ void tricks(float *most, double *sum, double *direct, long long *wide, float *positive)
{
    __shared__ float block_most;
    if (threadIdx.x == 0)
        block_most = -1000;
    __syncthreads();
    const float mine = (float)(threadIdx.x * 37 % 256) - 128;
    atomic_max(&block_most, mine);
    __syncthreads();
    if (threadIdx.x == 0)
        atomic_max(most, block_most + blockIdx.x);
    atomic_add(sum, 0.5);
    atomicAdd(direct, 0.25);
    atomicAdd((unsigned long long *)wide, (unsigned long long)-(long long)threadIdx.x);
    if (mine >= 0) // non-negative floats have the order of their bits
        atomicMax((int *)positive, __float_as_int(mine));
}

// ---- clocks and addresses -------------------------------------------------------------------------------------

__global__ void clocks(int *out, const int *in)
{
    __shared__ int items[32];
    const long long before = clock64();
    const clock_t start = clock();
    items[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    const size_t address = __cvta_generic_to_shared(&items[0]), next = __cvta_generic_to_shared(&items[1]);
    const long long after = clock64();
    out[threadIdx.x] =
        (after >= before && clock() - start >= 0) + 10 * (int)(next - address) + items[31 - threadIdx.x] * 100;
}

int main()
{
    check_hinted<int>([](int i) { return 3 * i; });
    check_hinted<double>([](int i) { return 0.5 * i; });
    check_hinted<float4>([](int i) { return make_float4(i, i + 1, i + 2, i + 3); });
    {
        Array<double> out(7);
        constants<<<1, 1>>>(out.device);
        RUNS();
        out.download();
        EQUAL(out[0], 3.141592654f);
        EQUAL(out[1], 3.14159265358979323846);
        EQUAL(out[2], 1);
        EQUAL(out[3], 1);
        EQUAL(out[4], 1.41421356237f);
        EQUAL(out[5], 0.69314718055994530942);
        EQUAL(out[6], 3.402823466e38f);
    }
    {
        Array<int> out(1);
        asks<<<1, 1>>>(out.device);
        RUNS();
        out.download();
        EQUAL(out[0], 7);
    }
    check_integers();
    check_floats();
    {
        Array<float> most(1), positive(1);
        Array<double> sum(1), direct(1);
        Array<long long> wide(1);
        most.zero();
        positive.zero();
        sum.zero();
        direct.zero();
        wide.zero();
        tricks<<<4, 256>>>(most.device, sum.device, direct.device, wide.device, positive.device);
        RUNS();
        most.download();
        positive.download();
        sum.download();
        direct.download();
        wide.download();
        EQUAL(most[0], 130.0f);
        EQUAL(positive[0], 127.0f);
        EQUAL(sum[0], 512.0);
        EQUAL(direct[0], 256.0);
        EQUAL(wide[0], -4ll * 255 * 128);
    }
    {
        Array<int> in(32), out(32);
        for (int i = 0; i < 32; ++i)
            in[i] = i;
        in.upload();
        clocks<<<1, 32>>>(out.device, in.device);
        RUNS();
        out.download();
        for (int i = 0; i < 32; ++i)
            EQUAL_AT(i, out[i], 1 + 40 + 100 * (31 - i));
    }
    return verdict();
}
