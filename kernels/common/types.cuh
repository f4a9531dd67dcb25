// The C++ type of each dtype, and what C++ lacks: NumPy's bool, complex numbers, and conversions that round once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#include "kernels.h"

// NumPy's bool: one byte, true unless it is 0. Addition is "or", multiplication is "and".
struct boolean {
    uint8_t byte;

    boolean() = default;
    __host__ __device__ constexpr boolean(bool value) : byte(value)
    {
    }
    __host__ __device__ constexpr operator bool() const
    {
        return byte != 0;
    }
    __host__ __device__ boolean &operator+=(boolean other)
    {
        return *this = *this || other;
    }
    friend __host__ __device__ boolean operator*(boolean a, boolean b)
    {
        return a && b;
    }
};

template <class T>
struct alignas(2 * sizeof(T)) complex {
    T re, im;

    complex() = default;
    __host__ __device__ constexpr complex(T re, T im = T(0)) : re(re), im(im)
    {
    }
    template <class U>
    __host__ __device__ explicit constexpr complex(complex<U> other) : re(T(other.re)), im(T(other.im))
    {
    }
    __host__ __device__ complex &operator+=(complex other)
    {
        re += other.re;
        im += other.im;
        return *this;
    }
    friend __host__ __device__ complex operator+(complex a, complex b)
    {
        return {a.re + b.re, a.im + b.im};
    }
    friend __host__ __device__ complex operator-(complex a, complex b)
    {
        return {a.re - b.re, a.im - b.im};
    }
    friend __host__ __device__ complex operator*(complex a, complex b)
    {
        return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    }
    friend __host__ __device__ bool operator==(complex a, complex b)
    {
        return a.re == b.re && a.im == b.im;
    }
    friend __host__ __device__ bool operator!=(complex a, complex b)
    {
        return a.re != b.re || a.im != b.im;
    }
};

template <class T>
struct is_complex : std::false_type {
};
template <class T>
struct is_complex<complex<T>> : std::true_type {
};

// Rounds to odd: the nearest float if that is exact, else the neighbouring float whose last bit is 1. Rounding the
// result to a narrower type then gives what rounding the double directly would have given.
__device__ inline float round_to_odd(double x)
{
    const float near = (float)x;
    const double back = near;
    uint32_t bits = __float_as_uint(near);

    if (back == x || x != x)
        return near;
    if ((back > x) == (x > 0)) // rounded away from zero, perhaps to infinity
        bits--;
    return __uint_as_float(bits | 1);
}

// ---- conversions by NumPy's rules: integers wrap around, the imaginary part is dropped. A float that the integer
// type cannot hold is undefined in C; here it gives what x86-64 gives, through 32 bits for integers of up to 32
// bits ----

__device__ inline int32_t to_int32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

__device__ inline int64_t to_int64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

template <class To>
__device__ To to_integer(double x)
{
    if constexpr (sizeof(To) < 4 || std::is_same_v<To, int32_t>)
        return (To)to_int32(x);
    else if constexpr (std::is_same_v<To, uint64_t>)
        return x >= 0x1p63 ? (uint64_t)to_int64(x - 0x1p63) ^ 1ull << 63 : (uint64_t)to_int64(x);
    else
        return (To)to_int64(x);
}

template <class To>
__device__ To from_double(double x)
{
    if constexpr (std::is_integral_v<To>)
        return to_integer<To>(x);
    else if constexpr (std::is_same_v<To, boolean>)
        return x != 0;
    else if constexpr (std::is_same_v<To, __half>)
        return __float2half_rn(round_to_odd(x));
    else if constexpr (std::is_same_v<To, __nv_bfloat16>)
        return __float2bfloat16_rn((float)x); // rounds twice, as ml_dtypes does
    else if constexpr (is_complex<To>::value)
        return To((decltype(To::re))x);
    else
        return (To)x;
}

template <class To, class From>
__device__ To convert(From x)
{
    constexpr bool narrow = std::is_same_v<To, __half> || std::is_same_v<To, __nv_bfloat16>;

    if constexpr (std::is_same_v<To, From>)
        return x;
    else if constexpr (is_complex<To>::value && is_complex<From>::value)
        return To(x);
    else if constexpr (std::is_same_v<To, boolean> && is_complex<From>::value)
        return x != From(0);
    else if constexpr (is_complex<From>::value)
        return convert<To>(x.re);
    else if constexpr (std::is_same_v<From, __half> || std::is_same_v<From, __nv_bfloat16>)
        return convert<To>((float)x);
    else if constexpr (std::is_same_v<From, boolean>)
        return convert<To>((uint8_t)(bool)x);
    else if constexpr (std::is_integral_v<From> && is_complex<To>::value)
        return To((decltype(To::re))x);
    else if constexpr (std::is_integral_v<From> && !narrow)
        return (To)(std::conditional_t<std::is_same_v<To, boolean>, bool, To>)x;
    else if constexpr (std::is_same_v<To, __nv_bfloat16> && std::is_integral_v<From>)
        return __float2bfloat16_rn((float)x);
    else if constexpr (std::is_same_v<From, float> && narrow)
        return (To)x;
    else // exact, except for integers beyond 2^53, which exceed float16 anyway
        return from_double<To>((double)x);
}

// ---- from a dtype to its type ----

#define SMEMKIT_DTYPES(CASE)        \
    CASE(BOOL, boolean)             \
    CASE(INT8, int8_t)              \
    CASE(INT16, int16_t)            \
    CASE(INT32, int32_t)            \
    CASE(INT64, int64_t)            \
    CASE(UINT8, uint8_t)            \
    CASE(UINT16, uint16_t)          \
    CASE(UINT32, uint32_t)          \
    CASE(UINT64, uint64_t)          \
    CASE(FLOAT16, __half)           \
    CASE(BFLOAT16, __nv_bfloat16)   \
    CASE(FLOAT32, float)            \
    CASE(FLOAT64, double)           \
    CASE(COMPLEX64, complex<float>) \
    CASE(COMPLEX128, complex<double>)

// f(T()) for the C++ type of `dtype`, which must be one of SET; instantiates f for those only
template <unsigned SET, class F>
[[nodiscard]] cudaError_t dispatch_dtype(enum dtype dtype, F f)
{
#define SMEMKIT_CASE(name, type)         \
    case name:                           \
        if constexpr ((SET & name) != 0) \
            return f(type());            \
        else                             \
            return cudaErrorInvalidValue;
    switch (dtype) {
        SMEMKIT_DTYPES(SMEMKIT_CASE)
    default:
        return cudaErrorInvalidValue;
    }
#undef SMEMKIT_CASE
}

// the unsigned dtype of the same size: wrapping arithmetic is the same for both
inline enum dtype without_sign(enum dtype dtype)
{
    return dtype & SIGNED ? (enum dtype)(dtype << 4) : dtype;
}

// out[i] = value as an element of `dtype`
template <class Value>
__device__ void store_as(void *out, int64_t i, enum dtype dtype, Value value)
{
#define SMEMKIT_CASE(name, type)                 \
    case name:                                   \
        ((type *)out)[i] = convert<type>(value); \
        break;
    switch (dtype) {
        SMEMKIT_DTYPES(SMEMKIT_CASE)
    default:
        break;
    }
#undef SMEMKIT_CASE
}
