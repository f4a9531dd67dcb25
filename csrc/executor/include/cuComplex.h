/* Complex numbers, as float2 and double2. Quotients and absolute values are scaled, so that they do not overflow
 * unless the result does. */
#ifndef SMEMKIT_CUCOMPLEX_H
#define SMEMKIT_CUCOMPLEX_H

#include <cuda_runtime.h>

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define SMEMKIT_COMPLEX(type, real, suffix, make, absolute, fma)                                                 \
    SMEMKIT_INLINE type make(real x, real y)                                                                     \
    {                                                                                                            \
        return {x, y};                                                                                           \
    }                                                                                                            \
    SMEMKIT_FUNCTION_1(real, cuCreal##suffix, type, x.x)                                                         \
    SMEMKIT_FUNCTION_1(real, cuCimag##suffix, type, x.y)                                                         \
    SMEMKIT_FUNCTION_1(type, cuConj##suffix, type, (type{x.x, -x.y}))                                            \
    SMEMKIT_FUNCTION_1(real, cuCabs##suffix, type, absolute(x.x, x.y))                                           \
    SMEMKIT_FUNCTION_2(type, cuCadd##suffix, type, (type{x.x + y.x, x.y + y.y}))                                 \
    SMEMKIT_FUNCTION_2(type, cuCsub##suffix, type, (type{x.x - y.x, x.y - y.y}))                                 \
    SMEMKIT_FUNCTION_2(type, cuCmul##suffix, type, (type{(x.x * y.x) - (x.y * y.y), (x.x * y.y) + (x.y * y.x)})) \
    SMEMKIT_INLINE type cuCdiv##suffix(type x, type y)                                                           \
    {                                                                                                            \
        const real scale = 1 / (std::abs(y.x) + std::abs(y.y));                                                  \
        const type a = {x.x * scale, x.y * scale}, b = {y.x * scale, y.y * scale};                               \
        const real inverse = 1 / (b.x * b.x + b.y * b.y);                                                        \
        return {(a.x * b.x + a.y * b.y) * inverse, (a.y * b.x - a.x * b.y) * inverse};                           \
    }                                                                                                            \
    SMEMKIT_FUNCTION_3(type, cuCfma##suffix, type,                                                               \
                       (type{fma(x.x, y.x, fma(-x.y, y.y, z.x)), fma(x.x, y.y, fma(x.y, y.x, z.y))}))
SMEMKIT_COMPLEX(cuFloatComplex, float, f, make_cuFloatComplex, hypotf, std::fma)
SMEMKIT_COMPLEX(cuDoubleComplex, double, , make_cuDoubleComplex, hypot, std::fma)
#undef SMEMKIT_COMPLEX
SMEMKIT_FUNCTION_2(cuComplex, make_cuComplex, float, (cuComplex{x, y}))
SMEMKIT_FUNCTION_1(cuDoubleComplex, cuComplexFloatToDouble, cuFloatComplex, (cuDoubleComplex{x.x, x.y}))
SMEMKIT_FUNCTION_1(cuFloatComplex, cuComplexDoubleToFloat, cuDoubleComplex,
                   (cuFloatComplex{(float)x.x, (float)x.y}))

#endif
