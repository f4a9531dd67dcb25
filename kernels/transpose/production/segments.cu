// A permutation that keeps contiguous segments: copies strided segments from and to any alignment.
//
// The idea: where the last axis stays last, nothing has to be transposed. The segments of out are covered by
// aligned 16-byte vectors, and each is extracted from the two aligned vectors of x that contain its elements,
// or from one if x has the same misalignment as out. A permutation that moves the last axis has segments of one
// element.
// What `tiles` wastes on it: a tile in shared memory, most of which a matrix of one row leaves empty.
// Launch: blocks of 256 threads, two vectors of out per thread.
#include <cuda_runtime.h>

#include "../../common/dispatch.cuh"
#include "../../common/division.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int SEGMENT_VECTORS = 2; // per thread; more, with their addresses, do not fit into registers
constexpr int SEGMENT_DIMENSIONS = MAX_BATCH_DIMENSIONS + 2;

// Segments of `length` elements, each of which is covered by up to `vectors.by` vectors of out; `count` vectors in
// all, fewer than 2^31.
struct segments_shape {
    int64_t length, count;
    divisor vectors;
    int ndim;
    batch_dimension dimension[SEGMENT_DIMENSIONS]; // the last one is the innermost
    divisor counts[SEGMENT_DIMENSIONS];            // of the dimensions
};

// A vector of out that begins `shift` elements after the start of a segment (before it if negative).
template <class T>
struct segment_vector {
    const T *x; // the element `shift` of the segment in x
    T *out;
    int64_t shift;
};

// vector_misalignment, which is always 0 for 16-byte elements
template <class T>
static __device__ int misalignment_of(const T *element)
{
    return sizeof(T) == VECTOR ? 0 : vector_misalignment(element);
}

template <class T>
static __device__ segment_vector<T> find_vector(const segments_shape &segments, const T *x, T *out, uint32_t i)
{
    uint32_t segment = divide(i, segments.vectors);
    const int64_t v = i - segment * segments.vectors.by;

    for (int d = segments.ndim - 1; d >= 0; d--) {
        const uint32_t above = d > 0 ? divide(segment, segments.counts[d]) : 0,
                       at = segment - above * segments.counts[d].by;

        segment = above;
        x += at * segments.dimension[d].x_stride;
        out += at * segments.dimension[d].out_stride;
    }

    const int64_t shift = v * vector_traits<T>::V - misalignment_of(out);
    return {x + shift, out + shift, shift};
}

// blocks per multiprocessor, as many as the registers for the elements of partial vectors allow
template <class T>
constexpr int SEGMENT_BLOCKS = sizeof(T) == VECTOR ? BLOCKS_PER_SM
                               : sizeof(T) > 1     ? BLOCKS_PER_SM - 1
                                                   : BLOCKS_PER_SM / 2;

template <class T>
__global__ void __launch_bounds__(BLOCK, SEGMENT_BLOCKS<T>)
    transpose_segments(const __grid_constant__ segments_shape segments, const T *x, T *out)
{
    pdl_wait();
    constexpr int V = vector_traits<T>::V;
    const int64_t first = (int64_t)blockIdx.x * BLOCK * SEGMENT_VECTORS + threadIdx.x;
    uint4 low[SEGMENT_VECTORS], high[SEGMENT_VECTORS];
    segment_vector<T> parts[SEGMENT_VECTORS];
    bool whole[SEGMENT_VECTORS];

#pragma unroll
    for (int l = 0; l < SEGMENT_VECTORS; l++) {
        const int64_t i = first + l * BLOCK;

        whole[l] = false;
        if (i < segments.count) {
            parts[l] = find_vector(segments, x, out, (uint32_t)i);
            const int past = misalignment_of(parts[l].x), needed = past ? 2 * V : V;
            const int64_t from =
                parts[l].shift - past; // of the segment, the first element of the first vector of x

            whole[l] = V == 1 || (from >= 0 && from + needed <= segments.length);
            if (whole[l])
                low[l] = *(const uint4 *)(parts[l].x - past);
            if (whole[l] && past)
                high[l] = *(const uint4 *)(parts[l].x - past + V);
        }
    }
#pragma unroll
    for (int l = 0; l < SEGMENT_VECTORS; l++) {
        if (whole[l]) {
            *(uint4 *)parts[l].out =
                extract_vector<sizeof(T)>(low[l], high[l], misalignment_of(parts[l].x) * (int)sizeof(T));
        } else if (first + l * BLOCK < segments.count) { // a segment begins or ends within the vector
            T some[V];

#pragma unroll
            for (int e = 0; e < V; e++)
                if (parts[l].shift + e >= 0 && parts[l].shift + e < segments.length)
                    some[e] = parts[l].x[e];
#pragma unroll
            for (int e = 0; e < V; e++)
                if (parts[l].shift + e >= 0 && parts[l].shift + e < segments.length)
                    parts[l].out[e] = some[e];
        }
    }
}

// the widest element of which everything is a multiple, up to 16 bytes
static int widest_unit_bytes(const transpose_args *args, const segments_shape &segments)
{
    uint64_t any = (uint64_t)segments.length;

    for (int d = 0; d < segments.ndim; d++)
        any |= (uint64_t)(segments.dimension[d].x_stride | segments.dimension[d].out_stride);
    any = any * args->element_size | (uintptr_t)args->x | (uintptr_t)args->out | VECTOR;
    return (int)(any & (0 - any));
}

static segments_shape segments_of(const transpose_args *args)
{
    segments_shape segments = {args->columns, 0, {}, args->batch_ndim, {}, {}};

    std::copy(args->batch, args->batch + args->batch_ndim, segments.dimension);
    if (args->rows > 1) {
        segments.length = 1;
        segments.dimension[segments.ndim++] = {args->columns, 1, args->out_row_stride};
        segments.dimension[segments.ndim++] = {args->rows, args->x_row_stride, 1};
    }
    return segments;
}

template <class T>
static cudaError_t launch(segments_shape segments, const T *x, T *out, cudaStream_t stream)
{
    const int64_t vectors = ceil_div(segments.length + vector_traits<T>::V - 1, vector_traits<T>::V);
    batch_dimension *widest = nullptr;

    segments.count = vectors;
    for (int d = 0; d < segments.ndim; d++) {
        segments.count *= segments.dimension[d].count;
        if (!widest || segments.dimension[d].count > widest->count)
            widest = &segments.dimension[d];
    }
    if (segments.count > INT32_MAX) { // split in two
        const bool by_length = !widest || widest->count == 1;
        int64_t &most = by_length ? segments.length : widest->count;
        const int64_t all = most, half = all / 2;

        most = half;
        if (cudaError_t error = launch(segments, x, out, stream))
            return error;
        most = all - half;
        return launch(segments, x + half * (by_length ? 1 : widest->x_stride),
                      out + half * (by_length ? 1 : widest->out_stride), stream);
    }
    segments.vectors = make_divisor(vectors);
    for (int d = 0; d < segments.ndim; d++)
        segments.counts[d] = make_divisor(segments.dimension[d].count);
    return launch<transpose_segments<T>>((unsigned)ceil_div(segments.count, BLOCK * SEGMENT_VECTORS), BLOCK, 0,
                                         stream, segments, x, out);
}

cudaError_t launch_transpose_segments(const transpose_args *args, cudaStream_t stream)
{
    segments_shape segments = segments_of(args);
    const int unit = widest_unit_bytes(args, segments), elements = unit / args->element_size; // of a unit

    segments.length /= elements;
    for (int d = 0; d < segments.ndim; d++) {
        segments.dimension[d].x_stride /= elements;
        segments.dimension[d].out_stride /= elements;
    }
    return dispatch_size(unit, [&](auto zero) {
        using T = decltype(zero);

        return launch(segments, (const T *)args->x, (T *)args->out, stream);
    });
}
