// Converts an array of any strides, byte order and dtype into another.
//
// The idea: one thread per element. Its index along each dimension, times the stride, gives its address in x and
// in out. Unaligned and byte-swapped elements are moved byte by byte.
// Launch: blocks of 256 threads over the elements.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/types.cuh"
#include "kernels.h"

constexpr int BLOCK = 256;

// byte offset of element i, in C order, from element 0, …, 0
static __device__ void offsets(const convert_args &args, int64_t i, int64_t *in, int64_t *out)
{
    *in = *out = 0;
    for (int d = args.ndim - 1; d > 0; d--) {
        const int64_t at = i % args.shape[d];

        *in += at * args.x.strides[d];
        *out += at * args.out.strides[d];
        i /= args.shape[d];
    }
    if (args.ndim > 0) {
        *in += i * args.x.strides[0];
        *out += i * args.out.strides[0];
    }
}

// reverses every UNIT bytes; UNIT is a power of two
template <int BYTES, int UNIT>
static __device__ void copy_bytes(char *to, const char *from, bool swapped)
{
    for (int j = 0; j < BYTES; j++)
        to[swapped ? j ^ (UNIT - 1) : j] = from[j];
}

template <class T>
static __device__ T load(const convert_operand &x, int64_t offset)
{
    constexpr int UNIT = is_complex<T>::value ? sizeof(T) / 2 : sizeof(T); // a complex number has two
    const char *address = (const char *)x.data + offset;
    T value;

    if (x.aligned && !x.swapped)
        return *(const T *)address;
    copy_bytes<sizeof(T), UNIT>((char *)&value, address, x.swapped);
    return value;
}

// an element of any dtype, from memory that is aligned for all
static __device__ void store_bytewise(char *to, const char *from, enum dtype dtype, bool swapped)
{
    const int bytes = dtype & (BOOL | INT8 | UINT8)                   ? 1
                      : dtype & (INT16 | UINT16 | FLOAT16 | BFLOAT16) ? 2
                      : dtype & (INT32 | UINT32 | FLOAT32)            ? 4
                      : dtype & COMPLEX128                            ? 16
                                                                      : 8;
    const int unit = dtype & COMPLEX ? bytes / 2 : bytes;

    for (int j = 0; j < bytes; j++)
        to[swapped ? j ^ (unit - 1) : j] = from[j];
}

template <class T>
__global__ void convert_strided(__grid_constant__ const convert_args args)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t in, out;

    if (i < args.size) {
        offsets(args, i, &in, &out);
        const T value = load<T>(args.x, in);
        char *to = (char *)args.out.data + out;

        if (args.out.aligned && !args.out.swapped) {
            store_as(to, 0, args.out.dtype, value);
        } else {
            __align__(16) char bytes[16];
            store_as(bytes, 0, args.out.dtype, value);
            store_bytewise(to, bytes, args.out.dtype, args.out.swapped);
        }
    }
}

cudaError_t launch_convert_strided(const convert_args *args, cudaStream_t stream)
{
    return dispatch_dtype<EVERY>(args->x.dtype, [&](auto zero) {
        convert_strided<decltype(zero)><<<(unsigned)ceil_div(args->size, BLOCK), BLOCK, 0, stream>>>(*args);
        return cudaGetLastError();
    });
}
