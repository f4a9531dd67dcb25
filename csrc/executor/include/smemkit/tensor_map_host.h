/* cuTensorMapEncodeTiled, and the runtime's way to it: cuda.h. What it refuses is the driver's. (CUDA Driver API,
 * "Tensor Map Object Management") */
#ifndef SMEMKIT_TENSOR_MAP_HOST_H
#define SMEMKIT_TENSOR_MAP_HOST_H

#include "../../ptx.h"

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType {
    CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
    CU_TENSOR_MAP_DATA_TYPE_UINT16,
    CU_TENSOR_MAP_DATA_TYPE_UINT32,
    CU_TENSOR_MAP_DATA_TYPE_INT32,
    CU_TENSOR_MAP_DATA_TYPE_UINT64,
    CU_TENSOR_MAP_DATA_TYPE_INT64,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle {
    CU_TENSOR_MAP_SWIZZLE_NONE = 0,
    CU_TENSOR_MAP_SWIZZLE_32B,
    CU_TENSOR_MAP_SWIZZLE_64B,
    CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
    CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
    CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill {
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
};

typedef unsigned cuuint32_t;
typedef unsigned long long cuuint64_t;

static inline CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, unsigned rank,
                                              void *address, const unsigned long long *size,
                                              const unsigned long long *stride, const unsigned *box,
                                              const unsigned *step, CUtensorMapInterleave interleave,
                                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                              CUtensorMapFloatOOBfill fill)
{
    const unsigned long long size_end = 1ull << 32, box_end = 257, step_end = 9;
    smemkit_tensor to = {};
    char why[160];

    if ((uintptr_t)map % alignof(CUtensorMap) || !rank || rank > SMEMKIT_TENSOR_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    to.magic = SMEMKIT_TENSOR_MAGIC;
    to.address = (char *)address;
    to.rank = (uint8_t)rank;
    to.element = (uint8_t)smemkit_tensor_element_bytes(type);
    to.swizzle = (uint8_t)swizzle;
    to.nan = fill;
    to.type = (uint8_t)type;
    for (unsigned i = 0; i < rank; i++) {
        if (size[i] >= size_end || box[i] >= box_end || step[i] >= step_end)
            return CUDA_ERROR_INVALID_VALUE; /* and too large for their fields */
        to.strides[i] = i ? stride[i - 1] : to.element;
        to.shape[i] = (uint32_t)size[i];
        to.box[i] = (uint16_t)box[i];
        to.steps[i] = (uint8_t)step[i];
    }
    if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B || interleave || !smemkit_tensor_is_valid(&to, why, sizeof why))
        return CUDA_ERROR_INVALID_VALUE;
    static_assert(sizeof to <= sizeof *map, "a CUtensorMap has no room for the executor's");
    memcpy(map, &to, sizeof to);
    return CUDA_SUCCESS;
}

enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess = 0, cudaDriverEntryPointSymbolNotFound = 1 };
enum { cudaEnableDefault = 0 };

static inline cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                                           unsigned long long,
                                                           cudaDriverEntryPointQueryResult *found)
{
    const bool known = !strcmp(symbol, "cuTensorMapEncodeTiled");

    *function = known ? (void *)cuTensorMapEncodeTiled : nullptr;
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

#endif
