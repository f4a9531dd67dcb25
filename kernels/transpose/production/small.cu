// The transpose of many small matrices, and of few elements.
//
// The idea: as many matrices as fill 16 KB are one contiguous chunk of x, and the same chunk of out. A block loads
// the chunk in memory order and stores out in memory order: a thread finds the source of its vector's first
// element by a division, and of the others by advancing to the next row, column or matrix. Few elements, and
// matrices that are not small or not contiguous, are moved one by one, one per thread, in out's memory order: then
// only one load is waited for, and its address is computed before.
// What `tiles` wastes on it: most of a block, which has one matrix to transpose, and a barrier.
// Launch: blocks of 256 threads, one block per chunk, or per 256 elements.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdlib>

#include "../../common/dispatch.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int64_t ELEMENTWISE_MAX_ELEMENTS = 1 << 17, MANY_CHUNKS = 256;

// index of vector t of a chunk in shared memory: one vector of padding after each 128 bytes, so that elements of
// rows or matrices of 2^n elements are not all in one bank
static __device__ inline int padded_index(int t)
{
    return t + t / GROUPS_PER_REQUEST;
}

template <class T>
static __device__ T &element_of(uint4 *memory, int f)
{
    constexpr int V = vector_traits<T>::V;

    return ((T *)&memory[padded_index(f / V)])[f % V];
}

// Iterates over a chunk of out: element f of out, and the index `from` of the same element in the chunk of x.
struct cursor {
    int rows, columns, row, column, from;

    __device__ cursor(int rows_, int columns_, int f) : rows(rows_), columns(columns_)
    {
        const int matrix = f / (rows * columns), rest = f - matrix * (rows * columns);

        column = rest / rows;
        row = rest - column * rows;
        from = matrix * rows * columns + row * columns + column;
    }

    __device__ void advance()
    {
        if (++row < rows) {
            from += columns;
        } else {
            row = 0;
            if (++column < columns) {
                from -= (rows - 1) * columns - 1;
            } else {
                column = 0;
                from++;
            }
        }
    }
};

// x and out: the whole batch; each block moves `chunk` elements
template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    transpose_small(const T *x, T *out, int rows, int columns, int64_t elements, int chunk)
{
    pdl_wait();
    constexpr int V = vector_traits<T>::V;
    extern __shared__ uint4 memory[];

    const int64_t begin = (int64_t)blockIdx.x * chunk;
    const int count = (int)min((int64_t)chunk, elements - begin);

    x += begin;
    out += begin;
    const int past = vector_misalignment(x),
              out_past = vector_misalignment(out); // elements of the first vector that precede the chunk

    const int first = (past + V - 1) / V, end = (count + past) / V; // whole vectors
    const int head = min(count, first * V - past), tail = max(head, end * V - past);
    for (int t = first + threadIdx.x; t < end; t += BLOCK)
        __pipeline_memcpy_async(&memory[padded_index(t)], x + t * V - past, VECTOR);
    if ((int)threadIdx.x < head) // one thread per element, so that the loads overlap
        element_of<T>(memory, threadIdx.x + past) = x[threadIdx.x];
    if (tail + (int)threadIdx.x < count)
        element_of<T>(memory, tail + threadIdx.x + past) = x[tail + threadIdx.x];
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads(); // the chunk is complete before any thread reads elsewhere in it

    for (int f = threadIdx.x * V - out_past; f < count; f += BLOCK * V) {
        cursor at(rows, columns, max(f, 0));

        if (f >= 0 && f + V <= count) {
            uint32_t words[4] = {};

#pragma unroll
            for (int j = 0; j < V; j++) {
                put(words, j, element_of<T>(memory, at.from + past));
                at.advance();
            }
            *(uint4 *)(out + f) = {words[0], words[1], words[2], words[3]};
        } else {
#pragma unroll 1
            for (int e = max(f, 0); e < min(f + V, count); e++) {
                out[e] = element_of<T>(memory, at.from + past);
                at.advance();
            }
        }
    }
}

// The axes of out, innermost first; for fewer than 2^32 elements.
struct element_axes {
    int ndim;
    batch_dimension axis[MAX_BATCH_DIMENSIONS + 2];
};

// Launch: one thread per element of out
template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_small_elements(const __grid_constant__ element_axes axes, const T *x, T *out, uint32_t elements)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t rest = i;
    matrix_origin offset = {0, 0};

#pragma unroll
    for (int d = 0; d < MAX_BATCH_DIMENSIONS + 2; d++) // computed before pdl_wait()
        if (d < axes.ndim) {
            const uint32_t count = (uint32_t)axes.axis[d].count, above = d + 1 < axes.ndim ? rest / count : 0;
            const uint32_t at = rest - above * count;

            rest = above;
            offset.x += at * axes.axis[d].x_stride;
            offset.out += at * axes.axis[d].out_stride;
        }
    pdl_wait();
    if (i < elements)
        out[offset.out] = x[offset.x];
}

static element_axes axes_of(const transpose_args *args)
{
    element_axes axes = {args->batch_ndim, {}};

    std::copy(args->batch, args->batch + args->batch_ndim, axes.axis);
    axes.axis[axes.ndim++] = {args->columns, 1, args->rows > 1 ? args->out_row_stride : 1};
    if (args->rows > 1)
        axes.axis[axes.ndim++] = {args->rows, args->x_row_stride, 1};
    std::sort(axes.axis, axes.axis + axes.ndim, [](const batch_dimension &a, const batch_dimension &b) {
        return std::abs(a.out_stride) < std::abs(b.out_stride);
    });
    return axes;
}

template <class T>
static cudaError_t launch_elements(element_axes axes, const T *x, T *out, int64_t elements, cudaStream_t stream)
{
    if (elements >= UINT32_MAX) { // split in two
        batch_dimension *longest =
            std::max_element(axes.axis, axes.axis + axes.ndim,
                             [](const batch_dimension &a, const batch_dimension &b) { return a.count < b.count; });
        const int64_t all = longest->count, half = all / 2;

        longest->count = half;
        if (cudaError_t error = launch_elements(axes, x, out, elements / all * half, stream))
            return error;
        longest->count = all - half;
        return launch_elements(axes, x + half * longest->x_stride, out + half * longest->out_stride,
                               elements / all * (all - half), stream);
    }
    return launch<transpose_small_elements<T>>((unsigned)ceil_div(elements, BLOCK), BLOCK, 0, stream, axes, x, out,
                                               (uint32_t)elements);
}

static bool is_batch_of_small_matrices(const transpose_args *args)
{
    const int64_t matrix = args->rows * args->columns;
    const bool dense = args->x_row_stride == args->columns && args->out_row_stride == args->rows;

    return dense && matrix * args->element_size <= MAX_TILE_VECTORS * VECTOR && args->batch_ndim <= 1 &&
           (args->batch_ndim == 0 || (args->batch[0].x_stride == matrix && args->batch[0].out_stride == matrix));
}

cudaError_t launch_transpose_small(const transpose_args *args, cudaStream_t stream)
{
    const int64_t matrix = args->rows * args->columns, elements = args->batches * matrix;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = vector_traits<T>::V;

        if (elements <= ELEMENTWISE_MAX_ELEMENTS || !is_batch_of_small_matrices(args))
            return launch_elements(axes_of(args), (const T *)args->x, (T *)args->out, elements, stream);

        const int64_t fitting = std::min<int64_t>(MAX_TILE_VECTORS * V, elements / MANY_CHUNKS);
        const int chunk = (int)(std::max<int64_t>(1, fitting / matrix) * matrix), vectors = chunk / V + 2;
        const int64_t chunks = ceil_div(elements, chunk);
        return launch<transpose_small<T>>(
            (unsigned)chunks, BLOCK, (vectors + vectors / GROUPS_PER_REQUEST) * VECTOR, stream, (const T *)args->x,
            (T *)args->out, (int)args->rows, (int)args->columns, elements, chunk);
    });
}
