// The 16-bit types: every value to float and back, arithmetic that rounds once, atomics.
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// All 65536 bit patterns: conversion to float and back is the identity, and NaNs stay NaNs.
__global__ void there_and_back(int *wrong_half, int *wrong_bfloat)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half h = __ushort_as_half((unsigned short)i);
    const __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)i);
    const float hf = __half2float(h), bf = __bfloat162float(b);
    if (hf == hf ? __half_as_ushort(__float2half(hf)) != i : !__hisnan(__float2half(hf)))
        atomicAdd(wrong_half, 1);
    if (bf == bf ? __bfloat16_as_ushort(__float2bfloat16(bf)) != i : !__hisnan(__float2bfloat16(bf)))
        atomicAdd(wrong_bfloat, 1);
}

// Ties round to even. `x` holds floats, `out` the bits of their __half.
__global__ void round_to_half(const float *x, int *out)
{
    out[threadIdx.x] = __half_as_ushort(__float2half(x[threadIdx.x]));
}

__global__ void round_to_bfloat(const float *x, int *out)
{
    out[threadIdx.x] = __bfloat16_as_ushort(__float2bfloat16(x[threadIdx.x]));
}

// Not through float: a double that float rounds to a tie is not a tie itself.
__global__ void round_doubles(const double *x, int *half, int *bfloat)
{
    half[threadIdx.x] = __half_as_ushort(__double2half(x[threadIdx.x]));
    bfloat[threadIdx.x] = __bfloat16_as_ushort(__double2bfloat16(x[threadIdx.x]));
}

__global__ void round_integers(const long long *x, int *bfloat)
{
    bfloat[0] = __bfloat16_as_ushort(__int2bfloat16_rn((int)x[0]));
    bfloat[1] = __bfloat16_as_ushort(__nv_bfloat16(x[1]));
    bfloat[2] = __bfloat16_as_ushort(__nv_bfloat16(-x[1]));
}

__global__ void arithmetic(float *out)
{
    const __half a = __float2half(1.5f), b = __float2half(-0.25f);
    const __half2 pair = __floats2half2_rn(3.0f, 4.0f), sum = __hadd2(pair, pair);
    const float values[] = {__half2float(__hadd(a, b)),
                            __half2float(a * b),
                            __half2float(__hdiv(a, b)),
                            __half2float(__hfma(a, b, a)),
                            __half2float(__hmax(a, b)),
                            __hlt(b, a) ? 1.0f : 0.0f,
                            __low2float(sum),
                            __high2float(sum),
                            __half22float2(__hmul2(pair, pair)).y,
                            __bfloat162float(__float2bfloat16(3.0f) - __float2bfloat16(0.5f)),
                            __half2float(__hadd(__float2half(2048.0f), __float2half(1.0f))),
                            __half2float(__shfl_sync(1u, a, 0))};
    for (int i = 0; i < 12; i++)
        out[i] = values[i];
}

__global__ void sums(__half *h, __half2 *h2, __nv_bfloat16 *b, __nv_bfloat162 *b2)
{
    atomicAdd(h, __float2half(1.0f));
    atomicAdd(h2, __floats2half2_rn(1.0f, -2.0f));
    atomicAdd(b, __float2bfloat16(0.5f));
    atomicAdd(b2, __floats2bfloat162_rn(0.25f, 1.0f));
}

__global__ void read(const __half *h, const __half2 *h2, const __nv_bfloat16 *b, const __nv_bfloat162 *b2,
                     float *out)
{
    out[0] = __half2float(*h);
    out[1] = __low2float(*h2);
    out[2] = __high2float(*h2);
    out[3] = __bfloat162float(*b);
    out[4] = __low2float(*b2);
    out[5] = __high2float(*b2);
}

int main()
{
    Array<int> wrong_half(1), wrong_bfloat(1);
    wrong_half.zero();
    wrong_bfloat.zero();
    there_and_back<<<256, 256>>>(wrong_half.device, wrong_bfloat.device);
    RUNS();
    wrong_half.download();
    wrong_bfloat.download();
    EQUAL(wrong_half[0], 0);
    EQUAL(wrong_bfloat[0], 0);

    const float points[] = {
        1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65519.0f, 65520.0f, 0x1p-25f, 3 * 0x1p-25f, 0x1p-14f, -0.0f, 1e30f,
        -1e-30f};
    const int half_bits[] = {0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x0000, 0x0002, 0x0400, 0x8000, 0x7c00, 0x8000};
    const float bfloat_points[] = {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, 3.4e38f, -0.0f};
    const int bfloat_bits[] = {0x3f80, 0x3f82, 0x7f80, 0x8000};
    Array<float> x(10);
    Array<int> bits(10);
    for (int i = 0; i < 10; i++)
        x[i] = points[i];
    x.upload();
    round_to_half<<<1, 10>>>(x.device, bits.device);
    RUNS();
    bits.download();
    for (int i = 0; i < 10; i++)
        EQUAL_AT(i, bits[i], half_bits[i]);
    for (int i = 0; i < 4; i++)
        x[i] = bfloat_points[i];
    x.upload();
    round_to_bfloat<<<1, 4>>>(x.device, bits.device);
    RUNS();
    bits.download();
    for (int i = 0; i < 4; i++)
        EQUAL_AT(i, bits[i], bfloat_bits[i]);

    const double doubles[] = {1 + 0x1p-11 + 0x1p-40,
                              1 + 3 * 0x1p-11 - 0x1p-40,
                              1 + 0x1p-8 + 0x1p-40,
                              65520 - 0x1p-20,
                              0x1p-25 + 0x1p-60,
                              1e-300,
                              -1e-300,
                              1e300,
                              -1e300};
    const int half_of_double[] = {0x3c01, 0x3c01, 0x3c04, 0x7bff, 0x0001, 0x0000, 0x8000, 0x7c00, 0xfc00};
    const int bfloat_of_double[] = {0x3f80, 0x3f80, 0x3f81, 0x4780, 0x3300, 0x0000, 0x8000, 0x7f80, 0xff80};
    Array<double> wide(9);
    Array<int> bfloats(9);
    for (int i = 0; i < 9; i++)
        wide[i] = doubles[i];
    wide.upload();
    round_doubles<<<1, 9>>>(wide.device, bits.device, bfloats.device);
    RUNS();
    bits.download();
    bfloats.download();
    for (int i = 0; i < 9; i++) {
        EQUAL_AT(i, bits[i], half_of_double[i]);
        EQUAL_AT(i, bfloats[i], bfloat_of_double[i]);
    }

    Array<long long> integers(2);
    integers[0] = (1 << 24) + (1 << 16) + 1;
    integers[1] = (1LL << 62) + (1LL << 54) + 1;
    integers.upload();
    round_integers<<<1, 1>>>(integers.device, bfloats.device);
    RUNS();
    bfloats.download();
    EQUAL(bfloats[0], 0x4b81);
    EQUAL(bfloats[1], 0x5e81);
    EQUAL(bfloats[2], 0xde81);

    const float expected[] = {1.25f, -0.375f, -6, 1.125f, 1.5f, 1, 6, 8, 16, 2.5f, 2048, 1.5f};
    Array<float> out(12);
    arithmetic<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 12; i++)
        EQUAL_AT(i, out[i], expected[i]);

    Array<__half> h(1);
    Array<__half2> h2(1);
    Array<__nv_bfloat16> b(1);
    Array<__nv_bfloat162> b2(1);
    h.zero();
    h2.zero();
    b.zero();
    b2.zero();
    sums<<<4, 64>>>(h.device, h2.device, b.device, b2.device);
    RUNS();
    read<<<1, 1>>>(h.device, h2.device, b.device, b2.device, out.device);
    RUNS();
    out.download();
    const float totals[] = {256, 256, -512, 128, 64, 256};
    for (int i = 0; i < 6; i++)
        EQUAL_AT(i, out[i], totals[i]);
    return verdict();
}
