/* A host library, of which kernels only need the element types. */
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
