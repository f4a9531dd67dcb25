// Behaviour that C++ leaves to the compiler, but that nvcc and GPUs define: each kernel depends on one such rule.
#include "check.h"

#include <cuda_fp16.h>

// Memory has no type: a value stored as one type can be loaded as another. C++ lets a compiler reorder the two.
__global__ void float_as_bits(float *x, unsigned *bits, int n)
{
    const int i = threadIdx.x;
    if (i < n) {
        x[i] = -x[i];
        *reinterpret_cast<unsigned *>(&x[i]) &= 0x7fffffffu;
        bits[i] = __float_as_uint(x[i]);
    }
}

__device__ float scaled_sum(float *x, int *as_int)
{
    x[0] = 1.0f;
    as_int[0] = 0x40000000; // 2.0f
    return x[0];
}

__global__ void two_pointers(float *x, float *out)
{
    out[threadIdx.x] = scaled_sum(&x[threadIdx.x], reinterpret_cast<int *>(&x[threadIdx.x]));
}

__global__ void halves_in_pairs(__half *x, int n)
{
    __shared__ __align__(4) __half pair[64];
    const int i = threadIdx.x;
    pair[2 * i] = x[2 * i];
    pair[2 * i + 1] = x[2 * i + 1];
    half2 both = *reinterpret_cast<half2 *>(&pair[2 * i]);
    *reinterpret_cast<half2 *>(&pair[2 * i]) = __hadd2(both, both);
    if (2 * i < n) {
        x[2 * i] = pair[2 * i];
        x[2 * i + 1] = pair[2 * i + 1];
    }
}

__global__ void floats_in_fours(const float *in, float *out)
{
    float item[4];
    *reinterpret_cast<float4 *>(item) = reinterpret_cast<const float4 *>(in)[threadIdx.x];
    for (int i = 0; i < 4; ++i)
        item[i] += (float)i;
    reinterpret_cast<float4 *>(out)[threadIdx.x] = *reinterpret_cast<float4 *>(item);
}

__global__ void bytes_of_words(unsigned *words, const unsigned char *shift)
{
    unsigned word = words[threadIdx.x];
    unsigned short *halves = reinterpret_cast<unsigned short *>(&word);
    halves[0] = (unsigned short)(halves[0] + shift[threadIdx.x]);
    word ^= 0xffff0000u;
    halves[1] += 1;
    words[threadIdx.x] = word;
}

// Integers wrap around: hash functions and random number generators rely on it.
__global__ void wraps(const int *x, int *out)
{
    const int i = threadIdx.x;
    out[i] = x[i] * 1103515245 + 12345;
}

// A char is signed on every machine.
__global__ void char_is_signed(const char *x, int *out)
{
    out[threadIdx.x] = x[threadIdx.x] < 0 ? -1 : x[threadIdx.x];
}

// A multiply-add with explicit rounding: two roundings, or one.
__global__ void roundings(const float *a, const float *b, const float *c, float *twice, float *once)
{
    const int i = threadIdx.x;
    twice[i] = __fadd_rn(__fmul_rn(a[i], b[i]), c[i]);
    once[i] = fmaf(a[i], b[i], c[i]);
}

// Each step rounds to its type: no intermediate result is wider.
__global__ void no_wider(const float *x, float *out)
{
    const float large = x[threadIdx.x] + 16777216.0f;
    out[threadIdx.x] = large - 16777216.0f;
}

// Sums keep the written order, denormals are kept, and -0 is not 0.
__global__ void no_fast_math(const float *x, float *out)
{
    out[0] = (x[0] + x[1]) + x[2];
    out[1] = x[3] * 0.5f;
    out[2] = 1.0f / (x[4] + x[4]);
    out[3] = x[5] != x[5] ? 1.0f : 0.0f;
}

int main()
{
    const int n = 32;
    Array<float> x(4 * n), y(4 * n), z(n), twice(n), once(n);
    Array<unsigned> bits(n);
    for (int i = 0; i < 4 * n; ++i)
        x[i] = i - 7.5f;
    x.upload();
    float_as_bits<<<1, n>>>(x.device, bits.device, n);
    RUNS();
    bits.download();
    for (int i = 0; i < n; ++i) {
        const float want = i < 8 ? 7.5f - i : i - 7.5f;
        unsigned word;
        memcpy(&word, &want, 4);
        EQUAL_AT(i, bits[i], word);
    }

    two_pointers<<<1, n>>>(x.device, y.device);
    RUNS();
    y.download();
    for (int i = 0; i < n; ++i)
        EQUAL_AT(i, y[i], 2.0f);

    Array<__half> h(2 * n);
    for (int i = 0; i < 2 * n; ++i)
        h[i] = __float2half((float)i);
    h.upload();
    halves_in_pairs<<<1, n>>>(h.device, 2 * n);
    RUNS();
    h.download();
    for (int i = 0; i < 2 * n; ++i)
        EQUAL_AT(i, __half2float(h[i]), 2.0f * i);

    for (int i = 0; i < 4 * n; ++i)
        x[i] = (float)(10 * i);
    x.upload();
    floats_in_fours<<<1, n>>>(x.device, y.device);
    RUNS();
    y.download();
    for (int i = 0; i < 4 * n; ++i)
        EQUAL_AT(i, y[i], (float)(10 * i + i % 4));

    Array<unsigned char> shift(n);
    for (int i = 0; i < n; ++i) {
        bits[i] = 0x12340ff0u + i;
        shift[i] = (unsigned char)(i % 3);
    }
    bits.upload();
    shift.upload();
    bytes_of_words<<<1, n>>>(bits.device, shift.device);
    RUNS();
    bits.download();
    for (int i = 0; i < n; ++i)
        EQUAL_AT(i, bits[i], 0xedcc0000u | (unsigned short)(0x12340ff0u + i + i % 3));

    Array<int> k(n), sum(n);
    for (int i = 0; i < n; ++i)
        k[i] = 2147483647 - 77777 * i;
    k.upload();
    wraps<<<1, n>>>(k.device, sum.device);
    RUNS();
    sum.download();
    for (int i = 0; i < n; ++i)
        EQUAL_AT(i, (unsigned)sum[i], (unsigned)k[i] * 1103515245u + 12345u);

    Array<char> c(n);
    for (int i = 0; i < n; ++i)
        c[i] = (char)(i % 2 ? 200 : i);
    c.upload();
    char_is_signed<<<1, n>>>(c.device, sum.device);
    RUNS();
    sum.download();
    for (int i = 0; i < n; ++i)
        EQUAL_AT(i, sum[i], i % 2 ? -1 : i);

    for (int i = 0; i < n; ++i) { // (1 + e)(1 - e) - 1 is -e * e, which one rounding keeps and two lose
        x[i] = 1.0f + 0x1p-13f * (i + 1);
        y[i] = 1.0f - 0x1p-13f * (i + 1);
        z[i] = -1.0f;
    }
    x.upload();
    y.upload();
    z.upload();
    roundings<<<1, n>>>(x.device, y.device, z.device, twice.device, once.device);
    RUNS();
    twice.download();
    once.download();
    for (int i = 0; i < n; ++i) {
        const double exact = -0x1p-26 * (i + 1) * (i + 1);
        volatile float product = (float)(1.0 + exact);
        EQUAL_AT(i, once[i], (float)exact);
        EQUAL_AT(i, twice[i], product - 1.0f);
    }

    for (int i = 0; i < n; ++i)
        x[i] = (float)i;
    x.upload();
    no_wider<<<1, n>>>(x.device, y.device);
    RUNS();
    y.download();
    for (int i = 0; i < n; ++i) // 2^24 + an odd number is a tie, and rounds to even
        EQUAL_AT(i, y[i], (float)(i % 4 == 1 ? i - 1 : i % 4 == 3 ? i + 1 : i));

    x[0] = 1e30f;
    x[1] = -1e30f;
    x[2] = 1.0f;
    x[3] = 0x1p-140f;
    x[4] = -0.0f;
    x[5] = NAN;
    x.upload();
    no_fast_math<<<1, 1>>>(x.device, y.device);
    RUNS();
    y.download();
    EQUAL(y[0], 1.0f);
    EQUAL(y[1], 0x1p-141f);
    EQUAL(y[2], -INFINITY);
    EQUAL(y[3], 1.0f);
    return verdict();
}
