/* wgmma of PTX, the matrix instruction of warpgroups. csrc/executor/wgmma.c multiplies. */
#ifndef SMEMKIT_PTX_WGMMA_H
#define SMEMKIT_PTX_WGMMA_H

#include "matrix.h"

namespace smemkit
{

template <int Columns, int Depth>
struct wgmma_shape {
    static constexpr int N = Columns, K = Depth;
};
#define SMEMKIT_WGMMA_N(n)                         \
    struct ptx_m64n##n##k8 : wgmma_shape<n, 8> {   \
    };                                             \
    struct ptx_m64n##n##k16 : wgmma_shape<n, 16> { \
    };                                             \
    struct ptx_m64n##n##k32 : wgmma_shape<n, 32> { \
    };
#define SMEMKIT_WGMMA_4(a, b, c, d) SMEMKIT_WGMMA_N(a) SMEMKIT_WGMMA_N(b) SMEMKIT_WGMMA_N(c) SMEMKIT_WGMMA_N(d)
SMEMKIT_WGMMA_4(8, 16, 24, 32)
SMEMKIT_WGMMA_4(40, 48, 56, 64)
SMEMKIT_WGMMA_4(72, 80, 88, 96)
SMEMKIT_WGMMA_4(104, 112, 120, 128)
SMEMKIT_WGMMA_4(136, 144, 152, 160)
SMEMKIT_WGMMA_4(168, 176, 184, 192)
SMEMKIT_WGMMA_4(200, 208, 216, 224)
SMEMKIT_WGMMA_4(232, 240, 248, 256)
#undef SMEMKIT_WGMMA_4
#undef SMEMKIT_WGMMA_N

/* A register that stays where it is: its address and its bits, before the instruction that uses it */
template <class T>
SMEMKIT_INLINE void *ptx_address(const T &at)
{
    static_assert(sizeof(T) == 4, "a register of wgmma.mma_async has 32 bits");
    return (void *)&at;
}
template <class T>
SMEMKIT_INLINE uint32_t ptx_register(const T &at)
{
    return bit_copy<uint32_t>(at);
}

struct ptx_e4m3;
struct ptx_e5m2;
template <>
struct ptx_element<ptx_e4m3> {
    static constexpr enum smemkit_element number = SMEMKIT_E4M3;
    static constexpr int bits = 8;
};
template <>
struct ptx_element<ptx_e5m2> {
    static constexpr enum smemkit_element number = SMEMKIT_E5M2;
    static constexpr int bits = 8;
};

/* PTX ISA, "wgmma.mma_async": the shapes of each type */
template <class Shape, class D, class A, class B>
constexpr bool ptx_has_wgmma()
{
    constexpr enum smemkit_element a = ptx_element<A>::number, b = ptx_element<B>::number,
                                   d = ptx_element<D>::number;
    constexpr bool integers = a == SMEMKIT_S8 || a == SMEMKIT_U8, bytes = a == SMEMKIT_E4M3 || a == SMEMKIT_E5M2;
    if (Shape::K * ptx_element<A>::bits != 256 || ptx_element<A>::bits != ptx_element<B>::bits)
        return false;
    if (integers)
        return (b == SMEMKIT_S8 || b == SMEMKIT_U8) && d == SMEMKIT_S32 &&
               (Shape::N <= 32 ? true : Shape::N % 16 == 0);
    if (bytes)
        return (b == SMEMKIT_E4M3 || b == SMEMKIT_E5M2) && (d == SMEMKIT_F32 || d == SMEMKIT_F16);
    return a == b && (d == SMEMKIT_F32 || (d == SMEMKIT_F16 && a == SMEMKIT_F16));
}

/* What the four forms share. `scales`: scale-d, imm-scale-a, imm-scale-b; `transposes`: imm-trans-a, imm-trans-b
 */
template <class Shape, class D, class A, class B, unsigned ND>
SMEMKIT_INLINE smemkit_wgmma make_wgmma(void *const (&d)[ND], bool saturate, uint64_t b, bool scale_d, int scale_a,
                                        int scale_b, int transpose_a, int transpose_b, const void *pc,
                                        const char *file, int line)
{
    static_assert(ptx_has_wgmma<Shape, D, A, B>(), "wgmma.mma_async has no such shape for these types");
    static_assert(ND == Shape::N * ptx_element<D>::bits / 64,
                  "wgmma.mma_async with another number of registers than its shape has");
    if ((scale_a != 1 && scale_a != -1) || (scale_b != 1 && scale_b != -1))
        smemkit_trap("wgmma.mma_async with an imm-scale that is neither 1 nor -1", file, line);
    if ((transpose_a | transpose_b) & ~1)
        smemkit_trap("wgmma.mma_async with an imm-trans that is neither 0 nor 1", file, line);
    smemkit_wgmma mma = {};
    mma.n = Shape::N;
    mma.k = Shape::K;
    mma.a_type = ptx_element<A>::number;
    mma.b_type = ptx_element<B>::number;
    mma.d_type = ptx_element<D>::number;
    mma.saturate = saturate;
    mma.scale_d = scale_d;
    mma.scale_a = scale_a;
    mma.scale_b = scale_b;
    mma.transpose_a = transpose_a;
    mma.transpose_b = transpose_b;
    mma.b_descriptor = b;
    mma.d = d;
    mma.registers = ND;
    mma.code = pc;
    return mma;
}

/* a in shared memory */
template <class Shape, class D, class A, class B, unsigned ND>
SMEMKIT_INLINE void ptx_wgmma(void *const (&d)[ND], bool saturate, uint64_t a, uint64_t b, bool scale_d,
                              int64_t scale_a, int64_t scale_b, int64_t transpose_a, int64_t transpose_b,
                              SMEMKIT_HERE)
{
    smemkit_wgmma mma = make_wgmma<Shape, D, A, B>(d, saturate, b, scale_d, (int)scale_a, (int)scale_b,
                                                   (int)transpose_a, (int)transpose_b, SMEMKIT_PC, file, line);
    mma.a_descriptor = a;
    smemkit_wgmma_execute(&mma, file, line);
}
/* a in registers */
template <class Shape, class D, class A, class B, unsigned ND, unsigned NA>
SMEMKIT_INLINE void ptx_wgmma(void *const (&d)[ND], bool saturate, const uint32_t (&a)[NA],
                              void *const (&a_at)[NA], uint64_t b, bool scale_d, int64_t scale_a, int64_t scale_b,
                              int64_t transpose_b, SMEMKIT_HERE)
{
    static_assert(NA == 4, "wgmma.mma_async has 4 registers of a");
    smemkit_wgmma mma = make_wgmma<Shape, D, A, B>(d, saturate, b, scale_d, (int)scale_a, (int)scale_b, 0,
                                                   (int)transpose_b, SMEMKIT_PC, file, line);
    mma.a = a;
    mma.a_at = a_at;
    smemkit_wgmma_execute(&mma, file, line);
}
SMEMKIT_INLINE void ptx_set_registers(uint64_t count, bool more, SMEMKIT_HERE)
{
    smemkit_set_registers((unsigned)count, more, file, line);
}
SMEMKIT_INLINE void ptx_wgmma_fence(SMEMKIT_HERE)
{
    smemkit_wgmma_fence(file, line);
}
SMEMKIT_INLINE void ptx_wgmma_commit(SMEMKIT_HERE)
{
    smemkit_wgmma_commit(file, line);
}
SMEMKIT_INLINE void ptx_wgmma_wait(uint64_t groups, SMEMKIT_HERE)
{
    smemkit_wgmma_wait((unsigned)groups, file, line);
}

} // namespace smemkit

#endif
