// Maps of arrays for the TMA, which the driver makes. (CUDA Driver API, cuTensorMapEncodeTiled)
//
// The runtime knows the driver's function, so that nothing links with the driver.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

// An array (matrices, rows, columns) whose last dimension is contiguous; strides in elements.
template <class T>
struct tensor {
    const T *data;
    int64_t matrices, rows, columns, matrix_stride, row_stride;
};

// The TMA rounds floats to TF32 on their way to shared memory: ready for tensor cores, which would cut them.
template <class T>
static constexpr CUtensorMapDataType tensor_map_type()
{
    static_assert(sizeof(T) <= 2 || std::is_same_v<T, float> || std::is_same_v<T, double>,
                  "the elements are of another type");
    return sizeof(T) == 8              ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64
           : sizeof(T) == 4            ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
           : sizeof(T) == 1            ? CU_TENSOR_MAP_DATA_TYPE_UINT8
           : std::is_same_v<T, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                       : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Whether the TMA can copy boxes of it: there are elements, rows and matrices begin at multiples of 16 bytes and
// do not overlap, and positions have 32 bits.
template <class T>
static bool has_tensor_map(const tensor<T> &x)
{
    constexpr int64_t GRAIN = 16 / sizeof(T), MAX_SIZE = INT32_MAX, MAX_STRIDE = (1ll << 40) / sizeof(T);

    return (uintptr_t)x.data % 16 == 0 && x.row_stride % GRAIN == 0 && x.matrix_stride % GRAIN == 0 &&
           (x.rows == 1 || x.row_stride >= x.columns) && x.row_stride >= 0 && x.matrix_stride >= 0 &&
           x.row_stride < MAX_STRIDE && x.matrix_stride < MAX_STRIDE && x.matrices > 0 && x.matrices <= MAX_SIZE &&
           x.rows > 0 && x.columns > 0 && x.rows <= MAX_SIZE && x.columns <= MAX_SIZE;
}

// Whether its rows begin at sectors of 32 bytes.
template <class T>
static bool rows_are_sectors(const tensor<T> &x)
{
    constexpr int64_t SECTOR = 32 / sizeof(T);

    return (uintptr_t)x.data % 32 == 0 && x.row_stride % SECTOR == 0 && x.matrix_stride % SECTOR == 0;
}

// A map for boxes of box_rows rows of 128 bytes. Chunk c of row r, 16 bytes, is stored at c ^ r % 8. The L2 cache
// loads 256 bytes at a time, but 128 where rows begin amid sectors: 256 would be longer than most rows of a box
// need.
template <class T>
[[nodiscard]] static cudaError_t make_tensor_map(CUtensorMap *map, const tensor<T> &x, int box_rows)
{
    constexpr unsigned RANK = 3, COLUMNS = 128 / sizeof(T);
    const cuuint64_t size[RANK] = {(cuuint64_t)x.columns, (cuuint64_t)x.rows, (cuuint64_t)x.matrices};
    const cuuint64_t stride[RANK - 1] = {(cuuint64_t)x.row_stride * sizeof(T),
                                         (cuuint64_t)x.matrix_stride * sizeof(T)};
    const cuuint32_t box[RANK] = {COLUMNS, (cuuint32_t)box_rows, 1}, step[RANK] = {1, 1, 1};
    const auto promotion =
        rows_are_sectors(x) ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;

#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    const cudaError_t error =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (error)
        return error;
    if (found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    const CUresult result = ((decltype(&cuTensorMapEncodeTiled))function)(
        map, tensor_map_type<T>(), RANK, (void *)x.data, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
