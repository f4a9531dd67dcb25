// The last step of a reduction, shared by all rungs: computes out[row], or several of them, from the state of the
// whole row.
#pragma once

#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels.h"
#include "reduce_ops.cuh"
#include "types.cuh"
#include "vector.cuh"

// not inlined, so that kernels do not contain a conversion to every dtype
template <class Value>
static __device__ __noinline__ void store_any(void *out, int64_t row, enum dtype dtype, Value value)
{
    store_as(out, row, dtype, value);
}

// the common result dtypes are stored without that call
template <class Value>
static __device__ void store_result(void *out, int64_t row, enum dtype dtype, Value value)
{
    if constexpr (std::is_floating_point_v<Value>) {
        if (dtype == FLOAT32)
            ((float *)out)[row] = (float)value;
        else if (dtype == FLOAT64)
            ((double *)out)[row] = value;
        else if (dtype == FLOAT16)
            ((__half *)out)[row] = convert<__half>(value);
        else
            store_any(out, row, dtype, value);
    } else if constexpr (std::is_integral_v<Value>) {
        if (dtype & (INT64 | UINT64))
            ((int64_t *)out)[row] = (int64_t)value;
        else if (dtype & (INT32 | UINT32))
            ((int32_t *)out)[row] = (int32_t)value;
        else if (dtype & (INT16 | UINT16))
            ((int16_t *)out)[row] = (int16_t)value;
        else if (dtype & (INT8 | UINT8))
            ((int8_t *)out)[row] = (int8_t)value;
        else
            store_any(out, row, dtype, value);
    } else {
        store_any(out, row, dtype, value);
    }
}

template <class T>
static __device__ T scalar_as(const scalar &x)
{
    if constexpr (is_complex<T>::value)
        return {(decltype(T::re))x.re, (decltype(T::re))x.im};
    else if constexpr (std::is_integral_v<T>)
        return (T)x.bits;
    else
        return (T)x.re;
}

// The initial state of a sequential loop over a row.
template <class Operation>
static __device__ typename Operation::State initial_state(Operation, const reduce_args &)
{
    return Operation::identity();
}
template <class T>
static __device__ T initial_state(Prod<T>, const reduce_args &args)
{
    return args.begins_with_initial ? scalar_as<T>(args.initial) : T(1);
}

// An integer sum wrapped around to the width of `dtype`: NumPy's mean divides this sum.
static __device__ inline double wrapped(uint64_t sum, enum dtype dtype)
{
    if (dtype == BOOL)
        return sum != 0;
    const int shift = dtype & (INT8 | UINT8)     ? 56
                      : dtype & (INT16 | UINT16) ? 48
                      : dtype & (INT32 | UINT32) ? 32
                                                 : 0;

    return dtype & UNSIGNED ? (double)(sum << shift >> shift) : (double)((int64_t)(sum << shift) >> shift);
}

// whether an operation may be that of a mean; a Compensated one is evaluated as a Sum
template <class Operation>
struct is_sum : std::false_type {
};
template <class T>
struct is_sum<Sum<T>> : std::true_type {
};

// Calls give(value) with the result of a state: a double, an integer, a complex number, ... This overload is for
// sum, prod, min, max and mean, whose state is the value itself; the mean is divided here. Overloads for other
// states follow.
template <class Operation, class Give>
static __device__ void evaluate(Operation, typename Operation::State value, const reduce_args &args, Give give)
{
    using T = typename Operation::State;
    const bool mean = is_sum<Operation>::value && args.op == REDUCE_MEAN;
    // sums and products are computed without sign, which the accumulator has; minima and maxima with it
    const bool is_unsigned = is_extremum<Operation>::value ? !std::is_signed_v<T> : args.accumulator == UINT64;

    if (args.has_initial && !args.begins_with_initial)
        value = Operation::combine(scalar_as<T>(args.initial), value);
    if constexpr (is_complex<T>::value) {
        complex<double> z(value);
        if (mean)
            z = {z.re / args.n, z.im / args.n};
        give(z);
    } else if (std::is_same_v<T, float> && !mean) {
        give(value);
    } else if (std::is_floating_point_v<T> || mean) {
        const enum dtype kept = args.accumulator == FLOAT64 ? INT64 : args.dtype; // the width at which a sum wraps
        const double x = std::is_floating_point_v<T> ? (double)value : wrapped((uint64_t)value, kept);
        give(mean ? x / args.n : x);
    } else if (is_unsigned) {
        give((uint64_t)value);
    } else {
        give((int64_t)value);
    }
}

static __device__ inline double whole(double sum, double rest)
{
    return rest - rest == 0 && rest != 0 ? sum + rest : sum; // -0 + 0 would lose the sign
}
static __device__ inline complex<double> whole(complex<double> sum, complex<double> rest)
{
    return {whole(sum.re, rest.re), whole(sum.im, rest.im)};
}

template <class T, class Give>
static __device__ void evaluate(Compensated<T>, typename Compensated<T>::State state, const reduce_args &args,
                                Give give)
{
    evaluate(Sum<T>(), whole(state.sum, state.rest), args, give);
}

template <class Order, class Give>
static __device__ void evaluate(ArgExtremum<Order>, typename ArgExtremum<Order>::State first, const reduce_args &,
                                Give give)
{
    give(first.index);
}

template <class Give>
static __device__ void evaluate(Count, Count::State nonzero, const reduce_args &args, Give give)
{
    const int64_t count = (int64_t)nonzero.count + (args.has_initial && args.initial.bits);

    give(args.op == REDUCE_ANY   ? (int64_t)(count > 0)
         : args.op == REDUCE_ALL ? (int64_t)(count == args.n)
                                 : count);
}

static __device__ inline double nan_if_infinite(double mean)
{
    return mean - mean; // 0, or NaN if an element was infinite or NaN
}
static __device__ inline double nan_if_infinite(complex<double> mean)
{
    return (mean.re - mean.re) + (mean.im - mean.im);
}

template <class Mean, class Give>
static __device__ void evaluate(Variance<Mean>, typename Variance<Mean>::State state, const reduce_args &args,
                                Give give)
{
    const double freedom = state.count - args.ddof;
    const double var = (state.squares + nan_if_infinite(state.mean)) / (freedom <= 0 ? 0 : freedom);

    give(args.op == REDUCE_STD ? sqrt(var) : var);
}

template <class Operation>
static __device__ void finish(Operation operation, const typename Operation::State &state, int64_t row,
                              const reduce_args &args)
{
    evaluate(operation, state, args, [&](auto value) { store_result(args.out, row, args.result, value); });
}

// Whether results have x's dtype and out is aligned, so that consecutive results can be stored as vectors.
static __device__ __host__ inline bool can_store_result_vectors(const reduce_args &args)
{
    return args.result == args.dtype && (uintptr_t)args.out % 16 == 0;
}

// Stores COUNT consecutive results of x's dtype as one vector. `row` is a multiple of COUNT; state_of(c) returns
// the state of row + c.
template <class In, int COUNT, class Operation, class StateOf>
static __device__ void finish_vector(Operation operation, int64_t row, const reduce_args &args, StateOf state_of)
{
    typename Operation::State states[COUNT]; // computed before any division, which may be a function call
    In results[COUNT];
    Vector<sizeof results> vector;

#pragma unroll
    for (int c = 0; c < COUNT; c++)
        states[c] = state_of(c);
#pragma unroll
    for (int c = 0; c < COUNT; c++)
        evaluate(operation, states[c], args, [&](auto value) { results[c] = convert<In>(value); });
    memcpy(&vector, results, sizeof results);
    *(Vector<sizeof results> *)((In *)args.out + row) = vector;
}
