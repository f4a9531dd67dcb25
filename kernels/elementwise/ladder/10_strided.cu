// out = a function of a and b, element by element: the arithmetic and the comparisons of Array.
//
// The idea: one thread per element. Its index along each dimension, times the operand's stride, gives its address;
// a stride of 0 repeats an element, so that broadcasting takes no memory. A number takes none either: it is an
// argument of the kernel. The function is an argument, too: all threads take the same branch, and the kernel is
// memory-bound.
// Launch: blocks of 256 threads over the elements.
#include <cuda_runtime.h>
#include <cstring>
#include <type_traits>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

constexpr int BLOCK = 256;

// ---- arithmetic: floats narrower than 32 bits are computed in float and rounded once ----

template <class T>
struct arithmetic_type {
    using type = T;
};
template <>
struct arithmetic_type<__half> {
    using type = float;
};
template <>
struct arithmetic_type<__nv_bfloat16> {
    using type = float;
};
template <>
struct arithmetic_type<uint8_t> {
    using type = uint32_t;
};
template <>
struct arithmetic_type<uint16_t> { // whose product would overflow int, to which C++ promotes it
    using type = uint32_t;
};

template <class T>
static __device__ T divide(T a, T b)
{
    return a / b;
}

// Robert L. Smith, "Algorithm 116: Complex division" (1962): no overflow of |b|^2
template <class T>
static __device__ complex<T> divide(complex<T> a, complex<T> b)
{
    if (fabs(b.re) >= fabs(b.im)) {
        if (b.re == 0 && b.im == 0)
            return {a.re / fabs(b.re), a.im / fabs(b.re)};
        const T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = T(1) / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

template <class T>
static __device__ T negate(T a)
{
    return -a;
}

template <class T>
static __device__ complex<T> negate(complex<T> a)
{
    return {-a.re, -a.im};
}

template <class T>
static __device__ T compute(T a, T b, enum elementwise_function function)
{
    if constexpr (!std::is_integral_v<T>) // integers come as double
        if (function == ELEMENTWISE_DIVIDE)
            return divide(a, b);
    switch (function) {
    case ELEMENTWISE_ADD:
        return a + b;
    case ELEMENTWISE_SUBTRACT:
        return a - b;
    case ELEMENTWISE_MULTIPLY:
        return a * b;
    default:
        return negate(a);
    }
}

static __device__ boolean compute(boolean a, boolean b, enum elementwise_function function)
{
    return function == ELEMENTWISE_ADD ? a || b : a && b;
}

// ---- comparisons ----

template <class T>
static __device__ bool equal(T a, T b)
{
    return a == b;
}

static __device__ bool equal(int64_t a, uint64_t b)
{
    return a >= 0 && (uint64_t)a == b;
}

static __device__ bool equal(uint64_t a, int64_t b)
{
    return equal(b, a);
}

template <class T>
static __device__ bool less(T a, T b)
{
    return a < b;
}

// by the real parts, then by the imaginary ones; a NaN in any part is neither less nor greater
template <class T>
static __device__ bool less(complex<T> a, complex<T> b)
{
    return a.re < b.re ? a.im == a.im && b.im == b.im : a.re == b.re && a.im < b.im;
}

static __device__ bool less(int64_t a, uint64_t b)
{
    return a < 0 || (uint64_t)a < b;
}

static __device__ bool less(uint64_t a, int64_t b)
{
    return b > 0 && a < (uint64_t)b;
}

template <class A, class B>
static __device__ bool compare(A a, B b, enum elementwise_function function)
{
    switch (function) {
    case ELEMENTWISE_EQUAL:
        return equal(a, b);
    case ELEMENTWISE_NOT_EQUAL:
        return !equal(a, b);
    case ELEMENTWISE_LESS:
        return less(a, b);
    case ELEMENTWISE_LESS_EQUAL:
        return less(a, b) || equal(a, b);
    case ELEMENTWISE_GREATER:
        return less(b, a);
    default:
        return less(b, a) || equal(a, b);
    }
}

// ---- the kernel ----

// byte offsets of element i, in C order, from element 0, …, 0 of each operand
static __device__ void offsets(const elementwise_args &args, int64_t i, int64_t at[2])
{
    at[0] = at[1] = 0;
    for (int d = args.ndim - 1; d >= 0; d--) {
        const int64_t index = d > 0 ? i % args.shape[d] : i;

        at[0] += index * args.strides[0][d];
        at[1] += index * args.strides[1][d];
        i = d > 0 ? i / args.shape[d] : 0;
    }
}

template <class T>
static __device__ T load(const void *operand, int64_t offset, const elementwise_args &args)
{
    T number;

    if (operand)
        return *(const T *)((const char *)operand + offset);
    memcpy(&number, args.number, sizeof number);
    return number;
}

template <class A, class B, bool COMPARES>
__global__ void elementwise_strided(__grid_constant__ const elementwise_args args)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t at[2];

    if (i < args.n) {
        offsets(args, i, at);
        const A a = load<A>(args.a, at[0], args);
        const B b = load<B>(args.b, at[1], args);

        if constexpr (COMPARES) {
            ((boolean *)args.out)[i] = compare(a, b, args.function);
        } else {
            using T = typename arithmetic_type<A>::type;
            ((A *)args.out)[i] = (A)compute((T)a, (T)b, args.function);
        }
    }
}

template <class A, class B, bool COMPARES>
static cudaError_t launch_typed(const elementwise_args *args, cudaStream_t stream)
{
    elementwise_strided<A, B, COMPARES><<<(unsigned)ceil_div(args->n, BLOCK), BLOCK, 0, stream>>>(*args);
    return cudaGetLastError();
}

cudaError_t launch_elementwise_strided(const elementwise_args *args, cudaStream_t stream)
{
    if (args->function < ELEMENTWISE_EQUAL)
        return dispatch_dtype<EVERY & ~SIGNED>(without_sign(args->dtype[0]), [&](auto zero) {
            using T = decltype(zero);
            return launch_typed<T, T, false>(args, stream);
        });
    if (args->dtype[0] == INT64 && args->dtype[1] == UINT64)
        return launch_typed<int64_t, uint64_t, true>(args, stream);
    if (args->dtype[0] == UINT64 && args->dtype[1] == INT64)
        return launch_typed<uint64_t, int64_t, true>(args, stream);
    return dispatch_dtype<EVERY>(args->dtype[0], [&](auto zero) {
        using T = decltype(zero);
        return launch_typed<T, T, true>(args, stream);
    });
}
