// The transpose of many small matrices.
//
// The idea: as many matrices as make 16 KB are one piece of x, and the same piece of out. A block loads it as
// it lies, and then goes along out: a thread finds where the first element of its vector comes from by a
// division, and the others by going on to the next row, the next column or the next matrix.
// What the rungs below waste on it: most of a block, which has one matrix to turn.
// Launch: blocks of 256 threads, one for each piece. Matrices that are not small, or do not lie side by side,
// are turned element by element.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"

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

    for (int t = threadIdx.x; t * V - past < count; t += BLOCK) {
        const int f = t * V - past;

        if (f >= 0 && f + V <= count) {
            __pipeline_memcpy_async(&memory[place_of(t)], x + f, VECTOR);
        } else { // the piece begins or ends in it
#pragma unroll 1
            for (int e = max(f, 0); e < min(f + V, count); e++)
                element_of<T>(memory, e + past) = x[e];
        }
    }
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

// Launch: one thread an element of a matrix
template <class T>
__global__ void transpose_small_elements(const __grid_constant__ transpose_args args, int64_t batch, corner first)
{
    wait_for_earlier();
    const plane begin = plane_of(args, batch + blockIdx.z);
    const corner at = corner_of_block(first, 1, BLOCK);
    const int64_t column = at.column + threadIdx.x;

    if (column < args.columns)
        ((T *)args.out + begin.out)[column * args.out_pitch + at.row] =
            ((const T *)args.x + begin.x)[at.row * args.x_pitch + column];
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
    const int64_t matrix = args->rows * args->columns;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);
        constexpr int V = pieces<T>::V;

        if (!are_small(args))
            return cover(args->batches, args->rows, args->columns, 1, BLOCK,
                         [&](dim3 grid, int64_t batch, corner first) {
                             launch<transpose_small_elements<T>>(grid, BLOCK, 0, stream, *args, batch, first);
                         });

        const int piece = (int)(TILE_VECTORS * V / matrix * matrix), vectors = piece / V + 2;
        const int64_t pieces = ceil_div(args->batches * matrix, piece);
        launch<transpose_small<T>>((unsigned)pieces, BLOCK, (vectors + vectors / SPREAD) * VECTOR, stream,
                                   (const T *)args->x, (T *)args->out, (int)args->rows, (int)args->columns,
                                   args->batches * matrix, piece);
        return cudaGetLastError();
    });
}
