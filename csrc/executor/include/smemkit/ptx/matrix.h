/* The matrix instructions of PTX: mma, ldmatrix, stmatrix, movmatrix. csrc/executor/matrix.c multiplies. */
#ifndef SMEMKIT_PTX_MATRIX_H
#define SMEMKIT_PTX_MATRIX_H

#include "registers.h"

namespace smemkit
{

enum { ptx_x1 = 1, ptx_x2 = 2, ptx_x4 = 4 };

/* Lanes [0, 8 N) each give the address of a row of 16 bytes. */
template <bool Transposed, unsigned N>
SMEMKIT_INLINE void load_matrices(uint32_t (&d)[N], const void *from, const void *pc, const char *file, int line)
{
    struct smemkit_matrices moved = {{}, N, Transposed, d, {}};
    if (lane() < (int)(8 * N)) {
        report_read(from, 16, pc);
        smemkit_matrix_row(from, "ldmatrix", file, line);
        for (int i = 0; i < 4; i++)
            moved.row[i] = load((const uint32_t *)from + i);
    }
    smemkit_load_matrices(&moved, file, line);
}
template <bool Transposed, unsigned N>
SMEMKIT_INLINE void store_matrices(void *to, const uint32_t (&from)[N], const void *pc, const char *file, int line)
{
    struct smemkit_matrices moved = {{}, N, Transposed, (uint32_t *)from, {}};
    smemkit_store_matrices(&moved, file, line);
    if (lane() < (int)(8 * N)) {
        report_write(to, 16, pc);
        smemkit_matrix_row(to, "stmatrix", file, line);
        for (int i = 0; i < 4; i++)
            store((uint32_t *)to + i, moved.row[i]);
    }
}
template <bool Transposed, int Count, unsigned N>
SMEMKIT_INLINE void ptx_ldmatrix(uint32_t (&d)[N], const char *from, SMEMKIT_HERE)
{
    static_assert(N == Count, "as many registers as matrices");
    load_matrices<Transposed>(d, from, SMEMKIT_PC, file, line);
}
template <bool Transposed, int Count, unsigned N>
SMEMKIT_INLINE void ptx_stmatrix(char *to, const uint32_t (&from)[N], SMEMKIT_HERE)
{
    static_assert(N == Count, "as many registers as matrices");
    store_matrices<Transposed>(to, from, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE uint32_t ptx_movmatrix(uint64_t bits, SMEMKIT_HERE)
{
    uint32_t word = (uint32_t)bits;
    struct smemkit_matrices moved = {{}, 1, 1, &word, {}};
    smemkit_store_matrices(&moved, file, line); /* the rows of the transposed matrix, as stmatrix.trans has them */
    moved.transposed = 0;
    smemkit_load_matrices(&moved, file, line);
    return word;
}

#define SMEMKIT_PTX_SHAPE_OF(rows, depth)                \
    struct ptx_m##rows##n8k##depth {                     \
        static constexpr int M = rows, N = 8, K = depth; \
    };
SMEMKIT_PTX_SHAPE_OF(8, 4)
SMEMKIT_PTX_SHAPE_OF(8, 16)
SMEMKIT_PTX_SHAPE_OF(8, 32)
SMEMKIT_PTX_SHAPE_OF(8, 128)
SMEMKIT_PTX_SHAPE_OF(16, 4)
SMEMKIT_PTX_SHAPE_OF(16, 8)
SMEMKIT_PTX_SHAPE_OF(16, 16)
SMEMKIT_PTX_SHAPE_OF(16, 32)
SMEMKIT_PTX_SHAPE_OF(16, 64)
SMEMKIT_PTX_SHAPE_OF(16, 128)
SMEMKIT_PTX_SHAPE_OF(16, 256)
#undef SMEMKIT_PTX_SHAPE_OF

enum ptx_layout { ptx_row, ptx_col };
enum ptx_bit_operation { ptx_none, ptx_xor, ptx_and };

/* A type: its number in the executor and its bits */
template <class T>
struct ptx_element;
#define SMEMKIT_PTX_ELEMENT(type, element, width)               \
    template <>                                                 \
    struct ptx_element<type> {                                  \
        static constexpr enum smemkit_element number = element; \
        static constexpr int bits = width;                      \
    };
struct ptx_tf32;
struct ptx_s4;
struct ptx_u4;
struct ptx_b1;
SMEMKIT_PTX_ELEMENT(ptx_f16, SMEMKIT_F16, 16)
SMEMKIT_PTX_ELEMENT(ptx_bf16, SMEMKIT_BF16, 16)
SMEMKIT_PTX_ELEMENT(ptx_tf32, SMEMKIT_TF32, 32)
SMEMKIT_PTX_ELEMENT(ptx_f32, SMEMKIT_F32, 32)
SMEMKIT_PTX_ELEMENT(ptx_f64, SMEMKIT_F64, 64)
SMEMKIT_PTX_ELEMENT(ptx_s8, SMEMKIT_S8, 8)
SMEMKIT_PTX_ELEMENT(ptx_u8, SMEMKIT_U8, 8)
SMEMKIT_PTX_ELEMENT(ptx_s4, SMEMKIT_S4, 4)
SMEMKIT_PTX_ELEMENT(ptx_u4, SMEMKIT_U4, 4)
SMEMKIT_PTX_ELEMENT(ptx_b1, SMEMKIT_B1, 1)
SMEMKIT_PTX_ELEMENT(ptx_s32, SMEMKIT_S32, 32)
#undef SMEMKIT_PTX_ELEMENT

/* PTX ISA, "Matrix multiply-accumulate operation using mma instruction": the shapes of each type */
template <class Shape, class A, class B, class C, class D>
constexpr bool ptx_has_mma()
{
    constexpr int a = ptx_element<A>::bits, m = Shape::M, k = Shape::K;
    constexpr enum smemkit_element element = ptx_element<A>::number;
    constexpr bool integers = element >= SMEMKIT_S8;
    if (a != ptx_element<B>::bits || (!integers && !std::is_same_v<A, B>))
        return false;
    if (integers)
        return std::is_same_v<C, int32_t> && std::is_same_v<D, int32_t> &&
               (k * a == 128 || (m == 16 && k * a == 256));
    if (element == SMEMKIT_F64)
        return std::is_same_v<C, double> && std::is_same_v<D, double> && (m == 16 || k == 4) && k <= 16;
    if (element == SMEMKIT_F16)
        return (std::is_same_v<C, float> || std::is_same_v<C, ptx_f16>)&&(
            std::is_same_v<D, float> || std::is_same_v<D, ptx_f16>)&&(m == 8 ? k == 4 : k == 8 || k == 16);
    return std::is_same_v<C, float> && std::is_same_v<D, float> && m == 16 && (k * a == 128 || k * a == 256);
}

template <class Shape, class D, class A, class B, class C, int LayoutA, int LayoutB, int Bits, unsigned ND,
          unsigned NA, unsigned NB, unsigned NC>
SMEMKIT_INLINE void ptx_mma(uint64_t (&d)[ND], const uint64_t (&a)[NA], const uint64_t (&b)[NB],
                            const uint64_t (&c)[NC], bool saturate, SMEMKIT_HERE)
{
    static_assert(ptx_has_mma<Shape, A, B, C, D>(), "mma has no such shape for these types");
    constexpr bool quads = Shape::M == 8 && ptx_element<A>::number == SMEMKIT_F16; /* four products of 8 x 8 */
    static_assert(quads || (LayoutA == ptx_row && LayoutB == ptx_col), "mma of this shape is .row.col");
    constexpr int products = quads ? 4 : 1;
    constexpr int word = ptx_element<A>::number == SMEMKIT_F64 ? 64 : 32;
    constexpr auto count = [](int elements, int bits)
                               SMEMKIT_NO_HOOKS { return (unsigned)(products * elements * bits / (32 * word)); };
    static_assert(NA == count(Shape::M * Shape::K, ptx_element<A>::bits) &&
                      NB == count(Shape::K * 8, ptx_element<B>::bits),
                  "mma with another number of registers than its shape has");
    static_assert(NC == count(Shape::M * 8, ptx_element<C>::bits) &&
                      ND == count(Shape::M * 8, ptx_element<D>::bits),
                  "mma with another number of registers than its shape has");
    struct smemkit_mma product = {{},
                                  Shape::M,
                                  Shape::K,
                                  ptx_element<A>::number,
                                  ptx_element<B>::number,
                                  ptx_element<C>::number,
                                  ptx_element<D>::number,
                                  LayoutA == ptx_col,
                                  LayoutB == ptx_row,
                                  Bits == ptx_and,
                                  saturate,
                                  a,
                                  b,
                                  c,
                                  d};
    smemkit_multiply(&product, file, line);
}

} // namespace smemkit

#endif
