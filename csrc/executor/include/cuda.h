/* The driver API is for host code; kernels that include this need at most its version. */
#include "cuda_runtime.h"

#ifndef CUDA_VERSION
#define CUDA_VERSION 13000
#endif

#ifndef SMEMKIT_CUDA_H
#define SMEMKIT_CUDA_H
typedef cudaTextureObject_t CUtexObject;
typedef cudaSurfaceObject_t CUsurfObject;
typedef unsigned long long CUdeviceptr;

/* made by smemkit.TensorMap, or cuTensorMapEncodeTiled; ptx.h has its content */
struct alignas(64) CUtensorMap_st {
    unsigned long long opaque[16];
};
typedef CUtensorMap_st CUtensorMap;

#include "smemkit/tensor_map_host.h"
#endif
