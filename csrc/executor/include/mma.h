/* nvcuda::wmma: products of small matrices by a warp. Element i of lane l of a fragment is the element i + l * n
 * of the matrix in row-major order, n being the elements per lane; CUDA leaves that open. Elements of fewer than 8
 * bits are packed: register l of a warp is word l of the matrix in memory. Products are exact, and a sum is
 * rounded once, to the accumulator's type; tensor cores truncate sums in between, each generation in its own way.
 * What the checker counts are the accesses of sm_80 and above (measured on an H100): a 16-bit operand in shared
 * memory is loaded as by ldmatrix, one in global memory and an accumulator by pairs of neighbours.
 */
#ifndef SMEMKIT_MMA_H
#define SMEMKIT_MMA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../ptx.h"

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision
{
struct tf32;
}
namespace experimental
{
namespace precision
{
struct u4;
struct s4;
struct b1;
} // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
} // namespace experimental

} // namespace wmma
} // namespace nvcuda

namespace smemkit
{

/* An element of a fragment: what a register holds, its bits, and what it contributes to a sum. A copy or
 * conversion of a 16-bit one would be logged as an access of the lane that computes the product. */
template <class T>
struct fragment_element {
    using type = T;
    static constexpr int bits = 8 * sizeof(T);
    static constexpr bool integer = std::is_integral_v<T>;
    SMEMKIT_NO_HOOKS static auto value(const T &x)
    {
        if constexpr (integer)
            return (long long)x;
        else if constexpr (sizeof(T) == 2)
            return (double)x.value();
        else
            return (double)x;
    }
};
template <>
struct fragment_element<nvcuda::wmma::precision::tf32> {
    using type = float;
    static constexpr int bits = 32;
    static constexpr bool integer = false;
    SMEMKIT_NO_HOOKS static double value(float x) /* the last 13 bits are not read */
    {
        return __uint_as_float(__float_as_uint(x) & ~0x1fffu);
    }
};
#define SMEMKIT_PACKED(name, word, width)                                       \
    template <>                                                                 \
    struct fragment_element<nvcuda::wmma::experimental::precision::name> {      \
        using type = word;                                                      \
        static constexpr int bits = width;                                      \
        static constexpr bool integer = true;                                   \
        SMEMKIT_NO_HOOKS static long long value(word x, int i)                  \
        {                                                                       \
            return (word)((unsigned)x << (32 - bits * (i + 1))) >> (32 - bits); \
        }                                                                       \
    };
SMEMKIT_PACKED(s4, int, 4)
SMEMKIT_PACKED(u4, unsigned, 4)
SMEMKIT_PACKED(b1, unsigned, 1)
#undef SMEMKIT_PACKED

template <class Use, int M, int N, int K>
struct fragment_shape;
template <int M, int N, int K>
struct fragment_shape<nvcuda::wmma::matrix_a, M, N, K> {
    static constexpr int rows = M, columns = K;
};
template <int M, int N, int K>
struct fragment_shape<nvcuda::wmma::matrix_b, M, N, K> {
    static constexpr int rows = K, columns = N;
};
template <int M, int N, int K>
struct fragment_shape<nvcuda::wmma::accumulator, M, N, K> {
    static constexpr int rows = M, columns = N;
};

/* CUDA C++ Programming Guide, "Element Types and Matrix Sizes": the elements of a and b that a shape has */
template <class T, int M, int N, int K>
constexpr bool has_wmma_operand()
{
    using namespace nvcuda::wmma;
    constexpr bool small = (M == 16 && N == 16) || (M == 32 && N == 8) || (M == 8 && N == 32),
                   least = M == 8 && N == 8;
    if (std::is_same_v<T, precision::tf32>)
        return M == 16 && N == 16 && K == 8;
    if (std::is_same_v<T, double>)
        return least && K == 4;
    if (std::is_same_v<T, experimental::precision::s4> || std::is_same_v<T, experimental::precision::u4>)
        return least && K == 32;
    if (std::is_same_v<T, experimental::precision::b1>)
        return least && K == 128;
    return small && K == 16 &&
           (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, signed char> ||
            std::is_same_v<T, unsigned char>);
}
/* whether T can be the accumulator of products of elements of type Operand */
template <class T, class Operand>
constexpr bool accumulates()
{
    if (fragment_element<Operand>::integer)
        return std::is_same_v<T, int>;
    if (std::is_same_v<Operand, double>)
        return std::is_same_v<T, double>;
    return std::is_same_v<T, float> || (std::is_same_v<T, __half> && std::is_same_v<Operand, __half>);
}
template <class T, class Operand, int M, int N, int K>
constexpr bool accumulates_shape()
{
    return has_wmma_operand<Operand, M, N, K>() && accumulates<T, Operand>();
}
template <class Use, class T, int M, int N, int K>
constexpr bool has_fragment()
{
    using namespace nvcuda::wmma;
    if constexpr (std::is_same_v<Use, accumulator>)
        return accumulates_shape<T, __half, M, N, K>() || accumulates_shape<T, signed char, M, N, K>() ||
               accumulates_shape<T, double, M, N, K>() || accumulates_shape<T, precision::tf32, M, N, K>() ||
               accumulates_shape<T, experimental::precision::s4, M, N, K>() ||
               accumulates_shape<T, experimental::precision::b1, M, N, K>();
    else
        return has_wmma_operand<T, M, N, K>();
}
/* elements of fewer than 8 bits: a has rows in memory, b columns */
template <class Use, class T, class Layout>
constexpr bool has_layout()
{
    using namespace nvcuda::wmma;
    if (std::is_same_v<Use, accumulator>)
        return std::is_void_v<Layout>;
    const bool by_rows = std::is_same_v<Layout, row_major>, by_columns = std::is_same_v<Layout, col_major>;
    if (fragment_element<T>::bits < 8)
        return std::is_same_v<Use, matrix_a> ? by_rows : by_columns;
    return by_rows || by_columns;
}

} // namespace smemkit

namespace nvcuda
{
namespace wmma
{

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment : smemkit::fragment_shape<Use, M, N, K> {
    using shape = smemkit::fragment_shape<Use, M, N, K>;
    using use = Use;
    using element = smemkit::fragment_element<T>;
    using element_type = T;
    using storage_element_type = typename element::type;
    static_assert(smemkit::has_fragment<Use, T, M, N, K>(), "nvcuda::wmma has no fragment of this shape and type");
    static_assert(smemkit::has_layout<Use, T, Layout>(), "nvcuda::wmma has no fragment of this type and layout");
    static constexpr int num_elements = shape::rows * shape::columns / 32;
    static constexpr int num_storage_elements =
        element::bits < 8 ? num_elements * element::bits / 32 : num_elements;
    storage_element_type x[num_storage_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
SMEMKIT_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout> &f, Value value)
{
    for (auto &x : f.x)
        x = (typename smemkit::fragment_element<T>::type)value;
}

} // namespace wmma
} // namespace nvcuda

namespace smemkit
{

/* All lanes of the warp must call this. Unlike __syncwarp it orders no memory. */
SMEMKIT_INLINE void meet(const char *file, int line)
{
    smemkit_warp(SMEMKIT_BALLOT, ~0u, 1, 0, file, line);
}

/* The offset in memory of this lane's register i, in elements of its type; packed ones in words. */
template <class Fragment>
SMEMKIT_INLINE size_t fragment_offset(int i, unsigned stride, bool column_major)
{
    if constexpr (Fragment::element::bits < 8) {
        const unsigned words = Fragment::element::bits * Fragment::num_elements / 32 * 4; /* per row */
        const unsigned at = (unsigned)(lane() * Fragment::num_storage_elements + i);
        return at / words * (size_t)(stride * Fragment::element::bits / 32) + at % words;
    } else {
        const unsigned at = (unsigned)(lane() * Fragment::num_elements + i);
        const unsigned row = at / Fragment::columns, column = at % Fragment::columns;
        return column_major ? row + (size_t)column * stride : column + (size_t)row * stride;
    }
}
/* Calls report(address, bytes) for this lane's accesses to a matrix: those of a GPU, to 8 x 8 matrices whose lines
 * are contiguous; or of its own elements one by one, so that a fault names the one that is out of bounds. */
template <class Fragment, class T, class Report>
SMEMKIT_INLINE void report_fragment(T *first, unsigned stride, bool column_major, Report report)
{
#ifdef SMEMKIT_CHECKED
    constexpr int each = Fragment::num_storage_elements;
    constexpr bool operand = !std::is_same_v<typename Fragment::use, nvcuda::wmma::accumulator>;
    constexpr bool by_matrices = operand ? Fragment::element::bits == 16 : Fragment::element::bits <= 32;
    const unsigned lines = column_major ? Fragment::columns : Fragment::rows, own = lane();
    const unsigned length = Fragment::rows * Fragment::columns / lines, down = lines / 8;
    const unsigned matrices = lines * length / 64;
    const auto at = [&](unsigned matrix, unsigned line, unsigned i) SMEMKIT_NO_HOOKS {
        return first + (size_t)(matrix % down * 8 + line) * stride + matrix / down * 8 + i;
    };

    if (!by_matrices || !smemkit_are_accessible(first, ((size_t)(lines - 1) * stride + length) * sizeof(T)))
        for (int i = 0; i < each; i++)
            report(first + fragment_offset<Fragment>(i, stride, column_major), sizeof(T));
    else if (operand && smemkit_is_shared(first))
        for (unsigned matrix = own / 8; matrix < matrices; matrix += 4)
            report(at(matrix, own % 8, 0), 8 * sizeof(T));
    else
        for (unsigned matrix = 0; matrix < matrices; matrix++)
            if (operand || !column_major)
                report(at(matrix, own / 4, own % 4 * 2), 2 * sizeof(T));
            else /* the pairs of a row are in two lines */
                for (unsigned i = 0; i < 2; i++)
                    report(at(matrix, own % 4 * 2 + i, own / 4), sizeof(T));
#else
    (void)first, (void)stride, (void)column_major, (void)report;
#endif
}
template <class Fragment, class T>
SMEMKIT_INLINE void load_fragment(Fragment &f, const T *from, unsigned stride, bool column_major, const void *pc,
                                  const char *file, int line)
{
    meet(file, line);
    smemkit_fragment_place(from, stride, Fragment::element::bits, "wmma::load_matrix_sync", file, line);
    report_fragment<Fragment>(from, stride, column_major, [&](const T *at, size_t bytes) SMEMKIT_NO_HOOKS {
        report_read(at, (unsigned)bytes, pc);
    });
    for (int i = 0; i < Fragment::num_storage_elements; i++)
        f.x[i] = load(from + fragment_offset<Fragment>(i, stride, column_major));
}
template <class Fragment, class T>
SMEMKIT_INLINE void store_fragment(T *to, const Fragment &f, unsigned stride, bool column_major, const void *pc,
                                   const char *file, int line)
{
    meet(file, line);
    smemkit_fragment_place(to, stride, 8 * sizeof(T), "wmma::store_matrix_sync", file, line);
    report_fragment<Fragment>(to, stride, column_major, [&](T *at, size_t bytes) SMEMKIT_NO_HOOKS {
        report_write(at, (unsigned)bytes, pc);
    });
    for (int i = 0; i < Fragment::num_elements; i++)
        store(to + fragment_offset<Fragment>(i, stride, column_major), f.x[i]);
}

/* A product of a warp, which the last lane to arrive computes for all: begins with smemkit_warp_call. */
template <class D, class A, class B, class C>
struct fragment_product {
    struct smemkit_warp_call call;
    D *d;
    const A *a;
    const B *b;
    const C *c;
    bool saturate, bits_and;

    using number = std::conditional_t<A::element::integer, long long, double>;

    /* Element i, j of a matrix of the warp's lanes; of a packed one along k */
    template <class Fragment>
    SMEMKIT_NO_HOOKS static number element(const Fragment *const (&lanes)[32], int i, int j)
    {
        constexpr int each = Fragment::num_elements;
        if constexpr (Fragment::element::bits < 8) {
            const bool a = std::is_same_v<Fragment, A>;
            const int at = a ? i * Fragment::columns + j : j * Fragment::rows + i;
            return Fragment::element::value(lanes[at / each]->x[0], at % each);
        } else {
            const int at = i * Fragment::columns + j;
            return Fragment::element::value(lanes[at / each]->x[at % each]);
        }
    }
    SMEMKIT_NO_HOOKS static number multiply_add(number x, number y, number sum, bool bits_and)
    {
        if constexpr (A::element::bits == 1)
            return sum + (bits_and ? x & y : x ^ y);
        else if constexpr (std::is_same_v<typename A::element_type, double>)
            return ::fma(x, y, sum);
        else
            return sum + x * y;
    }
    SMEMKIT_NO_HOOKS static void run(struct smemkit_warp_call *const calls[32])
    {
        constexpr int M = A::rows, K = A::columns, N = B::columns, each = D::num_elements;
        const A *a[32];
        const B *b[32];
        number sum[M][N], by_rows[K][N], row[K];
        const fragment_product *const *lanes = (const fragment_product *const *)calls;

        for (int lane = 0; lane < 32; lane++) {
            a[lane] = lanes[lane]->a;
            b[lane] = lanes[lane]->b;
            for (int i = 0; i < each; i++)
                sum[(lane * each + i) / N][(lane * each + i) % N] = C::element::value(lanes[lane]->c->x[i]);
        }
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                by_rows[k][j] = element(b, k, j);
        for (int i = 0; i < M; i++) {
            for (int k = 0; k < K; k++)
                row[k] = element(a, i, k);
            for (int k = 0; k < K; k++)
                for (int j = 0; j < N; j++)
                    sum[i][j] = multiply_add(row[k], by_rows[k][j], sum[i][j], lanes[0]->bits_and);
        }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < each; i++) {
                number value = sum[(lane * each + i) / N][(lane * each + i) % N];
                if constexpr (A::element::integer)
                    if (lanes[0]->saturate)
                        value = value > INT_MAX ? INT_MAX : value < INT_MIN ? INT_MIN : value;
                const typename D::storage_element_type rounded(value);
                if constexpr (sizeof rounded == 2)
                    lanes[lane]->d->x[i].bits = rounded.bits;
                else
                    lanes[lane]->d->x[i] = rounded;
            }
    }
};
template <class D, class A, class B, class C>
SMEMKIT_INLINE void multiply_fragments(D &d, const A &a, const B &b, const C &c, bool saturate, bool bits_and,
                                       const char *instruction, const char *file, int line)
{
    using operand = typename A::element_type;
    static_assert(std::is_same_v<operand, typename B::element_type>, "nvcuda::wmma multiplies equal types");
    static_assert(accumulates<typename C::element_type, operand>() &&
                      accumulates<typename D::element_type, operand>(),
                  "nvcuda::wmma has no such accumulator for these operands");
    fragment_product<D, A, B, C> product = {
        {instruction, fragment_product<D, A, B, C>::run}, &d, &a, &b, &c, saturate, bits_and};
    smemkit_warp_call(&product.call, file, line);
}

} // namespace smemkit

namespace nvcuda
{
namespace wmma
{

template <class Use, int M, int N, int K, class T, class Layout, class Memory>
SMEMKIT_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const Memory *from, unsigned stride,
                                     SMEMKIT_HERE)
{
    if constexpr (smemkit::fragment_element<T>::bits < 8)
        smemkit::load_fragment(f, (const uint32_t *)from, stride, false, SMEMKIT_PC, file, line);
    else
        smemkit::load_fragment(f, from, stride, std::is_same_v<Layout, col_major>, SMEMKIT_PC, file, line);
}
template <int M, int N, int K, class T, class Memory>
SMEMKIT_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T> &f, const Memory *from, unsigned stride,
                                     layout_t layout, SMEMKIT_HERE)
{
    smemkit::load_fragment(f, from, stride, layout == mem_col_major, SMEMKIT_PC, file, line);
}
template <int M, int N, int K, class T, class Memory>
SMEMKIT_INLINE void store_matrix_sync(Memory *to, const fragment<accumulator, M, N, K, T> &f, unsigned stride,
                                      layout_t layout, SMEMKIT_HERE)
{
    smemkit::store_fragment(to, f, stride, layout == mem_col_major, SMEMKIT_PC, file, line);
}

/* the result may be one of the operands */
template <int M, int N, int K, class D, class A, class LayoutA, class B, class LayoutB, class C>
SMEMKIT_INLINE void mma_sync(fragment<accumulator, M, N, K, D> &d,
                             const fragment<matrix_a, M, N, K, A, LayoutA> &a,
                             const fragment<matrix_b, M, N, K, B, LayoutB> &b,
                             const fragment<accumulator, M, N, K, C> &c, bool saturate = false, SMEMKIT_HERE)
{
    static_assert(smemkit::fragment_element<A>::bits > 1, "bmma_sync multiplies single bits");
    smemkit::multiply_fragments(d, a, b, c, saturate, false, "wmma::mma_sync", file, line);
}
/* counts the bits in which a row and a column differ, or that both have */
template <int M, int N, int K, class LayoutA, class LayoutB>
SMEMKIT_INLINE void bmma_sync(fragment<accumulator, M, N, K, int> &d,
                              const fragment<matrix_a, M, N, K, experimental::precision::b1, LayoutA> &a,
                              const fragment<matrix_b, M, N, K, experimental::precision::b1, LayoutB> &b,
                              const fragment<accumulator, M, N, K, int> &c,
                              experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                              experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC, SMEMKIT_HERE)
{
    smemkit::multiply_fragments(d, a, b, c, false, operation == experimental::bmmaBitOpAND, "wmma::bmma_sync",
                                file, line);
}

/* rounds to 10 bits of fraction, to nearest, ties away from zero (PTX ISA, cvt.rna.tf32.f32) */
SMEMKIT_INLINE float __float_to_tf32(float x)
{
    const unsigned bits = __float_as_uint(x);
    return isfinite(x) ? __uint_as_float((bits + 0x1000) & ~0x1fffu) : x;
}

} // namespace wmma
} // namespace nvcuda

#endif
