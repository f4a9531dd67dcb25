// The transpose of matrices of few columns, or of few rows, as pieces.
//
// The idea: some whole rows of few columns are one piece of x, which a block loads as it lies. V of its rows
// fill `columns` vectors, whatever their number: they are a group. Out has few and long rows, for which vectors
// are gathered from the piece as from any tile. Few rows are the same the other way round: vectors of x are
// scattered into a piece of out, which is stored as it lies. Of a matrix that has many of both, strips of
// columns are taken for matrices; their pieces are brought together element by element.
// What the rungs below waste on it: the part of each tile that is empty, and the ends of short rows, which are
// no whole vectors.
// Launch: blocks of 256 threads, one for each piece of about 16 KB.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int NARROW = 64;           // few
constexpr int IN_FLIGHT = 4;         // vectors that a thread holds in registers,
constexpr int SCATTERING_BLOCKS = 4; // and blocks an SM that those leave

// A piece: `length` rows of x, or columns, by `few`.
struct piece_shape {
    int length, few;
    int group_vectors;     // from one group of V to the next: few, or one more, for it to be odd
    unsigned inverse;      // of few
    int across_log2;       // a warp works on so many of the few at a time, and on 32 / so many vectors of each,
    int spans, tasks;      // of which there are so many times as many
    unsigned span_inverse; // of spans
};

// what a lane works on in a task of its warp: the `along`-th vector of the `across`-th of the few
struct lane_task {
    int along, across;
};

static __device__ inline lane_task task_of(const piece_shape &piece, int task)
{
    const int lane = threadIdx.x % LANES, step = divide(task, piece.span_inverse),
              span = task - step * piece.spans;
    const int along_log2 = 5 - piece.across_log2; // of 32 lanes

    return {(span << along_log2) + (lane & ((1 << along_log2) - 1)),
            (step << piece.across_log2) + (lane >> along_log2)};
}

// The groups begin where the piece can be cut into vectors: up to V - 1 rows before `begin`, or columns.
template <class T>
static __device__ int before(const T *begin, int few)
{
    int count = 0;

    while (elements_past(begin - count * few) != 0)
        count++;
    return count;
}

// where vector t of a piece is in shared memory
static __device__ inline int place_of(const piece_shape &piece, int t)
{
    return t + divide(t, piece.inverse) * (piece.group_vectors - piece.few);
}

// Rows of x from `row` - V on into shared memory, where they begin with a vector. Each is `piece.few` of x's
// columns.
template <class T, bool FLAT>
static __device__ void load_piece(const transpose_args &args, const piece_shape &piece, const T *x, int64_t row,
                                  int64_t column, uint4 *memory)
{
    constexpr int V = pieces<T>::V;
    const int64_t from = (row - V) * piece.few,
                  elements = args.rows * piece.few; // of x, if these are all its columns
    const int count = (piece.length / V + 1) * piece.few;

    for (int t = threadIdx.x; t < count; t += BLOCK) {
        const int64_t at = from + (int64_t)t * V;
        uint4 *to = memory + place_of(piece, t);

        if (FLAT && at >= 0 && at + V <= elements) {
            __pipeline_memcpy_async(to, x + at, VECTOR);
        } else { // x begins or ends in it, or it lies elsewhere
#pragma unroll 1
            for (int e = 0; e < V; e++) {
                const int i = (t * V + e) / piece.few, c = (t * V + e) % piece.few;

                if (row - V + i >= 0 && row - V + i < args.rows && column + c < args.columns)
                    ((T *)to)[e] = x[(row - V + i) * args.x_pitch + column + c];
            }
        }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
}

template <class T, bool FLAT>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_gathered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch, corner first)
{
    constexpr int V = pieces<T>::V;
    extern __shared__ uint4 memory[]; // a group above the piece, and the piece

    const plane begin = plane_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const corner at = corner_of_block(first, piece.length, piece.few);
    const int64_t row = at.row - (FLAT ? before(x, piece.few) : 0); // of the piece

    load_piece<T, FLAT>(args, piece, x, row, at.column, memory);
    __syncthreads(); // the piece is complete before anyone reads a column of it

    for (int task = threadIdx.x / LANES; task < piece.tasks; task += BLOCK / LANES) {
        const lane_task lane = task_of(piece, task);
        const T *above = (const T *)(memory + lane.along * piece.group_vectors) + lane.across;

        if (lane.across < piece.few)
            store_windows<T, 1>(args, out, at.column + lane.across, row + lane.along * V, piece.group_vectors,
                                [&](int j) { return above + j * piece.few; });
    }
}

template <class T>
__global__ void __launch_bounds__(BLOCK, SCATTERING_BLOCKS)
    transpose_scattered(const __grid_constant__ transpose_args args, piece_shape piece, int64_t batch,
                        corner first)
{
    constexpr int V = pieces<T>::V;
    extern __shared__ uint4 memory[];

    const plane begin = plane_of(args, batch + blockIdx.z);
    const T *x = (const T *)args.x + begin.x;
    T *out = (T *)args.out + begin.out;
    const int64_t column =
        first.column + (int64_t)blockIdx.x * piece.length - before(out, piece.few); // of the piece
    const int groups = piece.length / V;

    for (int task0 = threadIdx.x / LANES; task0 < piece.tasks; task0 += IN_FLIGHT * (BLOCK / LANES)) {
        uint4 moving[IN_FLIGHT];

#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++) {
            const lane_task lane = task_of(piece, task0 + l * (BLOCK / LANES));
            const T *row = x + lane.across * args.x_pitch + column;
            const int past = elements_past(row), shift = lane.along * V - past;

            if (lane.across < piece.few && column + shift >= 0 && column + shift + V <= args.columns)
                moving[l] = *(const uint4 *)(row + shift);
        }
#pragma unroll
        for (int l = 0; l < IN_FLIGHT; l++) {
            const lane_task lane = task_of(piece, task0 + l * (BLOCK / LANES));
            const T *row = x + lane.across * args.x_pitch + column;
            const int past = elements_past(row), shift = lane.along * V - past;

            if (lane.across < piece.few && column + shift >= 0 && column + shift + V <= args.columns) {
                const uint32_t words[4] = {moving[l].x, moving[l].y, moving[l].z, moving[l].w};
                const uint4 vector = rotated<sizeof(T)>(words, (V - past) % V * (int)sizeof(T));

#pragma unroll
                for (int j = 0; j < V; j++) { // what belongs at place j of a group
                    const int group = lane.along - (j + past >= V);

                    if (group >= 0 && group < groups)
                        ((T *)(memory + group * piece.group_vectors))[j * piece.few + lane.across] =
                            get(vector, j, T());
                }
            } else if (lane.across < piece.few) { // a row begins or ends in it
#pragma unroll 1
                for (int i = shift; i < shift + V; i++)
                    if (i >= 0 && i < piece.length && column + i >= 0 && column + i < args.columns)
                        ((T *)(memory + i / V * piece.group_vectors))[i % V * piece.few + lane.across] = row[i];
            }
        }
    }
    __syncthreads(); // the piece is complete before anyone stores a vector of it

    const int64_t to = column * piece.few, elements = args.columns * piece.few; // of out
    for (int t = threadIdx.x; t < groups * piece.few; t += BLOCK) {
        const int64_t at = to + (int64_t)t * V;
        const uint4 *vector = memory + place_of(piece, t);

        if (at >= 0 && at + V <= elements) {
            *(uint4 *)(out + at) = *vector;
        } else {
#pragma unroll 1
            for (int e = 0; e < V; e++)
                if (at + e >= 0 && at + e < elements)
                    out[at + e] = ((const T *)vector)[e];
        }
    }
}

// The piece of matrices with `many` rows of `few` columns, or columns of few rows; `extra` vectors of each are
// more than its groups.
static inline piece_shape shape_of_piece(int64_t many, int few, int V, int extra)
{
    const int across_log2 = few > 2 ? 2 : few - 1, along = LANES >> across_log2;
    const int64_t most = ceil_div(many + 2 * V, (int64_t)V * along); // vectors, in units of a warp's
    const int spans = (int)std::max<int64_t>(1, std::min<int64_t>(most, (TILE_VECTORS / few + extra) / along));
    const int steps = (int)ceil_div(few, 1 << across_log2);

    return {(spans * along - extra) * V,
            few,
            few | 1,
            inverse_of(few),
            across_log2,
            spans,
            spans * steps,
            inverse_of(spans)};
}

template <class T, bool FLAT>
static cudaError_t gather(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V;
    const int few = (int)std::min<int64_t>(args->columns, NARROW);
    const piece_shape piece = shape_of_piece(args->rows, few, V, 0);
    const int bytes = (piece.length / V + 1) * piece.group_vectors * VECTOR;

    return cover(args->batches, args->rows + 2 * (V - 1), args->columns, piece.length, few,
                 [&](dim3 grid, int64_t batch, corner first) {
                     transpose_gathered<T, FLAT><<<grid, BLOCK, bytes, stream>>>(*args, piece, batch, first);
                 });
}

template <class T>
static cudaError_t scatter(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = pieces<T>::V;
    const piece_shape piece = shape_of_piece(args->columns, (int)args->rows, V, 1);
    const int bytes = piece.length / V * piece.group_vectors * VECTOR;

    return cover(args->batches, 1, args->columns + V - 1, 1, piece.length,
                 [&](dim3 grid, int64_t batch, corner first) {
                     transpose_scattered<T><<<grid, BLOCK, bytes, stream>>>(*args, piece, batch, first);
                 });
}

// Whether `few`, which lie one behind the other in `array`, can be cut into vectors: where a matrix does not begin
// at a multiple of 16, one of its rows does if their length is odd.
static bool can_be_cut(int64_t few, int64_t many, int64_t pitch, const void *array, const transpose_args *args,
                       int64_t batch_dimension::*step)
{
    return few <= NARROW && few < many && pitch == few && (few % 2 == 1 || are_aligned(array, 0, args, step));
}

cudaError_t launch_transpose_narrow(const transpose_args *args, cudaStream_t stream)
{
    const int64_t rows = args->rows, columns = args->columns;

    return dispatch_size(args->element_size, [&](auto zero) {
        using T = decltype(zero);

        if (can_be_cut(columns, rows, args->x_pitch, args->x, args, &batch_dimension::x_step))
            return gather<T, true>(args, stream);
        if (can_be_cut(rows, columns, args->out_pitch, args->out, args, &batch_dimension::out_step))
            return scatter<T>(args, stream);
        return gather<T, false>(args, stream);
    });
}
