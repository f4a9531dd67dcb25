// Turns run-time values into template arguments: a launcher gets tile and element size at run time, but its kernel
// needs them at compile time. types.cuh does the same for dtypes.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

// f(std::integral_constant<int, V>) for the V among VALUES that equals `value`
template <int... VALUES, class F>
[[nodiscard]] cudaError_t dispatch(int value, F f)
{
    cudaError_t error = cudaErrorInvalidValue;
    ((value == VALUES ? (void)(error = f(std::integral_constant<int, VALUES>())) : (void)0), ...);
    return error;
}

// f(T()) for an unsigned type of `bytes` bytes: enough for a kernel that only moves elements
template <class F>
[[nodiscard]] cudaError_t dispatch_size(int bytes, F f)
{
    switch (bytes) {
    case 1:
        return f(uint8_t());
    case 2:
        return f(uint16_t());
    case 4:
        return f(uint32_t());
    case 8:
        return f(uint64_t());
    case 16:
        return f(uint4());
    default:
        return cudaErrorInvalidValue;
    }
}
