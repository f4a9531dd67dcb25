// mma.sync: a multiply-add of one warp on the tensor cores, sm_80 and above. (PTX ISA, "mma")
//
// d (16, 8) = a (16, K) @ b (K, 8) + c, where K elements are 32 bytes. Lane t holds four words of a, all at row t
// / 4 and word t % 4 of a quadrant: a[0] of the upper left, a[1] of the lower left (8 rows below), a[2] of the
// upper right (16 bytes on), a[3] of the lower right. For b it holds two words of column t / 4: b[0], and b[1] 16
// bytes further. d[0] and d[1] are row t / 4, columns 2 (t % 4) and the next; d[2] and d[3] are 8 rows below; the
// same for c.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

namespace ptx
{

#define PTX_MMA(name, number, constraint, text)                                                               \
    static __device__ inline void name(number(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2],           \
                                       const number(&c)[4])                                                   \
    {                                                                                                         \
        asm volatile("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "               \
                     "{%10, %11, %12, %13};"                                                                  \
                     : "=" constraint(d[0]), "=" constraint(d[1]), "=" constraint(d[2]), "=" constraint(d[3]) \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), constraint(c[0]),    \
                       constraint(c[1]), constraint(c[2]), constraint(c[3]));                                 \
    }
PTX_MMA(mma_m16n8k16_f32_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
PTX_MMA(mma_m16n8k16_f32_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
PTX_MMA(mma_m16n8k8_f32_tf32, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
PTX_MMA(mma_m16n8k32_s32_s8, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")
PTX_MMA(mma_m16n8k32_s32_u8, int, "r", "m16n8k32.row.col.s32.u8.u8.s32")
#undef PTX_MMA

// The same of double, where K is 8 and the words are elements: a[2] and b[1] are four elements along k further.
// Before sm_90 the largest is m8n8k4, a quarter of it.
static __device__ inline void mma_m16n8k8_f64(double (&d)[4], const double (&a)[4], const double (&b)[2],
                                              const double (&c)[4])
{
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%10, %11, %12, %13};"
                 : "=d"(d[0]), "=d"(d[1]), "=d"(d[2]), "=d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]), "d"(c[0]), "d"(c[1]),
                   "d"(c[2]), "d"(c[3]));
#else
    for (int row = 0; row < 2; row++)
        for (int q = 0; q < 2; q++) {
            const double *const before = q == 0 ? c : d;

            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
                         : "=d"(d[2 * row]), "=d"(d[2 * row + 1])
                         : "d"(a[2 * q + row]), "d"(b[q]), "d"(before[2 * row]), "d"(before[2 * row + 1]));
        }
#endif
}

// the nearest TF32 number, of two equally near ones the larger in magnitude, in the bits of a float (PTX ISA,
// "cvt")
static __device__ inline uint32_t cvt_rna_tf32_f32(float x)
{
    uint32_t tf32;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(x));
    return tf32;
}

// the same, but of two equally near ones the even one; sm_90
static __device__ inline uint32_t cvt_rn_tf32_f32(float x)
{
    uint32_t tf32;

    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(x));
    return tf32;
}

} // namespace ptx
