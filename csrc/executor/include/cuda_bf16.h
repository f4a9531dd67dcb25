/* __nv_bfloat16 and __nv_bfloat162: see smemkit/narrow.h. */
#ifndef SMEMKIT_CUDA_BF16_H
#define SMEMKIT_CUDA_BF16_H

#include "smemkit/narrow.h"

typedef smemkit::narrow<smemkit::bfloat> __nv_bfloat16;
typedef smemkit::pair<__nv_bfloat16> __nv_bfloat162;
typedef smemkit::bfloat::raw __nv_bfloat16_raw;
typedef smemkit::bfloat::raw2 __nv_bfloat162_raw;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

SMEMKIT_NARROW(__nv_bfloat16, __nv_bfloat162)
SMEMKIT_NARROW_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16)
SMEMKIT_NARROW_PAIRS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
SMEMKIT_FUNCTION_1(__nv_bfloat162, __lowhigh2highlow, __nv_bfloat162, (__nv_bfloat162{x.y, x.x}))
SMEMKIT_FUNCTION_2(__nv_bfloat162, make_bfloat162, __nv_bfloat16, (__nv_bfloat162{x, y}))

#define CUDART_INF_BF16        __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_NAN_BF16        __ushort_as_bfloat16((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7FU)
#define CUDART_NEG_ZERO_BF16   __ushort_as_bfloat16((unsigned short)0x8000U)
#define CUDART_ZERO_BF16       __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16        __ushort_as_bfloat16((unsigned short)0x3F80U)

#endif
