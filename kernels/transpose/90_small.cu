// The transpose of many small matrices, and of few elements.
//
// The idea: as many matrices as make 16 KB are one piece of x, and the same piece of out. A block loads it as it
// lies, and then goes along out: a thread finds where the first element of its vector comes from by a division,
// and the others by going on to the next row, the next column or the next matrix. Few elements, and matrices that
// are not small or do not lie side by side, are moved one by one, a thread each, in the order in which out has
// them: what there is to wait for is one load, and where to is known before.
// What the rungs below waste on it: most of a block, which has one matrix to turn, and a barrier.
// Launch: blocks of 256 threads, one for each piece, or for 256 elements.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdlib>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int64_t FEW_ELEMENTS = 1 << 17, MANY_PIECES = 256;

// where vector t of a piece is in shared memory: one place further after each 128 bytes, so that neither the rows
// of 2^n elements nor the matrices have their elements in one bank
static __device__ inline int place_of(int t)
{
    return t + t / SPREAD;
}

template <class T>
static __device__ T &element_of(uint4 *memory, int f)
{
    constexpr int V = pieces<T>::V;

    return ((T *)&memory[place_of(f / V)])[f % V];
}

// Element f of out in its piece, and its place in the piece of x.
struct walk {
    int rows, columns, row, column, from;

    __device__ walk(int rows_, int columns_, int f) : rows(rows_), columns(columns_)
    {
        const int matrix = f / (rows * columns), rest = f - matrix * (rows * columns);

        column = rest / rows;
        row = rest - column * rows;
        from = matrix * rows * columns + row * columns + column;
    }

    __device__ void go_on()
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

// x and out: the batch; `piece` elements a block
template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_small(const T *x, T *out, int rows, int columns, int64_t elements, int piece)
{
    wait_for_earlier();
    constexpr int V = pieces<T>::V;
    extern __shared__ uint4 memory[];

    const int64_t begin = (int64_t)blockIdx.x * piece;
    const int count = (int)min((int64_t)piece, elements - begin);

    x += begin;
    out += begin;
    const int past = elements_past(x),
              out_past = elements_past(out); // elements of the first vector before the piece

    const int first = (past + V - 1) / V, end = (count + past) / V; // whole vectors
    const int head = min(count, first * V - past), tail = max(head, end * V - past);
    for (int t = first + threadIdx.x; t < end; t += BLOCK)
        __pipeline_memcpy_async(&memory[place_of(t)], x + t * V - past, VECTOR);
    if ((int)threadIdx.x < head) // a thread an element, not to wait for one after the other
        element_of<T>(memory, threadIdx.x + past) = x[threadIdx.x];
    if (tail + (int)threadIdx.x < count)
        element_of<T>(memory, tail + threadIdx.x + past) = x[tail + threadIdx.x];
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads(); // the piece is complete before anyone reads elsewhere in it

    for (int f = threadIdx.x * V - out_past; f < count; f += BLOCK * V) {
        walk at(rows, columns, max(f, 0));

        if (f >= 0 && f + V <= count) {
            uint32_t words[4] = {};

#pragma unroll
            for (int j = 0; j < V; j++) {
                put(words, j, element_of<T>(memory, at.from + past));
                at.go_on();
            }
            *(uint4 *)(out + f) = {words[0], words[1], words[2], words[3]};
        } else {
#pragma unroll 1
            for (int e = max(f, 0); e < min(f + V, count); e++) {
                out[e] = element_of<T>(memory, at.from + past);
                at.go_on();
            }
        }
    }
}

// The axes of out, the fastest first; fewer than 2^32 elements.
struct element_axes {
    int ndim;
    batch_dimension axis[MAX_BATCH_DIMENSIONS + 2];
};

// Launch: one thread an element of out
template <class T>
__global__ void __launch_bounds__(BLOCK)
    transpose_small_elements(const __grid_constant__ element_axes axes, const T *x, T *out, uint32_t elements)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    uint32_t rest = i;
    plane place = {0, 0};

#pragma unroll
    for (int d = 0; d < MAX_BATCH_DIMENSIONS + 2; d++) // before what it waits for
        if (d < axes.ndim) {
            const uint32_t count = (uint32_t)axes.axis[d].count, above = d + 1 < axes.ndim ? rest / count : 0;
            const uint32_t at = rest - above * count;

            rest = above;
            place.x += at * axes.axis[d].x_step;
            place.out += at * axes.axis[d].out_step;
        }
    wait_for_earlier();
    if (i < elements)
        out[place.out] = x[place.x];
}

static element_axes axes_of(const transpose_args *args)
{
    element_axes axes = {args->batch_ndim, {}};

    std::copy(args->batch, args->batch + args->batch_ndim, axes.axis);
    axes.axis[axes.ndim++] = {args->columns, 1, args->rows > 1 ? args->out_pitch : 1};
    if (args->rows > 1)
        axes.axis[axes.ndim++] = {args->rows, args->x_pitch, 1};
    std::sort(axes.axis, axes.axis + axes.ndim, [](const batch_dimension &a, const batch_dimension &b) {
        return std::abs(a.out_step) < std::abs(b.out_step);
    });
    return axes;
}

template <class T>
static cudaError_t launch_elements(element_axes axes, const T *x, T *out, int64_t elements, cudaStream_t stream)
{
    if (elements >= UINT32_MAX) { // in two
        batch_dimension *longest =
            std::max_element(axes.axis, axes.axis + axes.ndim,
                             [](const batch_dimension &a, const batch_dimension &b) { return a.count < b.count; });
        const int64_t all = longest->count, half = all / 2;

        longest->count = half;
        if (cudaError_t error = launch_elements(axes, x, out, elements / all * half, stream))
            return error;
        longest->count = all - half;
        return launch_elements(axes, x + half * longest->x_step, out + half * longest->out_step,
                               elements / all * (all - half), stream);
    }
    return launch<transpose_small_elements<T>>((unsigned)ceil_div(elements, BLOCK), BLOCK, 0, stream, axes, x, out,
                                               (uint32_t)elements);
}

static bool are_small(const transpose_args *args)
{
    const int64_t matrix = args->rows * args->columns;
    const bool dense = args->x_pitch == args->columns && args->out_pitch == args->rows;

    return dense && matrix * args->element_size <= TILE_VECTORS * VECTOR && args->batch_ndim <= 1 &&
           (args->batch_ndim == 0 || (args->batch[0].x_step == matrix && args->batch[0].out_step == matrix));
}

cudaError_t launch_transpose_small(const transpose_args *args, cudaStream_t stream)
{
    const int64_t matrix = args->rows * args->columns, elements = args->batches * matrix;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = pieces<T>::V;

        if (elements <= FEW_ELEMENTS || !are_small(args))
            return launch_elements(axes_of(args), (const T *)args->x, (T *)args->out, elements, stream);

        const int64_t room = std::min<int64_t>(TILE_VECTORS * V, elements / MANY_PIECES);
        const int piece = (int)(std::max<int64_t>(1, room / matrix) * matrix), vectors = piece / V + 2;
        const int64_t pieces = ceil_div(elements, piece);
        return launch<transpose_small<T>>((unsigned)pieces, BLOCK, (vectors + vectors / SPREAD) * VECTOR, stream,
                                          (const T *)args->x, (T *)args->out, (int)args->rows, (int)args->columns,
                                          elements, piece);
    });
}
