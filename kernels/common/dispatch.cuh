// From run-time values to template arguments: a launcher knows a dtype and a tile when it is called, its kernel
// when it is compiled.
#pragma once

#include <cuda_runtime.h>
#include <type_traits>

#include "kernels.h"

// f(std::integral_constant<int, V>) for the V among VALUES that equals `value`
template <int... VALUES, class F>
cudaError_t dispatch(int value, F f)
{
    cudaError_t error = cudaErrorInvalidValue;
    ((value == VALUES ? (void)(error = f(std::integral_constant<int, VALUES>())) : (void)0), ...);
    return error;
}

// f(T()) for the type that `dtype` names
template <class F>
cudaError_t dispatch_dtype(enum dtype dtype, F f)
{
    switch (dtype) {
    case FLOAT32:
        return f(float());
    case INT32:
        return f(int32_t());
    default:
        return cudaErrorInvalidValue;
    }
}

// f(T()) for an unsigned type of `bytes`: all that a kernel needs to know which only moves elements
template <class F>
cudaError_t dispatch_size(int bytes, F f)
{
    switch (bytes) {
    case 4:
        return f(uint32_t());
    default:
        return cudaErrorInvalidValue;
    }
}
