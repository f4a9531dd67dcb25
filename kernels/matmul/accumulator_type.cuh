// The accumulator of a sum of products: float for 16-bit floats, rounded once at the end; 32 bits for 8- and
// 16-bit integers, whose low bits are the wrapped result.
#pragma once

#include "../common/types.cuh"

template <class T>
constexpr bool is_16_bit_float = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
using accumulator_type =
    std::conditional_t<is_16_bit_float<T>, float,
                       std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4, uint32_t, T>>;
