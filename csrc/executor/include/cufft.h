/* cuFFT's types; its functions are for host code. */
#ifndef SMEMKIT_CUFFT_H
#define SMEMKIT_CUFFT_H

#include <cuComplex.h>

typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;

#define CUFFT_FORWARD (-1)
#define CUFFT_INVERSE 1

#endif
