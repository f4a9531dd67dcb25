// What the production kernels of matmul share: the operands with their strides, vectors of elements, and the sum
// of the slices of k.
#pragma once

#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "../../common/types.cuh"
#include "../accumulator_type.cuh"
#include "kernels.h"

// A matrix whose element (i, j) is at data[i * row_stride + j * column_stride]; the next one of a batch is
// batch_stride elements further on.
template <class T>
struct strided_matrix {
    const T *data;
    int64_t row_stride, column_stride, batch_stride;

    __host__ __device__ strided_matrix transposed() const
    {
        return {data, column_stride, row_stride, batch_stride};
    }
};

// c (batches, m, n) = a (batches, m, k) @ b (batches, k, n). k is divided into `slices` of `k_per_slice`; if there
// are several, each has its own `partial` (batches, slices, m, n), which a second kernel adds up.
template <class T>
struct product {
    strided_matrix<T> a, b;
    T *c;
    accumulator_type<T> *partial;
    int64_t batches, m, n, k, k_per_slice, slices;
};

template <class T>
static product<T> product_of(const matmul_args *args)
{
    return {{(const T *)args->a, args->a_strides[0], args->a_strides[1], args->a_batch_stride},
            {(const T *)args->b, args->b_strides[0], args->b_strides[1], args->b_batch_stride},
            (T *)args->c,
            (accumulator_type<T> *)args->scratch,
            args->batches,
            args->m,
            args->n,
            args->k,
            args->k_per_slice,
            matmul_slice_count(args)};
}

// N neighbours in memory, moved by as few instructions as possible: by at most 16 bytes each.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {
    T element[N];
};

// Whether packs of N can be loaded along the columns: rows begin at multiples of a pack, and end with a whole one
// (`whole`; or their ends are loaded element by element).
template <int N, class T>
static bool has_packs(const strided_matrix<T> &x, int64_t columns, bool whole)
{
    return x.column_stride == 1 && (uintptr_t)x.data % alignof(pack<T, N>) == 0 && x.row_stride % N == 0 &&
           x.batch_stride % N == 0 && (!whole || columns % N == 0);
}

// The type in which partial sums are added.
template <class T>
struct wide {
    using type = T;
};
template <>
struct wide<float> {
    using type = double;
};
template <>
struct wide<complex<float>> {
    using type = complex<double>;
};
template <>
struct wide<boolean> { // counts the true ones: a shuffle exchanges whole words
    using type = uint32_t;
};

template <class T>
using wide_type = typename wide<accumulator_type<T>>::type;

// ---- the sum of the slices ----

enum { ADD_THREADS = 256, ADD_ROWS = 8 }; // of a block; its rows if there are many slices

// One element of c per lane. The rows of a block take every ROWS-th slice, and the first one adds up their sums,
// always in the same order.
template <class T, int ROWS>
__global__ void matmul_add_slices(const accumulator_type<T> *partial, T *c, int64_t batches, int64_t elements,
                                  int64_t slices)
{
    using Wide = wide_type<T>;
    constexpr int LANES = ADD_THREADS / ROWS;
    __shared__ alignas(16) Wide sums[ROWS][LANES];

    const int64_t i = (int64_t)blockIdx.x * LANES + threadIdx.x; // of all batches
    const bool inside = i < batches * elements;
    const int64_t batch = i / elements, element = i % elements;
    Wide sum = Wide(0);

    pdl_wait();
    for (int64_t slice = threadIdx.y; inside && slice < slices; slice += ROWS)
        sum += Wide(partial[(batch * slices + slice) * elements + element]);
    if constexpr (ROWS > 1) {
        sums[threadIdx.y][threadIdx.x] = sum;
        __syncthreads(); // all rows have stored their sums before the first one reads them
    }
    if (threadIdx.y != 0 || !inside)
        return;
    for (int row = 1; row < ROWS; row++)
        sum += sums[row][threadIdx.x];
    c[i] = convert<T>(sum);
}

template <class T, int ROWS>
[[nodiscard]] static cudaError_t add_slices(const product<T> &p, cudaStream_t stream)
{
    constexpr int LANES = ADD_THREADS / ROWS;

    return launch<matmul_add_slices<T, ROWS>>((unsigned)ceil_div(p.batches * p.m * p.n, LANES), dim3(LANES, ROWS),
                                              0, stream, p.partial, p.c, p.batches, p.m * p.n, p.slices);
}

// Launches the kernel that multiplies, and, if there are several slices, the one that adds them up.
template <class T, class F>
[[nodiscard]] static cudaError_t multiply_and_add_slices(const product<T> &p, cudaStream_t stream, F multiply)
{
    const cudaError_t error = multiply();

    if (error || p.slices == 1)
        return error;
    return p.slices <= ADD_ROWS ? add_slices<T, 1>(p, stream) : add_slices<T, ADD_ROWS>(p, stream);
}
