// mma in every shape and type, ldmatrix, stmatrix, movmatrix: fragments are made and read by the layouts that the
// PTX ISA draws, and products of small integers are exact.
#include "check.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// an element's bits from a small integer, and its number
struct half_type {
    static const int bits = 16;
    static __device__ unsigned long long make(int v)
    {
        return __half_as_ushort(__float2half((float)v));
    }
};
struct bfloat_type {
    static const int bits = 16;
    static __device__ unsigned long long make(int v)
    {
        return __bfloat16_as_ushort(__float2bfloat16((float)v));
    }
};
struct float_type {
    static const int bits = 32;
    static __device__ unsigned long long make(int v)
    {
        return __float_as_uint((float)v);
    }
};
struct double_type {
    static const int bits = 64;
    static __device__ unsigned long long make(int v)
    {
        return (unsigned long long)__double_as_longlong((double)v);
    }
};
template <int Bits>
struct int_type {
    static const int bits = Bits;
    static __device__ unsigned long long make(int v)
    {
        return v & ((1ull << Bits) - 1);
    }
};

template <class R>
__device__ void put(R *words, int bits, int i, unsigned long long v)
{
    const int each = (int)(8 * sizeof(R)) / bits;
    if (each <= 1)
        words[i] = (R)v;
    else
        words[i / each] |= (R)(v << i % each * bits);
}

// PTX ISA, matrix fragments of mma.m16n8k*: element i of a, b and c of a lane
__device__ int a_row(int m, int per, int i, int lane)
{
    return lane / 4 + (m == 16 && i / per % 2 ? 8 : 0);
}
__device__ int a_column(int m, int per, int i, int lane)
{
    return lane % 4 * per + i % per + i / (per * (m / 8)) * 4 * per;
}
__device__ int b_row(int per, int i, int lane)
{
    return lane % 4 * per + i % per + i / per * 4 * per;
}
__device__ int c_row(int i, int lane)
{
    return lane / 4 + i / 2 * 8;
}
__device__ int c_column(int i, int lane)
{
    return lane % 4 * 2 + i % 2;
}

#define JOIN_1(x) "{" x "}"
#define PRODUCT(NAME, SHAPE, M, K, AT, A, B, C, R, NA, NB, NC, TYPES, MORE, ASM)                    \
    __global__ void NAME(const int *a, const int *b, int *d)                                        \
    {                                                                                               \
        const int lane = threadIdx.x, per = A::bits > 32 ? 1 : 32 / A::bits;                        \
        R x[NA] = {}, y[NB] = {}, z[NC] = {}, w[NC] = {};                                           \
        for (int i = 0; i < M * K / 32; i++)                                                        \
            put(x, A::bits, i, A::make(a[a_row(M, per, i, lane) * K + a_column(M, per, i, lane)])); \
        for (int i = 0; i < 8 * K / 32; i++)                                                        \
            put(y, B::bits, i, B::make(b[b_row(per, i, lane) * 8 + lane / 4]));                     \
        for (int i = 0; i < M / 4; i++)                                                             \
            put(z, C::bits, i, C::make(c_row(i, lane) - c_column(i, lane)));                        \
        ASM(SHAPE, TYPES, MORE);                                                                    \
        for (int i = 0; i < M / 4; i++) {                                                           \
            const int at = c_row(i, lane) * 8 + c_column(i, lane);                                  \
            d[at] = number<C>(w, i);                                                                \
        }                                                                                           \
    }
template <class C, class R>
__device__ int number(const R *w, int i)
{
    if (C::bits == 16)
        return (int)__half2float(__ushort_as_half((unsigned short)(w[i / 2] >> i % 2 * 16)));
    if (C::bits == 64)
        return (int)__longlong_as_double((long long)w[i]);
    if (std::is_same<C, float_type>::value)
        return (int)__uint_as_float((unsigned)w[i]);
    return (int)w[i];
}
#define MMA_4242(shape, types, more)                                                                         \
    asm("mma.sync.aligned." shape ".row.col." more types                                                     \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                               \
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                                                     \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(z[0]), "r"(z[1]), "r"(z[2]), \
          "r"(z[3]))
#define MMA_4214(shape, types, more)                                                                             \
    asm("mma.sync.aligned." shape ".row.col." more types " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])                                                         \
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(z[0]), "r"(z[1]), "r"(z[2]), "r"(z[3]))
#define MMA_2422(shape, types, more)                                                                        \
    asm("mma.sync.aligned." shape ".row.col." more types " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" \
        : "=r"(w[0]), "=r"(w[1])                                                                            \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(z[0]), "r"(z[1]))
#define MMA_2212(shape, types, more)                                                            \
    asm("mma.sync.aligned." shape ".row.col." more types " {%0, %1}, {%2, %3}, {%4}, {%5, %6};" \
        : "=r"(w[0]), "=r"(w[1])                                                                \
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(z[0]), "r"(z[1]))
#define MMA_2112(shape, types, more)                                                        \
    asm("mma.sync.aligned." shape ".row.col." more types " {%0, %1}, {%2}, {%3}, {%4, %5};" \
        : "=r"(w[0]), "=r"(w[1])                                                            \
        : "r"(x[0]), "r"(y[0]), "r"(z[0]), "r"(z[1]))
#define MMA_D2112(shape, types, more)                                                  \
    asm("mma.sync.aligned." shape ".row.col." types " {%0, %1}, {%2}, {%3}, {%4, %5};" \
        : "=d"(*(double *)&w[0]), "=d"(*(double *)&w[1])                               \
        : "d"(*(double *)&x[0]), "d"(*(double *)&y[0]), "d"(*(double *)&z[0]), "d"(*(double *)&z[1]))
#define MMA_D4214(shape, types, more)                                                                       \
    asm("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
        : "=d"(*(double *)&w[0]), "=d"(*(double *)&w[1]), "=d"(*(double *)&w[2]), "=d"(*(double *)&w[3])    \
        : "d"(*(double *)&x[0]), "d"(*(double *)&x[1]), "d"(*(double *)&y[0]), "d"(*(double *)&z[0]),       \
          "d"(*(double *)&z[1]), "d"(*(double *)&z[2]), "d"(*(double *)&z[3]))
#define MMA_D4424(shape, types, more)                                                                    \
    asm("mma.sync.aligned." shape ".row.col." types                                                      \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                           \
        : "=d"(*(double *)&w[0]), "=d"(*(double *)&w[1]), "=d"(*(double *)&w[2]), "=d"(*(double *)&w[3]) \
        : "d"(*(double *)&x[0]), "d"(*(double *)&x[1]), "d"(*(double *)&x[2]), "d"(*(double *)&x[3]),    \
          "d"(*(double *)&y[0]), "d"(*(double *)&y[1]), "d"(*(double *)&z[0]), "d"(*(double *)&z[1]),    \
          "d"(*(double *)&z[2]), "d"(*(double *)&z[3]))
#define MMA_D4844(shape, types, more)                                                                        \
    asm("mma.sync.aligned." shape ".row.col." types                                                          \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};" \
        : "=d"(*(double *)&w[0]), "=d"(*(double *)&w[1]), "=d"(*(double *)&w[2]), "=d"(*(double *)&w[3])     \
        : "d"(*(double *)&x[0]), "d"(*(double *)&x[1]), "d"(*(double *)&x[2]), "d"(*(double *)&x[3]),        \
          "d"(*(double *)&x[4]), "d"(*(double *)&x[5]), "d"(*(double *)&x[6]), "d"(*(double *)&x[7]),        \
          "d"(*(double *)&y[0]), "d"(*(double *)&y[1]), "d"(*(double *)&y[2]), "d"(*(double *)&y[3]),        \
          "d"(*(double *)&z[0]), "d"(*(double *)&z[1]), "d"(*(double *)&z[2]), "d"(*(double *)&z[3]))

// the instruction, its numbers: name, shape, m, k, kind of values, types of a, b and c, register, registers of
// each
#define EVERY(P)                                                                                                  \
    P(f16_k16, "m16n8k16", 16, 16, 4, half_type, half_type, float_type, unsigned, 4, 2, 4, "f32.f16.f16.f32", "", \
      MMA_4242)                                                                                                   \
    P(f16_k8, "m16n8k8", 16, 8, 4, half_type, half_type, float_type, unsigned, 2, 1, 4, "f32.f16.f16.f32", "",    \
      MMA_4214)                                                                                                   \
    P(f16_k16_f16, "m16n8k16", 16, 16, 4, half_type, half_type, half_type, unsigned, 4, 2, 2, "f16.f16.f16.f16",  \
      "", MMA_2422)                                                                                               \
    P(f16_k8_f16, "m16n8k8", 16, 8, 4, half_type, half_type, half_type, unsigned, 2, 1, 2, "f16.f16.f16.f16", "", \
      MMA_2212)                                                                                                   \
    P(bf16_k16, "m16n8k16", 16, 16, 4, bfloat_type, bfloat_type, float_type, unsigned, 4, 2, 4,                   \
      "f32.bf16.bf16.f32", "", MMA_4242)                                                                          \
    P(bf16_k8, "m16n8k8", 16, 8, 4, bfloat_type, bfloat_type, float_type, unsigned, 2, 1, 4, "f32.bf16.bf16.f32", \
      "", MMA_4214)                                                                                               \
    P(tf32_k8, "m16n8k8", 16, 8, 4, float_type, float_type, float_type, unsigned, 4, 2, 4, "f32.tf32.tf32.f32",   \
      "", MMA_4242)                                                                                               \
    P(tf32_k4, "m16n8k4", 16, 4, 4, float_type, float_type, float_type, unsigned, 2, 1, 4, "f32.tf32.tf32.f32",   \
      "", MMA_4214)                                                                                               \
    P(f64_m8, "m8n8k4", 8, 4, 4, double_type, double_type, double_type, unsigned long long, 1, 1, 2,              \
      "f64.f64.f64.f64", "", MMA_D2112)                                                                           \
    P(f64_k4, "m16n8k4", 16, 4, 4, double_type, double_type, double_type, unsigned long long, 2, 1, 4,            \
      "f64.f64.f64.f64", "", MMA_D4214)                                                                           \
    P(f64_k8, "m16n8k8", 16, 8, 4, double_type, double_type, double_type, unsigned long long, 4, 2, 4,            \
      "f64.f64.f64.f64", "", MMA_D4424)                                                                           \
    P(f64_k16, "m16n8k16", 16, 16, 4, double_type, double_type, double_type, unsigned long long, 8, 4, 4,         \
      "f64.f64.f64.f64", "", MMA_D4844)                                                                           \
    P(s8_m8, "m8n8k16", 8, 16, 4, int_type<8>, int_type<8>, int_type<32>, unsigned, 1, 1, 2, "s32.s8.s8.s32", "", \
      MMA_2112)                                                                                                   \
    P(s8_k16, "m16n8k16", 16, 16, 4, int_type<8>, int_type<8>, int_type<32>, unsigned, 2, 1, 4, "s32.s8.s8.s32",  \
      "satfinite.", MMA_4214)                                                                                     \
    P(s8_k32, "m16n8k32", 16, 32, 4, int_type<8>, int_type<8>, int_type<32>, unsigned, 4, 2, 4, "s32.s8.s8.s32",  \
      "", MMA_4242)                                                                                               \
    P(u8_k32, "m16n8k32", 16, 32, 0, int_type<8>, int_type<8>, int_type<32>, unsigned, 4, 2, 4, "s32.u8.u8.s32",  \
      "", MMA_4242)                                                                                               \
    P(u8_s8, "m16n8k32", 16, 32, 1, int_type<8>, int_type<8>, int_type<32>, unsigned, 4, 2, 4, "s32.u8.s8.s32",   \
      "", MMA_4242)                                                                                               \
    P(s4_m8, "m8n8k32", 8, 32, 4, int_type<4>, int_type<4>, int_type<32>, unsigned, 1, 1, 2, "s32.s4.s4.s32", "", \
      MMA_2112)                                                                                                   \
    P(s4_k32, "m16n8k32", 16, 32, 4, int_type<4>, int_type<4>, int_type<32>, unsigned, 2, 1, 4, "s32.s4.s4.s32",  \
      "", MMA_4214)                                                                                               \
    P(u4_k64, "m16n8k64", 16, 64, 0, int_type<4>, int_type<4>, int_type<32>, unsigned, 4, 2, 4, "s32.u4.u4.s32",  \
      "", MMA_4242)                                                                                               \
    P(s4_k64, "m16n8k64", 16, 64, 4, int_type<4>, int_type<4>, int_type<32>, unsigned, 4, 2, 4, "s32.s4.s4.s32",  \
      "satfinite.", MMA_4242)
EVERY(PRODUCT)

template <class Kernel>
static void check(const char *name, Kernel kernel, int m, int k, int signs)
{
    Array<int> a(m * k), b(k * 8), d(m * 8);
    unsigned seed = 1 + (unsigned)(m * 131 + k);
    for (int i = 0; i < m * k; i++)
        a[i] = (int)((seed = seed * 1664525 + 1013904223) >> 28) - (signs == 4 ? 8 : 0);
    for (int i = 0; i < 8 * k; i++)
        b[i] = (int)((seed = seed * 1664525 + 1013904223) >> 28) - (signs ? 8 : 0);
    a.upload();
    b.upload();
    kernel<<<1, 32>>>(a.device, b.device, d.device);
    RUNS();
    d.download();
    for (int i = 0; i < m; i++)
        for (int j = 0; j < 8; j++) {
            int sum = i - j;
            for (int p = 0; p < k; p++)
                sum += a[i * k + p] * b[p * 8 + j];
            if (d[i * 8 + j] != sum)
                printf("%s: ", name);
            EQUAL_AT(i * 8 + j, d[i * 8 + j], sum);
        }
}

// bits: k of them, 32 per word; a (16 or 8, k), b (k, 8) by columns
template <bool And>
__global__ void bits(const unsigned *a, const unsigned *b, int *d, int k)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4, row = k / 32;
    unsigned w[4], x[4], y[2];
    for (int r = 0; r < 4; r++)
        x[r] = r < k / 64 ? a[(g + r % 2 * 8) * row + t + r / 2 * 4] : 0;
    for (int r = 0; r < 2; r++)
        y[r] = r < k / 128 ? b[g * row + t + r * 4] : 0;
    if (k == 256 && And)
        asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
            "%9}, {%10, %10, %10, %10};"
            : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(5));
    else if (k == 256)
        asm("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
            "%9}, {%10, %10, %10, %10};"
            : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(5));
    else if (And)
        asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, "
            "%7, %7};"
            : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
            : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(5));
    else
        asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, "
            "%7, %7};"
            : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
            : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(5));
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = (int)w[i];
    if (k == 128) { // the upper eight rows again
        if (And)
            asm("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%0, %1}, {%2}, {%3}, {%4, %4};"
                : "=r"(w[0]), "=r"(w[1])
                : "r"(x[0]), "r"(y[0]), "r"(5));
        else
            asm("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {%0, %1}, {%2}, {%3}, {%4, %4};"
                : "=r"(w[0]), "=r"(w[1])
                : "r"(x[0]), "r"(y[0]), "r"(5));
        for (int i = 0; i < 2; i++)
            d[128 + g * 8 + 2 * t + i] = (int)w[i];
    }
}

template <bool And>
static void check_bits(int k)
{
    const int row = k / 32;
    Array<unsigned> a(16 * row), b(8 * row);
    Array<int> d(192);
    unsigned seed = 7;
    for (int i = 0; i < 16 * row; i++)
        a[i] = seed = seed * 1664525 + 1013904223;
    for (int i = 0; i < 8 * row; i++)
        b[i] = seed = seed * 1664525 + 1013904223;
    a.upload();
    b.upload();
    bits<And><<<1, 32>>>(a.device, b.device, d.device, k);
    RUNS();
    d.download();
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            int sum = 5;
            for (int p = 0; p < row; p++)
                sum += __builtin_popcount(And ? a[i * row + p] & b[j * row + p] : a[i * row + p] ^ b[j * row + p]);
            EQUAL_AT(i * 8 + j, d[i * 8 + j], sum);
            if (k == 128 && i < 8)
                EQUAL_AT(i * 8 + j, d[128 + i * 8 + j], sum);
        }
}

// m8n8k4: four products of 8 x 8, of quads q and q + 4 (PTX ISA, fragments of mma.m8n8k4)
__device__ int low(int lane, int i)
{
    return i % 4 + (lane < 16 ? 0 : 4);
}
#define QUADS(NAME, LAYOUTS, A_COLUMN, B_ROW)                                                                    \
    __global__ void NAME(const int *a, const int *b, int *d)                                                     \
    {                                                                                                            \
        const int lane = threadIdx.x, q = lane / 4 % 4;                                                          \
        unsigned x[2] = {}, y[2] = {};                                                                           \
        float c[8], f[8];                                                                                        \
        for (int i = 0; i < 4; i++) {                                                                            \
            const int row = A_COLUMN ? low(lane, i) : low(lane, lane), p = A_COLUMN ? lane % 4 : i;              \
            const int column = B_ROW ? low(lane, i) : low(lane, lane), s = B_ROW ? lane % 4 : i;                 \
            put(x, 16, i, half_type::make(a[q * 32 + row * 4 + p]));                                             \
            put(y, 16, i, half_type::make(b[q * 32 + s * 8 + column]));                                          \
        }                                                                                                        \
        for (int i = 0; i < 8; i++)                                                                              \
            c[i] = i;                                                                                            \
        asm("mma.sync.aligned.m8n8k4." LAYOUTS ".f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, "   \
            "{%10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19};"                                              \
            : "=f"(f[0]), "=f"(f[1]), "=f"(f[2]), "=f"(f[3]), "=f"(f[4]), "=f"(f[5]), "=f"(f[6]), "=f"(f[7])     \
            : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), \
              "f"(c[5]), "f"(c[6]), "f"(c[7]));                                                                  \
        for (int i = 0; i < 8; i++) {                                                                            \
            const int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4), column = (i & 4) + (lane & 2) + (i & 1); \
            d[q * 64 + row * 8 + column] = (int)f[i] - i;                                                        \
        }                                                                                                        \
    }
QUADS(quads_row_col, "row.col", false, false)
QUADS(quads_col_row, "col.row", true, true)
QUADS(quads_row_row, "row.row", false, true)

template <class Kernel>
static void check_quads(Kernel kernel)
{
    Array<int> a(128), b(128), d(256);
    for (int i = 0; i < 128; i++) {
        a[i] = i * 7 % 11 - 5;
        b[i] = i * 5 % 13 - 6;
    }
    a.upload();
    b.upload();
    kernel<<<1, 32>>>(a.device, b.device, d.device);
    RUNS();
    d.download();
    for (int q = 0; q < 4; q++)
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                int sum = 0;
                for (int p = 0; p < 4; p++)
                    sum += a[q * 32 + i * 4 + p] * b[q * 32 + p * 8 + j];
                EQUAL_AT(q * 64 + i * 8 + j, d[q * 64 + i * 8 + j], sum);
            }
}

// four matrices of 8 x 8 halves in shared memory, row r at 16 * (r ^ 3)
__global__ void moved(unsigned *x)
{
    __shared__ __align__(16) unsigned short s[4 * 64], to[4 * 64];
    const int t = threadIdx.x;
    for (int i = t; i < 256; i += 32)
        s[(i / 8 ^ 3) * 8 + i % 8] = (unsigned short)i;
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(s) + (t ^ 3) * 16,
                   out = (unsigned)__cvta_generic_to_shared(to) + t * 16;
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
    for (int i = 0; i < 4; i++)
        x[i * 32 + t] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
    for (int i = 0; i < 4; i++)
        x[128 + i * 32 + t] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(t < 16 ? at : 1));
    x[256 + t] = r[1];
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
    x[288 + t] = r[0];
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[1]) : "r"(r[0]));
    x[320 + t] = r[1];
    for (int i = 0; i < 4; i++)
        r[i] = x[128 + i * 32 + t];
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(out), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
    __syncthreads();
    for (int i = t; i < 256; i += 32)
        x[352 + i] = to[i];
    __syncthreads();
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(out), "r"(r[0]) : "memory");
    __syncthreads();
    for (int i = t; i < 64; i += 32)
        x[608 + i] = to[i];
}

static void check_moved()
{
    Array<unsigned> x(672);
    moved<<<1, 32>>>(x.device);
    RUNS();
    x.download();
    for (int t = 0; t < 32; t++) {
        for (int i = 0; i < 4; i++) {
            const unsigned at = i * 64 + t / 4 * 8 + t % 4 * 2, across = i * 64 + t % 4 * 16 + t / 4;
            EQUAL_AT(i * 32 + t, x[i * 32 + t], (at + 1) << 16 | at);
            EQUAL_AT(i * 32 + t, x[128 + i * 32 + t], (across + 8) << 16 | across);
        }
        EQUAL_AT(t, x[256 + t], x[32 + t]);
        EQUAL_AT(t, x[288 + t], x[t]);
        EQUAL_AT(t, x[320 + t], x[128 + t]);
    }
    for (unsigned i = 0; i < 256; i++)
        EQUAL_AT(i, x[352 + i], i);
    for (unsigned i = 0; i < 64; i++)
        EQUAL_AT(i, x[608 + i], i % 8 * 8 + i / 8);
}

int main()
{
#define CHECK(NAME, SHAPE, M, K, SIGNS, ...) check(#NAME, NAME, M, K, SIGNS);
    EVERY(CHECK)
    check_bits<true>(256);
    check_bits<false>(256);
    check_bits<true>(128);
    check_bits<false>(128);
    check_quads(quads_row_col);
    check_quads(quads_col_row);
    check_quads(quads_row_row);
    check_moved();
    return verdict();
}
