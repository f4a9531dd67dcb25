// The end of a reduction, the same on every rung: out[row], from the state of the whole row.
#pragma once

#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels.h"
#include "reduce_ops.cuh"
#include "types.cuh"

// a call, so that no kernel holds a conversion to each dtype
template <class Value>
static __device__ __noinline__ void store_any(void *out, int64_t row, enum dtype dtype, Value value)
{
    store_as(out, row, dtype, value);
}

// the dtypes that most results have are stored without
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

// a sum as the integer dtype would have kept it, which it is the mean of
static __device__ inline double wrapped(uint64_t sum, enum dtype dtype)
{
    const int shift = dtype & (INT8 | UINT8)     ? 56
                      : dtype & (INT16 | UINT16) ? 48
                      : dtype & (INT32 | UINT32) ? 32
                                                 : 0;

    return dtype & UNSIGNED ? (double)(sum << shift >> shift) : (double)((int64_t)(sum << shift) >> shift);
}

// sum, prod, min, max, mean: the state is the value, or will be when it is divided; what has another state comes
// below
template <class Operation>
static __device__ void finish(Operation, typename Operation::State value, int64_t row, const reduce_args &args)
{
    using T = typename Operation::State;
    const bool mean = args.op == REDUCE_MEAN, is_unsigned = args.accumulator == UINT64;

    if (args.has_initial)
        value = Operation::combine(scalar_as<T>(args.initial), value);
    if constexpr (is_complex<T>::value) {
        complex<double> z(value);
        if (mean)
            z = {z.re / args.n, z.im / args.n};
        store_result(args.out, row, args.result, z);
    } else if (std::is_same_v<T, float> && !mean) {
        store_result(args.out, row, args.result, value);
    } else if (std::is_floating_point_v<T> || mean) {
        const double x = std::is_floating_point_v<T> ? (double)value : wrapped((uint64_t)value, args.result);
        store_result(args.out, row, args.result, mean ? x / args.n : x);
    } else if (is_unsigned) {
        store_result(args.out, row, args.result, (uint64_t)value);
    } else {
        store_result(args.out, row, args.result, (int64_t)value);
    }
}

static __device__ inline double whole(double sum, double rest)
{
    return rest - rest == 0 ? sum + rest : sum;
}
static __device__ inline complex<double> whole(complex<double> sum, complex<double> rest)
{
    return {whole(sum.re, rest.re), whole(sum.im, rest.im)};
}

template <class T>
static __device__ void finish(Compensated<T>, typename Compensated<T>::State state, int64_t row,
                              const reduce_args &args)
{
    finish(Sum<T>(), whole(state.sum, state.rest), row, args);
}

template <class Order>
static __device__ void finish(IndexOfFirst<Order>, typename IndexOfFirst<Order>::State first, int64_t row,
                              const reduce_args &args)
{
    store_result(args.out, row, args.result, first.index);
}

static __device__ inline void finish(Count, Count::State nonzero, int64_t row, const reduce_args &args)
{
    const int64_t count = (int64_t)nonzero.count + (args.has_initial && args.initial.bits);

    store_result(args.out, row, args.result,
                 args.op == REDUCE_ANY   ? (int64_t)(count > 0)
                 : args.op == REDUCE_ALL ? (int64_t)(count == args.n)
                                         : count);
}

static __device__ inline double spread_of_infinity(double mean)
{
    return mean - mean; // 0, but NaN where an element was infinite, or a NaN
}
static __device__ inline double spread_of_infinity(complex<double> mean)
{
    return (mean.re - mean.re) + (mean.im - mean.im);
}

template <class Mean>
static __device__ void finish(Moments<Mean>, typename Moments<Mean>::State state, int64_t row,
                              const reduce_args &args)
{
    const double freedom = state.count - args.ddof;
    const double var = (state.squares + spread_of_infinity(state.mean)) / (freedom > 0 ? freedom : 0);

    store_result(args.out, row, args.result, args.op == REDUCE_STD ? sqrt(var) : var);
}
