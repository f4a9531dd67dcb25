/* __half and __half2: see smemkit/narrow.h. */
#ifndef SMEMKIT_CUDA_FP16_H
#define SMEMKIT_CUDA_FP16_H

#include "smemkit/narrow.h"

typedef smemkit::narrow<smemkit::binary16> __half;
typedef smemkit::pair<__half> __half2;
typedef smemkit::binary16::raw __half_raw;
typedef smemkit::binary16::raw2 __half2_raw;
typedef __half half;
typedef __half2 half2;

SMEMKIT_NARROW(__half, __half2)
SMEMKIT_NARROW_CONVERSIONS(__half, __half2, half)
SMEMKIT_NARROW_PAIRS(__half, __half2, half, half2)
SMEMKIT_FUNCTION_1(__half2, __lowhigh2highlow, __half2, (__half2{x.y, x.x}))
SMEMKIT_FUNCTION_2(__half2, make_half2, __half, (__half2{x, y}))

#define CUDART_INF_FP16        __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_NAN_FP16        __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_NEG_ZERO_FP16   __ushort_as_half((unsigned short)0x8000U)
#define CUDART_ZERO_FP16       __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16        __ushort_as_half((unsigned short)0x3C00U)

#endif
