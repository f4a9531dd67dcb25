// Any permutation, in boxes (multi-dimensional tiles).
//
// The idea: a block moves a box that spans as many axes as needed for long contiguous segments both in x and in
// out: the axes that are innermost in x, and those that are innermost in out. It loads the segments of x into
// shared memory, and stores along the segments of out. The position of an element in the box is a sum of entries
// of three tables: by segment of x, by segment of out, and by position in a segment of out. The tables are built
// once for many boxes.
// Small elements move as 4-byte words: a word of a segment of x is extracted from the two aligned words that
// contain it, a word of out is gathered, and only the ends of segments are moved by elements. Segments of x are an
// odd number of words apart in shared memory, where possible, so that gathering from many of them has no bank
// conflicts.
// What `tiles` wastes on it: one tile for each of many tiny matrices, if both swapped axes are short.
// Launch: blocks of 256 threads, each of which moves several boxes of up to 16 KB, or 8192 elements.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../../common/dispatch.cuh"
#include "../../common/division.cuh"
#include "../../common/grid.cuh"
#include "../../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"
#include "words.cuh"

constexpr int BOX_AXES = MAX_BATCH_DIMENSIONS + 2;
constexpr int BOX_BYTES = 16384, MIN_BOX_BYTES = 1024, MAX_TILE_ELEMENTS = 8192;
constexpr int64_t MANY_BOXES = 256; // small arrays get smaller boxes, so that there are at least this many
constexpr int WORDS_IN_FLIGHT = 4;
constexpr int64_t MAX_EXTENT = INT32_MAX / BOX_AXES; // elements along an axis of a box: entries add these up

struct box_axis {
    int64_t length, x_stride, out_stride;
    int64_t boxes, stride_in_boxes; // boxes along this axis, and along all axes that are faster in out
    int extent, tile_offset;        // elements of a box; distance between two elements in shared memory
};

// The axes, also sorted by stride in x and by stride in out. The first of each order form a segment.
struct box_shape {
    box_axis axis[BOX_AXES];
    int ndim, x_order[BOX_AXES], out_order[BOX_AXES];
    int x_segment_axes, out_segment_axes; // how many form a segment
    int rows, segments, positions;        // segments of x, segments of out, and elements per segment of out
    int64_t boxes, count;                 // number of boxes; see count_contiguous
    int64_t reach;                        // from the first element of a whole box in x to its last
    bool aligned;                         // every segment of x begins at a word
    bool own_tables; // boxes may be shorter along several axes: such a box needs its own tables, because its
                     // entries are not the first ones of a whole box's tables
};

// along an axis: the offsets of a box in x and in out, and its elements
struct box_part {
    int64_t x, out;
    int extent;
};

// bytes of shared memory without opt-in, except `parts`
constexpr size_t MAX_TILE_SHARED_BYTES = (48 << 10) - BOX_AXES * sizeof(box_part);

struct box_entry {
    int offset, tile_offset; // elements
};

// the offsets of element i of the axes order[begin], ..., order[end - 1]
static __device__ inline box_entry make_entry(const box_shape &box, const box_part *parts, const int *order,
                                              int begin, int end, int64_t box_axis::*step, int i)
{
    box_entry entry = {0, 0};

    for (int k = begin; k < end; k++) {
        const box_axis &axis = box.axis[order[k]];
        const int extent = box.own_tables ? parts[order[k]].extent : axis.extent, at = i % extent;

        i /= extent;
        entry.offset += at * (int)(axis.*step);
        entry.tile_offset += at * axis.tile_offset;
    }
    return entry;
}

static __device__ inline int slice_elements(const box_part *parts, const int *order, int begin, int end)
{
    int count = 1;

    for (int k = begin; k < end; k++)
        count *= parts[order[k]].extent;
    return count;
}

template <class T>
static __device__ void load_segments(const box_shape &box, const T *x, int64_t first, const box_entry *rows,
                                     int count, int length, T *tile)
{
    using word = typename word_traits<T>::type;
    constexpr int V = word_traits<T>::V;
    const int words = (length + V - 1) / V, all = count * words;
    const unsigned inverse = small_reciprocal(words);

    if (V == 1 || box.aligned) {
        for (int t = threadIdx.x; t < all; t += BLOCK) {
            const int r = (int)divide_small(t, inverse), p = (t - r * words) * V;
            const T *from = x + first + rows[r].offset + p;
            T *to = tile + rows[r].tile_offset + p;

            if (p + V <= length)
                __pipeline_memcpy_async(to, from, sizeof(word));
            else
#pragma unroll 1
                for (int e = 0; e < length - p; e++)
                    to[e] = from[e];
        }
        __pipeline_commit();
        __pipeline_wait_prior(0);
        return;
    }
    if constexpr (V > 1) {
        // whether all words that contain elements of the box are inside x
        const bool inside = first >= V && first + box.reach + 2 * V <= box.count;

        for (int t0 = threadIdx.x; t0 < all; t0 += BLOCK * WORDS_IN_FLIGHT) {
            const T *from[WORDS_IN_FLIGHT];
            uint32_t low[WORDS_IN_FLIGHT], high[WORDS_IN_FLIGHT];
            int tile_offsets[WORDS_IN_FLIGHT];
            bool whole[WORDS_IN_FLIGHT];

#pragma unroll
            for (int l = 0; l < WORDS_IN_FLIGHT; l++) {
                const int t = t0 + l * BLOCK, r = (int)divide_small(t, inverse), p = (t - r * words) * V;

                whole[l] = t < all && (inside || (p >= V && p + 2 * V <= length));
                if (t < all) {
                    from[l] = x + first + rows[r].offset + p;
                    tile_offsets[l] = rows[r].tile_offset + p;
                }
                if (whole[l]) {
                    const uint32_t *word = (const uint32_t *)(from[l] - word_misalignment(from[l]));

                    low[l] = word[0];
                    high[l] = word[1];
                }
            }
#pragma unroll
            for (int l = 0; l < WORDS_IN_FLIGHT; l++) {
                if (whole[l]) { // may write past the end of a segment: rows have space for it
                    *(uint32_t *)(tile + tile_offsets[l]) =
                        __funnelshift_r(low[l], high[l], word_misalignment(from[l]) * (32 / V));
                } else if (t0 + l * BLOCK < all) {
                    const int left = length - (t0 + l * BLOCK) % words * V;

#pragma unroll 1
                    for (int e = 0; e < min(V, left); e++)
                        tile[tile_offsets[l] + e] = from[l][e];
                }
            }
        }
    }
}

template <class T>
static __device__ void store_segments(T *out, const box_entry *segments, int count, const uint16_t *positions,
                                      int length, const T *tile)
{
    constexpr int V = word_traits<T>::V, BITS = 32 / V;
    const int words = (length + 2 * (V - 1)) / V, all = count * words;
    const unsigned inverse = small_reciprocal(words);

    for (int t = threadIdx.x; t < all; t += BLOCK) {
        const int q = (int)divide_small(t, inverse), v = t - q * words;
        T *segment = out + segments[q].offset;
        const T *from = tile + segments[q].tile_offset;

        if constexpr (V == 1) {
            segment[v] = from[positions[v]];
        } else {
            const int j = v * V - word_misalignment(segment);

            if (j >= 0 && j + V <= length) {
                uint32_t word = 0;

#pragma unroll
                for (int e = 0; e < V; e++)
                    word |= (uint32_t)from[positions[j + e]] << e * BITS;
                *(uint32_t *)(segment + j) = word;
            } else {
#pragma unroll 1
                for (int e = max(0, -j); e < min(V, length - j); e++)
                    segment[j + e] = from[positions[j + e]];
            }
        }
    }
}

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    transpose_boxes(const __grid_constant__ box_shape box, const T *x, T *out)
{
    extern __shared__ uint4 memory[];
    __shared__ box_part parts[BOX_AXES];
    box_entry *const rows = (box_entry *)memory, *const segments = rows + box.rows;
    uint16_t *const positions = (uint16_t *)(segments + box.segments);
    T *const tile =
        (T *)memory + ((box.rows + box.segments) * sizeof(box_entry) + box.positions * 2 + VECTOR - 1) / VECTOR *
                          (VECTOR / sizeof(T));
    bool tables_built = false;

    for (int64_t b = blockIdx.x; b < box.boxes; b += gridDim.x) {
        if (threadIdx.x < box.ndim) {
            const box_axis &axis = box.axis[threadIdx.x];
            const int64_t begin = box.boxes <= UINT32_MAX ? (uint32_t)b / (uint32_t)axis.stride_in_boxes %
                                                                (uint32_t)axis.boxes * (int64_t)axis.extent
                                                          : b / axis.stride_in_boxes % axis.boxes * axis.extent;

            parts[threadIdx.x] = {begin * axis.x_stride, begin * axis.out_stride,
                                  (int)min((int64_t)axis.extent, axis.length - begin)};
        }
        __syncthreads(); // `parts` is written, and no thread still reads the previous box's tile

        int64_t x_at = 0, out_at = 0;
        bool whole = true;
        for (int d = 0; d < box.ndim; d++) {
            x_at += parts[d].x;
            out_at += parts[d].out;
            whole = whole && parts[d].extent == box.axis[d].extent;
        }
        const int length = slice_elements(parts, box.x_order, 0, box.x_segment_axes);
        const int row_count = slice_elements(parts, box.x_order, box.x_segment_axes, box.ndim);
        const int out_length = slice_elements(parts, box.out_order, 0, box.out_segment_axes);
        const int segment_count = slice_elements(parts, box.out_order, box.out_segment_axes, box.ndim);

        tables_built = tables_built && (whole || !box.own_tables);
        if (!tables_built) {
            for (int r = threadIdx.x; r < box.rows; r += BLOCK)
                rows[r] =
                    make_entry(box, parts, box.x_order, box.x_segment_axes, box.ndim, &box_axis::x_stride, r);
            for (int q = threadIdx.x; q < box.segments; q += BLOCK)
                segments[q] = make_entry(box, parts, box.out_order, box.out_segment_axes, box.ndim,
                                         &box_axis::out_stride, q);
            for (int j = threadIdx.x; j < box.positions; j += BLOCK)
                positions[j] = (uint16_t)make_entry(box, parts, box.out_order, 0, box.out_segment_axes,
                                                    &box_axis::out_stride, j)
                                   .tile_offset;
            tables_built = whole || !box.own_tables;
            __syncthreads(); // the tables are complete
        }
        if (b == blockIdx.x)
            pdl_wait();
        load_segments(box, x, x_at, rows, row_count, length, tile);
        __syncthreads(); // the box is complete before any thread reads elsewhere in it
        store_segments(out + out_at, segments, segment_count, positions, out_length, tile);
    }
}

static int64_t magnitude(int64_t step)
{
    return step < 0 ? -step : step;
}

// how many axes of a box, in this order, form one segment
static int count_segment_axes(const box_shape &box, const int *order, int64_t box_axis::*step)
{
    int64_t segment = 1;
    int count = 0;

    while (count < box.ndim && box.axis[order[count]].*step == segment) {
        const box_axis &axis = box.axis[order[count++]];

        segment *= axis.extent;
        if (axis.extent < axis.length)
            break;
    }
    return count;
}

static int64_t extent_product(const box_shape &box, const int *order, int begin, int end)
{
    int64_t length = 1;

    for (int k = begin; k < end; k++)
        length *= box.axis[order[k]].extent;
    return length;
}

// doubles the box along the first of these axes that has more elements
static bool grow(box_shape *box, const int *order, int64_t most)
{
    for (int k = 0; k < box->ndim; k++) {
        box_axis &axis = box->axis[order[k]];
        const int64_t extent = std::min<int64_t>(axis.length, 2 * axis.extent);

        if (axis.extent == axis.length)
            continue;
        if (extent_product(*box, order, 0, box->ndim) / axis.extent * extent > most ||
            extent * std::max(magnitude(axis.x_stride), magnitude(axis.out_stride)) > MAX_EXTENT)
            return false;
        axis.extent = (int)extent;
        return true;
    }
    return false;
}

// the extent of boxes that are equally long along the axis, or a multiple of whole sectors
static int balanced(const box_axis &axis)
{
    const int64_t extent = ceil_div(axis.length, axis.boxes);

    return (int)(axis.extent < 2 * LANES ? extent
                                         : std::min<int64_t>(axis.extent, ceil_div(extent, LANES) * LANES));
}

static void add_axis(box_shape *box, int64_t length, int64_t x_stride, int64_t out_stride)
{
    if (length > 1)
        box->axis[box->ndim++] = {length, x_stride, out_stride, 1, 1, 1, 0};
}

static box_shape make_box(const transpose_args *args, int64_t most)
{
    box_shape box = {};

    for (int d = 0; d < args->batch_ndim; d++)
        add_axis(&box, args->batch[d].count, args->batch[d].x_stride, args->batch[d].out_stride);
    if (args->rows > 1)
        add_axis(&box, args->rows, args->x_row_stride, 1);
    add_axis(&box, args->columns, 1, args->rows > 1 ? args->out_row_stride : 1);

    for (int d = 0; d < box.ndim; d++)
        box.x_order[d] = box.out_order[d] = d;
    std::sort(box.x_order, box.x_order + box.ndim,
              [&](int a, int b) { return magnitude(box.axis[a].x_stride) < magnitude(box.axis[b].x_stride); });
    std::sort(box.out_order, box.out_order + box.ndim,
              [&](int a, int b) { return magnitude(box.axis[a].out_stride) < magnitude(box.axis[b].out_stride); });

    for (bool grown = true; grown;) { // the shorter segments grow first
        const int64_t in_x =
            extent_product(box, box.x_order, 0, count_segment_axes(box, box.x_order, &box_axis::x_stride));
        const int64_t in_out =
            extent_product(box, box.out_order, 0, count_segment_axes(box, box.out_order, &box_axis::out_stride));
        const int *shorter = in_x < in_out ? box.x_order : box.out_order;

        grown =
            grow(&box, shorter, most) || grow(&box, shorter == box.x_order ? box.out_order : box.x_order, most);
    }

    box.boxes = 1;
    for (int k = 0; k < box.ndim; k++) {
        box_axis &axis = box.axis[box.out_order[k]];

        axis.boxes = ceil_div(axis.length, axis.extent);
        axis.extent = balanced(axis);
        axis.stride_in_boxes = box.boxes;
        box.boxes *= axis.boxes;
    }
    return box;
}

// moves axes whose last box is shorter behind the others, from `begin` on; returns their number
static int move_uneven_axes_last(const box_shape &box, int *order, int begin)
{
    int *const end = order + box.ndim;
    int *const split = std::stable_partition(order + begin, end,
                                             [&](int d) { return box.axis[d].length % box.axis[d].extent == 0; });

    return (int)(end - split);
}

// sets the layout of a box in shared memory; returns its number of elements there
static int choose_layout(box_shape *box, int size)
{
    const int out_first = box->ndim ? box->out_order[0] : 0, unit = std::max(1, 4 / size);
    int tile_offset = 1;

    box->x_segment_axes = count_segment_axes(*box, box->x_order, &box_axis::x_stride);
    box->out_segment_axes = count_segment_axes(*box, box->out_order, &box_axis::out_stride);
    for (int k = 0; k < box->ndim; k++) {
        const int d = box->x_order[k];

        if (k > 0 && k < box->x_segment_axes && d == out_first && tile_offset * size % 8 == 0)
            box->x_segment_axes = k; // so that rows are an odd number of words apart
        if (k == box->x_segment_axes)
            tile_offset = ((tile_offset + unit - 1) / unit | 1) * unit;
        box->axis[d].tile_offset = tile_offset;
        tile_offset *= box->axis[d].extent;
    }
    box->own_tables = move_uneven_axes_last(*box, box->x_order, box->x_segment_axes) > 1 ||
                      move_uneven_axes_last(*box, box->out_order, box->out_segment_axes) > 1;
    box->rows = (int)extent_product(*box, box->x_order, box->x_segment_axes, box->ndim);
    box->segments = (int)extent_product(*box, box->out_order, box->out_segment_axes, box->ndim);
    box->positions = (int)extent_product(*box, box->out_order, 0, box->out_segment_axes);
    return tile_offset + unit;
}

template <class T>
static cudaError_t launch_boxes(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_traits<T>::V;
    const int64_t bytes = args->batches * args->rows * args->columns * (int)sizeof(T);
    const int64_t fitting = std::max<int64_t>(MIN_BOX_BYTES, std::min<int64_t>(BOX_BYTES, bytes / MANY_BOXES));
    box_shape box;
    size_t shared;

    for (int64_t most = std::min<int64_t>(MAX_TILE_ELEMENTS, fitting / sizeof(T));; most /= 2) {
        box = make_box(args, most);
        shared = choose_layout(&box, sizeof(T)) * sizeof(T) + VECTOR;
        shared += (box.rows + box.segments) * sizeof(box_entry) + box.positions * sizeof(uint16_t);
        if (shared <= MAX_TILE_SHARED_BYTES)
            break;
    }
    box.aligned = (uintptr_t)args->x % word_traits<T>::W == 0;
    for (int k = 0; k < box.ndim; k++) {
        const box_axis &axis = box.axis[box.x_order[k]];

        box.reach += (axis.extent - 1) * axis.x_stride;
        box.aligned =
            box.aligned && (k < box.x_segment_axes ? axis.boxes == 1 || axis.x_stride * axis.extent % V == 0
                                                   : axis.x_stride % V == 0);
    }
    box.count = count_contiguous(args);
    const int64_t resident = (int64_t)args->multiprocessors * BLOCKS_PER_SM;
    return launch<transpose_boxes<T>>((unsigned)std::min(box.boxes, resident), BLOCK, shared, stream, box,
                                      (const T *)args->x, (T *)args->out);
}

cudaError_t launch_transpose_boxes(const transpose_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size,
                         [&](auto zero) { return launch_boxes<decltype(zero)>(args, stream); });
}
