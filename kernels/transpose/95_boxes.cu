// Any permutation, in boxes.
//
// The idea: a block takes a box over as many axes as it needs for its elements to lie side by side in long runs,
// in x and in out: those along which x is contiguous, and those along which out is. It loads the runs of x into
// shared memory, and goes along the runs of out. Where an element of one lies in the other is a sum of what three
// tables say, of the runs of x, of the runs of out and of the places in a run of out, which are made once for many
// boxes. Small elements move as words of 4 bytes: a word of a run of x is shifted out of the two that it lies
// across, a word of out is gathered, and only the ends of runs go element by element. Runs of x lie an odd number
// of words apart in shared memory, where they can: what is gathered from many of them is in different banks then.
// What the rungs below waste on it: a tile for each of many tiny matrices, if the two axes that are turned are
// both short. Launch: blocks of 256 threads, each of which takes several boxes of up to 16 KB, or 8192 elements.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <algorithm>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"
#include "words.cuh"

constexpr int BOX_AXES = MAX_BATCH_DIMENSIONS + 2;
constexpr int BOX_BYTES = 16384, LEAST_BOX = 1024, MOST_ELEMENTS = 8192;
constexpr int64_t MANY_BOXES = 256;                 // that little is cut into
constexpr int64_t MOST_BLOCKS = 132 * BLOCKS_AN_SM; // at once
constexpr int WORDS_MOVING = 4;
constexpr int64_t FARTHEST = INT32_MAX / BOX_AXES; // elements along an axis of a box: entries add them up

struct box_axis {
    int64_t length, x_step, out_step;
    int64_t boxes, under; // along it, and along all that are faster in out
    int extent, place;    // of a box; from one to the next in shared memory
};

// The axes in the order in which x has them, and in the order in which out has. The first of them are a run.
struct box_shape {
    box_axis axis[BOX_AXES];
    int ndim, x_order[BOX_AXES], out_order[BOX_AXES];
    int x_run, out_run;        // so many
    int rows, runs, positions; // runs of x, of out, and elements of one of these
    int64_t boxes, count;      // in all; see count_dense
    int64_t reach;             // from the first element of a whole box in x to its last
    bool aligned;              // every run of x begins at a word
    bool several; // rows, or runs, have several axes along which a box may be shorter than others: then
                  // it has tables of its own, and is not the first part of what these say
};

// of a box: where it begins, and how far it goes along an axis
struct box_part {
    int64_t x, out;
    int extent;
};

// bytes that a block has without asking for more, beside its parts
constexpr size_t MOST_SHARED = (48 << 10) - BOX_AXES * sizeof(box_part);

struct box_entry {
    int offset, place; // elements
};

static __device__ inline unsigned quotient(unsigned t, unsigned inverse)
{
    return inverse ? __umulhi(t, inverse) : t;
}

// t / divisor is quotient(t, inverse_of_any(divisor)) for t * divisor < 2^32
static __device__ inline unsigned inverse_of_any(unsigned divisor)
{
    return divisor == 1 ? 0 : UINT32_MAX / divisor + 1;
}

// where element i of the axes order[begin], …, order[end - 1] lies
static __device__ inline box_entry find_entry(const box_shape &box, const box_part *parts, const int *order,
                                              int begin, int end, int64_t box_axis::*step, int i)
{
    box_entry entry = {0, 0};

    for (int k = begin; k < end; k++) {
        const box_axis &axis = box.axis[order[k]];
        const int extent = box.several ? parts[order[k]].extent : axis.extent, at = i % extent;

        i /= extent;
        entry.offset += at * (int)(axis.*step);
        entry.place += at * axis.place;
    }
    return entry;
}

static __device__ inline int count_of(const box_part *parts, const int *order, int begin, int end)
{
    int count = 1;

    for (int k = begin; k < end; k++)
        count *= parts[order[k]].extent;
    return count;
}

template <class T>
static __device__ void load_runs(const box_shape &box, const T *x, int64_t first, const box_entry *rows, int count,
                                 int length, T *tile)
{
    using word = typename word_of<T>::type;
    constexpr int V = word_of<T>::V;
    const int words = (length + V - 1) / V, all = count * words;
    const unsigned inverse = inverse_of_any(words);

    if (V == 1 || box.aligned) {
        for (int t = threadIdx.x; t < all; t += BLOCK) {
            const int r = quotient(t, inverse), p = (t - r * words) * V;
            const T *from = x + first + rows[r].offset + p;
            T *to = tile + rows[r].place + p;

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
        // whether all words are in x that those of the box fall into
        const bool inside = first >= V && first + box.reach + 2 * V <= box.count;

        for (int t0 = threadIdx.x; t0 < all; t0 += BLOCK * WORDS_MOVING) {
            const T *from[WORDS_MOVING];
            uint32_t low[WORDS_MOVING], high[WORDS_MOVING];
            int places[WORDS_MOVING];
            bool whole[WORDS_MOVING];

#pragma unroll
            for (int l = 0; l < WORDS_MOVING; l++) {
                const int t = t0 + l * BLOCK, r = quotient(t, inverse), p = (t - r * words) * V;

                whole[l] = t < all && (inside || (p >= V && p + 2 * V <= length));
                if (t < all) {
                    from[l] = x + first + rows[r].offset + p;
                    places[l] = rows[r].place + p;
                }
                if (whole[l]) {
                    const uint32_t *word = (const uint32_t *)(from[l] - elements_past_word(from[l]));

                    low[l] = word[0];
                    high[l] = word[1];
                }
            }
#pragma unroll
            for (int l = 0; l < WORDS_MOVING; l++) {
                if (whole[l]) { // behind the end of a run there is room
                    *(uint32_t *)(tile + places[l]) =
                        __funnelshift_r(low[l], high[l], elements_past_word(from[l]) * (32 / V));
                } else if (t0 + l * BLOCK < all) {
                    const int left = length - (t0 + l * BLOCK) % words * V;

#pragma unroll 1
                    for (int e = 0; e < min(V, left); e++)
                        tile[places[l] + e] = from[l][e];
                }
            }
        }
    }
}

template <class T>
static __device__ void store_runs(T *out, const box_entry *runs, int count, const uint16_t *positions, int length,
                                  const T *tile)
{
    constexpr int V = word_of<T>::V, BITS = 32 / V;
    const int words = (length + 2 * (V - 1)) / V, all = count * words;
    const unsigned inverse = inverse_of_any(words);

    for (int t = threadIdx.x; t < all; t += BLOCK) {
        const int q = quotient(t, inverse), v = t - q * words;
        T *run = out + runs[q].offset;
        const T *from = tile + runs[q].place;

        if constexpr (V == 1) {
            run[v] = from[positions[v]];
        } else {
            const int j = v * V - elements_past_word(run);

            if (j >= 0 && j + V <= length) {
                uint32_t word = 0;

#pragma unroll
                for (int e = 0; e < V; e++)
                    word |= (uint32_t)from[positions[j + e]] << e * BITS;
                *(uint32_t *)(run + j) = word;
            } else {
#pragma unroll 1
                for (int e = max(0, -j); e < min(V, length - j); e++)
                    run[j + e] = from[positions[j + e]];
            }
        }
    }
}

template <class T>
__global__ void __launch_bounds__(BLOCK, BLOCKS_AN_SM)
    transpose_boxes(const __grid_constant__ box_shape box, const T *x, T *out)
{
    extern __shared__ uint4 memory[];
    __shared__ box_part parts[BOX_AXES];
    box_entry *const rows = (box_entry *)memory, *const runs = rows + box.rows;
    uint16_t *const positions = (uint16_t *)(runs + box.runs);
    T *const tile = (T *)memory + ((box.rows + box.runs) * sizeof(box_entry) + box.positions * 2 + VECTOR - 1) /
                                      VECTOR * (VECTOR / sizeof(T));
    bool made = false; // the tables

    for (int64_t b = blockIdx.x; b < box.boxes; b += gridDim.x) {
        if (threadIdx.x < box.ndim) {
            const box_axis &axis = box.axis[threadIdx.x];
            const int64_t begin = box.boxes <= UINT32_MAX ? (uint32_t)b / (uint32_t)axis.under %
                                                                (uint32_t)axis.boxes * (int64_t)axis.extent
                                                          : b / axis.under % axis.boxes * axis.extent;

            parts[threadIdx.x] = {begin * axis.x_step, begin * axis.out_step,
                                  (int)min((int64_t)axis.extent, axis.length - begin)};
        }
        __syncthreads(); // the parts are there, and nobody reads the tile of the box before any more

        int64_t x_at = 0, out_at = 0;
        bool whole = true;
        for (int d = 0; d < box.ndim; d++) {
            x_at += parts[d].x;
            out_at += parts[d].out;
            whole = whole && parts[d].extent == box.axis[d].extent;
        }
        const int length = count_of(parts, box.x_order, 0, box.x_run);
        const int row_count = count_of(parts, box.x_order, box.x_run, box.ndim);
        const int out_length = count_of(parts, box.out_order, 0, box.out_run);
        const int run_count = count_of(parts, box.out_order, box.out_run, box.ndim);

        made = made && (whole || !box.several);
        if (!made) {
            for (int r = threadIdx.x; r < box.rows; r += BLOCK)
                rows[r] = find_entry(box, parts, box.x_order, box.x_run, box.ndim, &box_axis::x_step, r);
            for (int q = threadIdx.x; q < box.runs; q += BLOCK)
                runs[q] = find_entry(box, parts, box.out_order, box.out_run, box.ndim, &box_axis::out_step, q);
            for (int j = threadIdx.x; j < box.positions; j += BLOCK)
                positions[j] =
                    (uint16_t)find_entry(box, parts, box.out_order, 0, box.out_run, &box_axis::out_step, j).place;
            made = whole || !box.several;
            __syncthreads(); // the tables are complete
        }
        if (b == blockIdx.x)
            wait_for_earlier();
        load_runs(box, x, x_at, rows, row_count, length, tile);
        __syncthreads(); // the box is complete before anyone reads elsewhere in it
        store_runs(out + out_at, runs, run_count, positions, out_length, tile);
    }
}

static int64_t size_of(int64_t step)
{
    return step < 0 ? -step : step;
}

// how many axes of a box, in this order, are one run
static int count_run(const box_shape &box, const int *order, int64_t box_axis::*step)
{
    int64_t run = 1;
    int count = 0;

    while (count < box.ndim && box.axis[order[count]].*step == run) {
        const box_axis &axis = box.axis[order[count++]];

        run *= axis.extent;
        if (axis.extent < axis.length)
            break;
    }
    return count;
}

static int64_t length_of(const box_shape &box, const int *order, int begin, int end)
{
    int64_t length = 1;

    for (int k = begin; k < end; k++)
        length *= box.axis[order[k]].extent;
    return length;
}

// to the double, along the first of these axes that has more
static bool grow(box_shape *box, const int *order, int64_t most)
{
    for (int k = 0; k < box->ndim; k++) {
        box_axis &axis = box->axis[order[k]];
        const int64_t extent = std::min<int64_t>(axis.length, 2 * axis.extent);

        if (axis.extent == axis.length)
            continue;
        if (length_of(*box, order, 0, box->ndim) / axis.extent * extent > most ||
            extent * std::max(size_of(axis.x_step), size_of(axis.out_step)) > FARTHEST)
            return false;
        axis.extent = (int)extent;
        return true;
    }
    return false;
}

// as long as the others along the axis, or whole words and sectors
static int balanced(const box_axis &axis)
{
    const int64_t extent = ceil_div(axis.length, axis.boxes);

    return (int)(axis.extent < 2 * LANES ? extent
                                         : std::min<int64_t>(axis.extent, ceil_div(extent, LANES) * LANES));
}

static void add_axis(box_shape *box, int64_t length, int64_t x_step, int64_t out_step)
{
    if (length > 1)
        box->axis[box->ndim++] = {length, x_step, out_step, 1, 1, 1, 0};
}

static box_shape make_box(const transpose_args *args, int64_t most)
{
    box_shape box = {};

    for (int d = 0; d < args->batch_ndim; d++)
        add_axis(&box, args->batch[d].count, args->batch[d].x_step, args->batch[d].out_step);
    if (args->rows > 1)
        add_axis(&box, args->rows, args->x_pitch, 1);
    add_axis(&box, args->columns, 1, args->rows > 1 ? args->out_pitch : 1);

    for (int d = 0; d < box.ndim; d++)
        box.x_order[d] = box.out_order[d] = d;
    std::sort(box.x_order, box.x_order + box.ndim,
              [&](int a, int b) { return size_of(box.axis[a].x_step) < size_of(box.axis[b].x_step); });
    std::sort(box.out_order, box.out_order + box.ndim,
              [&](int a, int b) { return size_of(box.axis[a].out_step) < size_of(box.axis[b].out_step); });

    for (bool grown = true; grown;) { // the shorter runs first
        const int64_t in_x = length_of(box, box.x_order, 0, count_run(box, box.x_order, &box_axis::x_step));
        const int64_t in_out =
            length_of(box, box.out_order, 0, count_run(box, box.out_order, &box_axis::out_step));
        const int *shorter = in_x < in_out ? box.x_order : box.out_order;

        grown =
            grow(&box, shorter, most) || grow(&box, shorter == box.x_order ? box.out_order : box.x_order, most);
    }

    box.boxes = 1;
    for (int k = 0; k < box.ndim; k++) {
        box_axis &axis = box.axis[box.out_order[k]];

        axis.boxes = ceil_div(axis.length, axis.extent);
        axis.extent = balanced(axis);
        axis.under = box.boxes;
        box.boxes *= axis.boxes;
    }
    return box;
}

// brings axes along which boxes are of two lengths behind the others, from `begin` on; returns how many these are
static int put_split_last(const box_shape &box, int *order, int begin)
{
    int *const end = order + box.ndim;
    int *const split = std::stable_partition(order + begin, end,
                                             [&](int d) { return box.axis[d].length % box.axis[d].extent == 0; });

    return (int)(end - split);
}

// how the box lies in shared memory; returns its elements there
static int lay_out(box_shape *box, int size)
{
    const int out_first = box->ndim ? box->out_order[0] : 0, unit = std::max(1, 4 / size);
    int place = 1;

    box->x_run = count_run(*box, box->x_order, &box_axis::x_step);
    box->out_run = count_run(*box, box->out_order, &box_axis::out_step);
    for (int k = 0; k < box->ndim; k++) {
        const int d = box->x_order[k];

        if (k > 0 && k < box->x_run && d == out_first && place * size % 8 == 0)
            box->x_run = k; // for rows to lie an odd number of words apart
        if (k == box->x_run)
            place = ((place + unit - 1) / unit | 1) * unit;
        box->axis[d].place = place;
        place *= box->axis[d].extent;
    }
    box->several = put_split_last(*box, box->x_order, box->x_run) > 1 ||
                   put_split_last(*box, box->out_order, box->out_run) > 1;
    box->rows = (int)length_of(*box, box->x_order, box->x_run, box->ndim);
    box->runs = (int)length_of(*box, box->out_order, box->out_run, box->ndim);
    box->positions = (int)length_of(*box, box->out_order, 0, box->out_run);
    return place + unit;
}

template <class T>
static cudaError_t launch_boxes(const transpose_args *args, cudaStream_t stream)
{
    constexpr int V = word_of<T>::V;
    const int64_t bytes = args->batches * args->rows * args->columns * (int)sizeof(T);
    const int64_t room = std::max<int64_t>(LEAST_BOX, std::min<int64_t>(BOX_BYTES, bytes / MANY_BOXES));
    box_shape box;
    size_t shared;

    for (int64_t most = std::min<int64_t>(MOST_ELEMENTS, room / sizeof(T));; most /= 2) {
        box = make_box(args, most);
        shared = lay_out(&box, sizeof(T)) * sizeof(T) + VECTOR;
        shared += (box.rows + box.runs) * sizeof(box_entry) + box.positions * sizeof(uint16_t);
        if (shared <= MOST_SHARED)
            break;
    }
    box.aligned = (uintptr_t)args->x % word_of<T>::W == 0;
    for (int k = 0; k < box.ndim; k++) {
        const box_axis &axis = box.axis[box.x_order[k]];

        box.reach += (axis.extent - 1) * axis.x_step;
        box.aligned = box.aligned && (k < box.x_run ? axis.boxes == 1 || axis.x_step * axis.extent % V == 0
                                                    : axis.x_step % V == 0);
    }
    box.count = count_dense(args);
    return launch<transpose_boxes<T>>((unsigned)std::min(box.boxes, MOST_BLOCKS), BLOCK, shared, stream, box,
                                      (const T *)args->x, (T *)args->out);
}

cudaError_t launch_transpose_boxes(const transpose_args *args, cudaStream_t stream)
{
    return dispatch_size(args->element_size,
                         [&](auto zero) { return launch_boxes<decltype(zero)>(args, stream); });
}
