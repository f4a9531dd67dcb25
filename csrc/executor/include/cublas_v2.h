/* A library for host code, whose header brings the types of its elements. */
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
