// A permutation that leaves runs of elements as they are: a copy of runs, from and to anywhere.
//
// The idea: where the last axis stays the last one, nothing is to be turned. Out is covered by the vectors of 16
// bytes that its runs fall into, and each is cut out of the two vectors of x that its elements fall into, one if x
// is shifted as out is. A permutation that does turn is runs of one element.
// What the rungs below waste on it: a tile in shared memory, and everything that a matrix of one row leaves empty.
// Launch: blocks of 256 threads, two vectors of out a thread.
#include <cuda_runtime.h>

#include "../common/dispatch.cuh"
#include "../common/grid.cuh"
#include "../common/launch.cuh"
#include "kernels.h"
#include "vectors.cuh"

constexpr int RUN_VECTORS = 2; // that a thread moves; more do not fit its registers, with where they lie
constexpr int RUN_DIMENSIONS = MAX_BATCH_DIMENSIONS + 2;

// n / by is n * multiplier >> shift, for n < 2^31: a division takes longer than all else that a vector needs
struct divisor {
    uint32_t by, multiplier;
    int shift;
};

static divisor divisor_of(int64_t by)
{
    int log2 = 0;

    while ((int64_t)1 << log2 < by)
        log2++;
    return {(uint32_t)by, (uint32_t)((((uint64_t)1 << (31 + log2)) + by - 1) / by), 31 + log2};
}

static __device__ uint32_t divide(uint32_t n, const divisor &d)
{
    return (uint32_t)((uint64_t)n * d.multiplier >> d.shift);
}

// Runs of `length` elements, each of which falls into up to `vectors.by` vectors of out; `count` of these in all,
// fewer than 2^31.
struct runs_shape {
    int64_t length, count;
    divisor vectors;
    int ndim;
    batch_dimension dimension[RUN_DIMENSIONS]; // the last one is the innermost
    divisor counts[RUN_DIMENSIONS];            // of these
};

// A vector of out: `shift` elements behind the begin of a run, or before it.
template <class T>
struct cut {
    const T *x; // as many elements behind the run's begin in x
    T *out;
    int64_t shift;
};

// elements_past, which is known to be 0 for elements that are vectors themselves
template <class T>
static __device__ int past_of(const T *element)
{
    return sizeof(T) == VECTOR ? 0 : elements_past(element);
}

template <class T>
static __device__ cut<T> find_cut(const runs_shape &runs, const T *x, T *out, uint32_t i)
{
    uint32_t run = divide(i, runs.vectors);
    const int64_t v = i - run * runs.vectors.by;

    for (int d = runs.ndim - 1; d >= 0; d--) {
        const uint32_t above = d > 0 ? divide(run, runs.counts[d]) : 0, at = run - above * runs.counts[d].by;

        run = above;
        x += at * runs.dimension[d].x_step;
        out += at * runs.dimension[d].out_step;
    }

    const int64_t shift = v * pieces<T>::V - past_of(out);
    return {x + shift, out + shift, shift};
}

// blocks of a multiprocessor, for the registers that hold the elements of what is no whole vector
template <class T>
constexpr int RUNS_BLOCKS = sizeof(T) == VECTOR ? BLOCKS_AN_SM
                            : sizeof(T) > 1     ? BLOCKS_AN_SM - 1
                                                : BLOCKS_AN_SM / 2;

template <class T>
__global__ void __launch_bounds__(BLOCK, RUNS_BLOCKS<T>)
    transpose_runs(const __grid_constant__ runs_shape runs, const T *x, T *out)
{
    wait_for_earlier();
    constexpr int V = pieces<T>::V;
    const int64_t first = (int64_t)blockIdx.x * BLOCK * RUN_VECTORS + threadIdx.x;
    uint4 low[RUN_VECTORS], high[RUN_VECTORS];
    cut<T> cuts[RUN_VECTORS];
    bool whole[RUN_VECTORS];

#pragma unroll
    for (int l = 0; l < RUN_VECTORS; l++) {
        const int64_t i = first + l * BLOCK;

        whole[l] = false;
        if (i < runs.count) {
            cuts[l] = find_cut(runs, x, out, (uint32_t)i);
            const int past = past_of(cuts[l].x), needed = past ? 2 * V : V;
            const int64_t from = cuts[l].shift - past; // of the run, the first element of the first vector of x

            whole[l] = V == 1 || (from >= 0 && from + needed <= runs.length);
            if (whole[l])
                low[l] = *(const uint4 *)(cuts[l].x - past);
            if (whole[l] && past)
                high[l] = *(const uint4 *)(cuts[l].x - past + V);
        }
    }
#pragma unroll
    for (int l = 0; l < RUN_VECTORS; l++) {
        if (whole[l]) {
            *(uint4 *)cuts[l].out = extracted<sizeof(T)>(low[l], high[l], past_of(cuts[l].x) * (int)sizeof(T));
        } else if (first + l * BLOCK < runs.count) { // a run begins or ends near by
            T some[V];

#pragma unroll
            for (int e = 0; e < V; e++)
                if (cuts[l].shift + e >= 0 && cuts[l].shift + e < runs.length)
                    some[e] = cuts[l].x[e];
#pragma unroll
            for (int e = 0; e < V; e++)
                if (cuts[l].shift + e >= 0 && cuts[l].shift + e < runs.length)
                    cuts[l].out[e] = some[e];
        }
    }
}

// the widest element of which everything is a multiple, up to 16 bytes
static int unit_of(const transpose_args *args, const runs_shape &runs)
{
    uint64_t any = (uint64_t)runs.length;

    for (int d = 0; d < runs.ndim; d++)
        any |= (uint64_t)(runs.dimension[d].x_step | runs.dimension[d].out_step);
    any = any * args->element_size | (uintptr_t)args->x | (uintptr_t)args->out | VECTOR;
    return (int)(any & (0 - any));
}

static runs_shape runs_of(const transpose_args *args)
{
    runs_shape runs = {args->columns, 0, {}, args->batch_ndim, {}, {}};

    std::copy(args->batch, args->batch + args->batch_ndim, runs.dimension);
    if (args->rows > 1) {
        runs.length = 1;
        runs.dimension[runs.ndim++] = {args->columns, 1, args->out_pitch};
        runs.dimension[runs.ndim++] = {args->rows, args->x_pitch, 1};
    }
    return runs;
}

template <class T>
static cudaError_t launch(runs_shape runs, const T *x, T *out, cudaStream_t stream)
{
    const int64_t vectors = ceil_div(runs.length + pieces<T>::V - 1, pieces<T>::V);
    batch_dimension *widest = nullptr;

    runs.count = vectors;
    for (int d = 0; d < runs.ndim; d++) {
        runs.count *= runs.dimension[d].count;
        if (!widest || runs.dimension[d].count > widest->count)
            widest = &runs.dimension[d];
    }
    if (runs.count > INT32_MAX) { // in two
        const bool by_length = !widest || widest->count == 1;
        int64_t &most = by_length ? runs.length : widest->count;
        const int64_t all = most, half = all / 2;

        most = half;
        if (cudaError_t error = launch(runs, x, out, stream))
            return error;
        most = all - half;
        return launch(runs, x + half * (by_length ? 1 : widest->x_step),
                      out + half * (by_length ? 1 : widest->out_step), stream);
    }
    runs.vectors = divisor_of(vectors);
    for (int d = 0; d < runs.ndim; d++)
        runs.counts[d] = divisor_of(runs.dimension[d].count);
    return launch<transpose_runs<T>>((unsigned)ceil_div(runs.count, BLOCK * RUN_VECTORS), BLOCK, 0, stream, runs,
                                     x, out);
}

cudaError_t launch_transpose_runs(const transpose_args *args, cudaStream_t stream)
{
    runs_shape runs = runs_of(args);
    const int unit = unit_of(args, runs), elements = unit / args->element_size; // of a unit

    runs.length /= elements;
    for (int d = 0; d < runs.ndim; d++) {
        runs.dimension[d].x_step /= elements;
        runs.dimension[d].out_step /= elements;
    }
    return dispatch_size(unit, [&](auto zero) {
        using T = decltype(zero);

        return launch(runs, (const T *)args->x, (T *)args->out, stream);
    });
}
