/* __nv_bfloat16 and __nv_bfloat162: see smemkit/narrow.h. */
#ifndef SMEMKIT_CUDA_BF16_H
#define SMEMKIT_CUDA_BF16_H

#include "smemkit/narrow.h"

typedef smemkit::narrow<smemkit::bfloat> __nv_bfloat16;
typedef smemkit::pair<__nv_bfloat16> __nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

SMEMKIT_NARROW(__nv_bfloat16, __nv_bfloat162)

SMEMKIT_FUNCTION_1(__nv_bfloat16, __float2bfloat16, float, x)
SMEMKIT_FUNCTION_1(__nv_bfloat16, __float2bfloat16_rn, float, x)
SMEMKIT_FUNCTION_1(__nv_bfloat16, __double2bfloat16, double, x)
SMEMKIT_FUNCTION_1(__nv_bfloat16, __int2bfloat16_rn, int, x)
SMEMKIT_FUNCTION_1(float, __bfloat162float, __nv_bfloat16, (float)x)
SMEMKIT_FUNCTION_1(unsigned short, __bfloat16_as_ushort, __nv_bfloat16, x.bits)
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    __nv_bfloat16 x;
    x.bits = bits;
    return x;
}
SMEMKIT_FUNCTION_2(__nv_bfloat162, __floats2bfloat162_rn, float, (__nv_bfloat162{x, y}))
SMEMKIT_FUNCTION_2(__nv_bfloat162, __halves2bfloat162, __nv_bfloat16, (__nv_bfloat162{x, y}))
SMEMKIT_FUNCTION_1(__nv_bfloat162, __float22bfloat162_rn, float2, (__nv_bfloat162{x.x, x.y}))
SMEMKIT_FUNCTION_1(float2, __bfloat1622float2, __nv_bfloat162, (float2{x.x, x.y}))
SMEMKIT_FUNCTION_1(float, __low2float, __nv_bfloat162, (float)x.x)
SMEMKIT_FUNCTION_1(float, __high2float, __nv_bfloat162, (float)x.y)

#endif
