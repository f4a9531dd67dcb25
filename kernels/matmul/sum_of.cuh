// What sums of products are kept in: a 16-bit float's in float, to be rounded once at the end; an 8- or 16-bit
// integer's in 32 bits, the last of which are what its own type would hold.
#pragma once

#include "../common/types.cuh"

template <class T>
constexpr bool is_16_bit_float = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
using sum_of = std::conditional_t<is_16_bit_float<T>, float,
                                  std::conditional_t<std::is_integral_v<T> && sizeof(T) < 4, uint32_t, T>>;
