/* nvcuda::wmma: products of small matrices by a warp. Element i of lane l of a fragment is the element i + l * n
 * of the matrix in row-major order, n being the elements per lane; CUDA leaves that open. Products are exact, and
 * a sum is rounded once, to the accumulator's type; tensor cores truncate sums in between, each generation in its
 * own way. */
#ifndef SMEMKIT_MMA_H
#define SMEMKIT_MMA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

} // namespace wmma
} // namespace nvcuda

namespace smemkit
{

template <class T>
struct fragment_element {
    using type = T;
};
template <>
struct fragment_element<nvcuda::wmma::precision::tf32> {
    using type = float;
};

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

/* what an element contributes to a sum */
template <class T>
SMEMKIT_INLINE auto fragment_value(T x)
{
    if constexpr (std::is_integral_v<T>)
        return (long long)x;
    else
        return (double)x;
}

} // namespace smemkit

namespace nvcuda
{
namespace wmma
{

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment : smemkit::fragment_shape<Use, M, N, K> {
    using shape = smemkit::fragment_shape<Use, M, N, K>;
    using element_type = T;
    using storage_element_type = typename smemkit::fragment_element<T>::type;
    static constexpr int num_elements = shape::rows * shape::columns / 32, num_storage_elements = num_elements;
    static_assert(shape::rows * shape::columns % 32 == 0, "a fragment is spread over 32 lanes");
    storage_element_type x[num_elements];
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

/* All lanes of the warp come here. It orders no memory, unlike __syncwarp. */
SMEMKIT_INLINE void meet(const char *file, int line)
{
    smemkit_warp(SMEMKIT_BALLOT, ~0u, 1, 0, file, line);
}

/* The offset in memory of this lane's element i */
template <class Fragment>
SMEMKIT_INLINE size_t fragment_offset(int i, unsigned stride, bool column_major)
{
    const unsigned at = (unsigned)(lane() * Fragment::num_elements + i);
    const unsigned row = at / Fragment::columns, column = at % Fragment::columns;
    return column_major ? row + (size_t)column * stride : column + (size_t)row * stride;
}
template <class Fragment, class T>
SMEMKIT_INLINE void load_fragment(Fragment &f, const T *from, unsigned stride, bool column_major, const void *pc,
                                  const char *file, int line)
{
    meet(file, line);
    for (int i = 0; i < Fragment::num_elements; i++) {
        const T *at = from + fragment_offset<Fragment>(i, stride, column_major);
        reads(at, sizeof *at, pc);
        f.x[i] = load(at);
    }
}
template <class Fragment, class T>
SMEMKIT_INLINE void store_fragment(T *to, const Fragment &f, unsigned stride, bool column_major, const void *pc,
                                   const char *file, int line)
{
    meet(file, line);
    for (int i = 0; i < Fragment::num_elements; i++) {
        T *at = to + fragment_offset<Fragment>(i, stride, column_major);
        writes(at, sizeof *at, pc);
        store(at, f.x[i]);
    }
}

/* All lanes' operands; they stay in place until the warp's next collective. */
template <class A, class B>
struct warp_operands {
    const A *a[32];
    const B *b[32];

    SMEMKIT_UNSEEN warp_operands(const A &own_a, const B &own_b, const char *file, int line)
    {
        for (int i = 0; i < 32; i++) {
            a[i] = (const A *)smemkit_warp(SMEMKIT_SHUFFLE, ~0u, (uint64_t)&own_a, i, file, line);
            b[i] = (const B *)smemkit_warp(SMEMKIT_SHUFFLE, ~0u, (uint64_t)&own_b, i, file, line);
        }
    }
    SMEMKIT_UNSEEN auto product(int row, int k, int column) const
    {
        const int i = row * A::columns + k, j = k * B::columns + column;
        return fragment_value(a[i / A::num_elements]->x[i % A::num_elements]) *
               fragment_value(b[j / B::num_elements]->x[j % B::num_elements]);
    }
};

} // namespace smemkit

namespace nvcuda
{
namespace wmma
{

template <class Use, int M, int N, int K, class T, class Layout, class Memory>
SMEMKIT_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout> &f, const Memory *from, unsigned stride,
                                     SMEMKIT_HERE)
{
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

template <int M, int N, int K, class D, class A, class LayoutA, class B, class LayoutB, class C>
SMEMKIT_INLINE void mma_sync(fragment<accumulator, M, N, K, D> &d,
                             const fragment<matrix_a, M, N, K, A, LayoutA> &a,
                             const fragment<matrix_b, M, N, K, B, LayoutB> &b,
                             const fragment<accumulator, M, N, K, C> &c, bool saturate = false, SMEMKIT_HERE)
{
    const smemkit::warp_operands<fragment<matrix_a, M, N, K, A, LayoutA>, fragment<matrix_b, M, N, K, B, LayoutB>>
        operands(a, b, file, line);
    fragment<accumulator, M, N, K, D> result;

    for (int i = 0; i < result.num_elements; i++) {
        const int at = smemkit::lane() * result.num_elements + i;
        auto sum = smemkit::fragment_value(c.x[i]);
        for (int k = 0; k < K; k++)
            sum += operands.product(at / N, k, at % N);
        if (std::is_same_v<D, int> && saturate)
            sum = sum > INT_MAX ? INT_MAX : sum < INT_MIN ? INT_MIN : sum;
        result.x[i] = (typename smemkit::fragment_element<D>::type)sum;
    }
    smemkit::meet(file, line); /* the other lanes have read this one's operands */
    d = result;
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
