// The operations of a reduction.
//
// An operation is a type with a State, which summarises some elements of a row, and three functions: identity(),
// the state of no elements; of(x, j), the state of the single element j with value x; combine(a, b), the state of
// all elements in a and b. The order in which states are combined affects rounding only.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels.h"
#include "types.cuh"

// ---- sums and products; a mean is a sum that is divided at the end ----

// -0, the only identity of addition that preserves the sign of zeros. The initial value of a sum (0 by default) is
// added at the end.
template <class T>
static __device__ T negative_zero()
{
    if constexpr (is_complex<T>::value)
        return {-decltype(T::re)(0), -decltype(T::re)(0)};
    else
        return -T(0);
}

template <class T>
struct Sum {
    using State = T;
    static __device__ T identity()
    {
        return negative_zero<T>();
    }
    template <class In>
    static __device__ T of(In x, int64_t = 0)
    {
        return convert<T>(x);
    }
    static __device__ T combine(T a, T b)
    {
        return a + b;
    }
};

template <class T>
struct Prod {
    using State = T;
    static __device__ T identity()
    {
        return T(1);
    }
    template <class In>
    static __device__ T of(In x, int64_t = 0)
    {
        return convert<T>(x);
    }
    static __device__ T combine(T a, T b)
    {
        return a * b;
    }
};

// A compensated sum: the sum and its accumulated rounding errors, so that the error does not grow with the number
// of elements (D. E. Knuth, The Art of Computer Programming, volume 2, 4.2.2). If the sum is infinite or NaN, the
// compensation may be too, and is ignored.
__device__ inline double rounding_error(double a, double b, double sum)
{
    const double of_b = sum - a;
    return (a - (sum - of_b)) + (b - of_b);
}
__device__ inline complex<double> rounding_error(complex<double> a, complex<double> b, complex<double> sum)
{
    return {rounding_error(a.re, b.re, sum.re), rounding_error(a.im, b.im, sum.im)};
}

template <class T>
struct Compensated {
    struct State {
        T sum, rest;
    };
    static __device__ State identity()
    {
        return {negative_zero<T>(), T(0)};
    }
    template <class In>
    static __device__ State of(In x, int64_t)
    {
        return {convert<T>(x), T(0)};
    }
    static __device__ State combine(State a, State b)
    {
        const T sum = a.sum + b.sum;
        return {sum, a.rest + b.rest + rounding_error(a.sum, b.sum, sum)};
    }
};

// ---- minimum and maximum, and their indices; NaN comes before all numbers, as in NumPy ----

template <class T>
static __device__ bool is_nan(T x)
{
    return x != x;
}

// False if one is NaN. Complex numbers compare lexicographically, and are NaN if one part is.
template <class T>
static __device__ bool less(T a, T b)
{
    return a < b;
}
template <class T>
static __device__ bool less(complex<T> a, complex<T> b)
{
    return (a.re < b.re && a.im == a.im && b.im == b.im) || (a.re == b.re && a.im < b.im);
}

// the least and the greatest value of a type: infinities where it has them
template <class T>
struct ends {
    using Limits = std::numeric_limits<T>;
    static constexpr T LEAST = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    static constexpr T GREATEST = Limits::has_infinity ? Limits::infinity() : Limits::max();

    static __device__ T least()
    {
        return LEAST;
    }
    static __device__ T greatest()
    {
        return GREATEST;
    }
};
template <class T>
struct ends<complex<T>> {
    static __device__ complex<T> least()
    {
        return {ends<T>::LEAST, ends<T>::LEAST};
    }
    static __device__ complex<T> greatest()
    {
        return {ends<T>::GREATEST, ends<T>::GREATEST};
    }
};

template <class T>
struct MinOrder {
    using Value = T;
    static __device__ bool before(T a, T b)
    {
        return less(a, b);
    }
    static __device__ T last()
    {
        return ends<T>::greatest();
    }
};

template <class T>
struct MaxOrder {
    using Value = T;
    static __device__ bool before(T a, T b)
    {
        return less(b, a);
    }
    static __device__ T last()
    {
        return ends<T>::least();
    }
};

// min and max
template <class Order>
struct Extremum {
    using State = typename Order::Value;
    static __device__ State identity()
    {
        return Order::last();
    }
    template <class In>
    static __device__ State of(In x, int64_t = 0)
    {
        return convert<State>(x);
    }
    static __device__ State combine(State a, State b)
    {
        return Order::before(a, b) || is_nan(a) ? a : b;
    }
};

template <class Operation>
struct is_extremum : std::false_type {
};
template <class O>
struct is_extremum<Extremum<O>> : std::true_type {
    using Order = O;
};

// argmin and argmax: among equal values, and among NaNs, the lowest index
template <class Order>
struct ArgExtremum {
    struct State {
        typename Order::Value value;
        int64_t index;
    };
    static __device__ State identity()
    {
        return {Order::last(), INT64_MAX};
    }
    template <class In>
    static __device__ State of(In x, int64_t j)
    {
        return {convert<typename Order::Value>(x), j};
    }
    static __device__ State of(State partial, int64_t)
    {
        return partial;
    }
    static __device__ State combine(State a, State b)
    {
        const bool a_first = Order::before(a.value, b.value) || (is_nan(a.value) && !is_nan(b.value));
        const bool b_first = Order::before(b.value, a.value) || (is_nan(b.value) && !is_nan(a.value));
        return a_first || (!b_first && a.index < b.index) ? a : b;
    }
};

// ---- count_nonzero; any and all are counts that are compared at the end ----

struct Count {
    struct State {
        uint64_t count;
    };
    static __device__ State identity()
    {
        return {0};
    }
    template <class In>
    static __device__ State of(In x, int64_t)
    {
        return {convert<boolean>(x) ? 1u : 0u};
    }
    static __device__ State of(State partial, int64_t)
    {
        return partial;
    }
    static __device__ State combine(State a, State b)
    {
        return {a.count + b.count};
    }
};

// ---- var and std ----

__device__ inline double times(double x, double factor)
{
    return x * factor;
}
__device__ inline complex<double> times(complex<double> x, double factor)
{
    return {x.re * factor, x.im * factor};
}
__device__ inline double dot(double x, double y)
{
    return x * y;
}
__device__ inline double dot(complex<double> x, complex<double> y)
{
    return x.re * y.re + x.im * y.im;
}

// Count, mean, and sum of |x - mean|^2. The mean is subtracted before squaring, so that a small variance far from
// zero is not lost. Two states combine by T. F. Chan, G. H. Golub and R. J. LeVeque, Updating Formulae and a
// Pairwise Algorithm for Computing Sample Variances, 1979; with one element in b this is B. P. Welford's method,
// 1962.
template <class Mean>
struct Variance {
    struct State {
        Mean mean;
        double count, squares;
    };
    static __device__ State identity()
    {
        return {Mean(0), 0, 0};
    }
    template <class In>
    static __device__ State of(In x, int64_t)
    {
        return {convert<Mean>(x), 1, 0};
    }
    static __device__ State of(State partial, int64_t)
    {
        return partial;
    }
    static __device__ State combine(State a, State b)
    {
        if (a.count == 0 || b.count == 0)
            return a.count == 0 ? b : a;
        const double count = a.count + b.count, share = b.count / count;
        const Mean delta = b.mean - a.mean;
        return {a.mean + times(delta, share), count,
                a.squares + b.squares + dot(delta, times(delta, a.count * share))};
    }
};

// ---- from run-time arguments to an operation's type ----

// the type in which elements of type In are compared
template <class In>
using wide = std::conditional_t<
    std::is_same_v<In, boolean> || (std::is_unsigned_v<In> && sizeof(In) < 4), uint32_t,
    std::conditional_t<
        std::is_integral_v<In> && (sizeof(In) < 4), int32_t,
        std::conditional_t<std::is_same_v<In, __half> || std::is_same_v<In, __nv_bfloat16>, float, In>>>;

// the accumulators for elements of type In; integers are added as UINT64, signed or not
template <class In>
constexpr unsigned accumulators()
{
    if (std::is_integral_v<In> || std::is_same_v<In, boolean>)
        return UINT64 | FLOAT64;
    if (is_complex<In>::value)
        return sizeof(In) == 16 ? COMPLEX128 : COMPLEX;
    return sizeof(In) == 8 ? FLOAT64 : FLOAT32 | FLOAT64;
}

// An unsigned integer of In's size, if In is an integer or bool: the type for which a kernel is compiled where
// these give the same bits.
template <class In>
using without_sign_of = std::conditional_t<
    std::is_same_v<In, boolean>, uint8_t,
    typename std::conditional_t<std::is_integral_v<In>, std::make_unsigned<In>, std::enable_if<true, In>>::type>;

// the type for which a sum or product of elements of type In is compiled: of 64-bit integers the sign is lost
template <class Total, class In>
using summand =
    std::conditional_t<std::is_integral_v<Total> && sizeof(In) == sizeof(Total), without_sign_of<In>, In>;

// f(Operation(), In()) for the operation in args, where In is the type of x, one of DTYPES; g(In(), is_product)
// for sums and products, which have several accumulators to choose from
template <unsigned DTYPES, class F, class G>
[[nodiscard]] cudaError_t dispatch_operation(const reduce_args *args, F f, G g)
{
    return dispatch_dtype<DTYPES>(args->dtype, [&](auto x) {
        using In = decltype(x);
        using Value = wide<In>;
        using Mean = std::conditional_t<is_complex<In>::value, complex<double>, double>;

        switch (args->op) {
        case REDUCE_SUM:
        case REDUCE_MEAN:
            return g(x, std::false_type());
        case REDUCE_PROD:
            return g(x, std::true_type());
        case REDUCE_MIN:
            return f(Extremum<MinOrder<Value>>(), x);
        case REDUCE_MAX:
            return f(Extremum<MaxOrder<Value>>(), x);
        case REDUCE_ARGMIN:
            return f(ArgExtremum<MinOrder<Value>>(), x);
        case REDUCE_ARGMAX:
            return f(ArgExtremum<MaxOrder<Value>>(), x);
        case REDUCE_ANY:
        case REDUCE_ALL:
        case REDUCE_COUNT_NONZERO:
            return f(Count(), without_sign_of<In>());
        case REDUCE_VAR:
        case REDUCE_STD:
            return f(Variance<Mean>(), x);
        default:
            return cudaErrorInvalidValue;
        }
    });
}

// the same, with the accumulator given in args
template <unsigned DTYPES, class F>
[[nodiscard]] cudaError_t dispatch_reduce(const reduce_args *args, F f)
{
    return dispatch_operation<DTYPES>(args, f, [&](auto x, auto is_product) {
        return dispatch_dtype<accumulators<decltype(x)>()>(without_sign(args->accumulator), [&](auto sum) {
            using T = decltype(sum);
            return f(std::conditional_t<is_product, Prod<T>, Sum<T>>(), summand<T, decltype(x)>());
        });
    });
}
