// What a reduction does with two elements, and the types it does it in.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <limits>

#include "kernels.h"

template <class T>
struct Sum {
    static constexpr T IDENTITY = T(0);
    static __device__ T combine(T a, T b)
    {
        return a + b;
    }
};

// A NaN on either side is the result, as in NumPy: no comparison with NaN is true.
template <class T>
struct Min {
    static constexpr T IDENTITY =
        std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    static __device__ T combine(T a, T b)
    {
        return a < b || a != a ? a : b;
    }
};

template <class T>
struct Max {
    static constexpr T IDENTITY = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                                       : std::numeric_limits<T>::lowest();
    static __device__ T combine(T a, T b)
    {
        return a > b || a != a ? a : b;
    }
};

// The three types of a reduction: it loads In, computes in Accumulator, stores Result.
template <class In_, class Accumulator_, class Result_>
struct Types {
    using In = In_;
    using Accumulator = Accumulator_;
    using Result = Result_;
};

// f(Types<...>(), Operation<Accumulator>()) for what the arguments ask for
template <class F>
cudaError_t dispatch_reduce(const reduce_args *args, F f)
{
    const unsigned in = args->dtype, accumulator = args->accumulator, result = args->result;

    if (args->op == REDUCE_SUM && in == FLOAT32 && accumulator == FLOAT32 && result == FLOAT32)
        return f(Types<float, float, float>(), Sum<float>());
    if (args->op == REDUCE_SUM && in == FLOAT32 && accumulator == FLOAT64 && result == FLOAT32)
        return f(Types<float, double, float>(), Sum<double>());
    if (args->op == REDUCE_SUM && in == FLOAT32 && accumulator == FLOAT64 && result == FLOAT64)
        return f(Types<float, double, double>(), Sum<double>());
    if (args->op == REDUCE_SUM && in == INT32 && accumulator == INT64 && result == INT64)
        return f(Types<int32_t, int64_t, int64_t>(), Sum<int64_t>());
    if (args->op == REDUCE_MIN && in == FLOAT32)
        return f(Types<float, float, float>(), Min<float>());
    if (args->op == REDUCE_MIN && in == INT32)
        return f(Types<int32_t, int32_t, int32_t>(), Min<int32_t>());
    if (args->op == REDUCE_MAX && in == FLOAT32)
        return f(Types<float, float, float>(), Max<float>());
    if (args->op == REDUCE_MAX && in == INT32)
        return f(Types<int32_t, int32_t, int32_t>(), Max<int32_t>());
    return cudaErrorInvalidValue;
}
