/* __half and __half2: see smemkit/narrow.h. */
#ifndef SMEMKIT_CUDA_FP16_H
#define SMEMKIT_CUDA_FP16_H

#include "smemkit/narrow.h"

typedef smemkit::narrow<smemkit::binary16> __half;
typedef smemkit::pair<__half> __half2;
typedef __half half;
typedef __half2 half2;

SMEMKIT_NARROW(__half, __half2)

SMEMKIT_FUNCTION_1(__half, __float2half, float, x)
SMEMKIT_FUNCTION_1(__half, __float2half_rn, float, x)
SMEMKIT_FUNCTION_1(__half, __double2half, double, x)
SMEMKIT_FUNCTION_1(__half, __int2half_rn, int, x)
SMEMKIT_FUNCTION_1(float, __half2float, __half, (float)x)
SMEMKIT_FUNCTION_1(int, __half2int_rn, __half, __float2int_rn(x))
SMEMKIT_FUNCTION_1(int, __half2int_rz, __half, __float2int_rz(x))
SMEMKIT_FUNCTION_1(unsigned short, __half_as_ushort, __half, x.bits)
static inline __half __ushort_as_half(unsigned short bits)
{
    __half x;
    x.bits = bits;
    return x;
}
SMEMKIT_FUNCTION_2(__half2, __floats2half2_rn, float, (__half2{x, y}))
SMEMKIT_FUNCTION_2(__half2, __halves2half2, __half, (__half2{x, y}))
SMEMKIT_FUNCTION_1(__half2, __float2half2_rn, float, (__half2{x, x}))
SMEMKIT_FUNCTION_1(__half2, __half2half2, __half, (__half2{x, x}))
SMEMKIT_FUNCTION_1(__half2, __float22half2_rn, float2, (__half2{x.x, x.y}))
SMEMKIT_FUNCTION_1(float2, __half22float2, __half2, (float2{x.x, x.y}))
SMEMKIT_FUNCTION_1(float, __low2float, __half2, (float)x.x)
SMEMKIT_FUNCTION_1(float, __high2float, __half2, (float)x.y)
SMEMKIT_FUNCTION_1(__half, __low2half, __half2, x.x)
SMEMKIT_FUNCTION_1(__half, __high2half, __half2, x.y)

#endif
