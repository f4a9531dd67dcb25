/* Which kernel a reduction takes: the first of a ranking that supports the problem and is wanted for it. The
 * thresholds are in thresholds.def. */
#include "python/state.h"

#include <math.h>
#include <string.h>

#include "call/call.h"
#include "call/choice.h"
#include "device/device.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "reduce.h"

enum { WORD_BYTES = 4 };

/* What the rules look at. */
struct problem {
    const struct reduce_target *gpu;
    const struct extent *extent;
    const struct reduce_args *args;
    int element, vector; /* bytes of an element; columns per thread of `columns` */
    bool dense;          /* contiguous */
};

/* ---- what a kernel supports ---- */

static bool takes_all(const struct problem *problem)
{
    (void)problem;
    return true;
}

static bool is_rows(const struct problem *problem)
{
    return problem->extent->inner == 1;
}

/* Whether a product has to start with `initial`: 0 times factors that overflow together is 0 in that order, and
 * NaN in another; likewise for infinities. One thread per result multiplies in that order, which is slow for long
 * rows. (For finite initials the order is unspecified: 1e-300 times many tens may overflow.) Only `rowwise`
 * supports it. */
static bool needs_initial_first(const struct problem *problem)
{
    const struct reduce_args *args = problem->args;
    const struct scalar *x = &args->initial;

    return args->op == REDUCE_PROD && args->has_initial && args->accumulator & (FLOATING | COMPLEX) &&
           ((x->re == 0 && x->im == 0) || isinf(x->re) || isinf(x->im));
}

/* ---- rows ---- */

bool prefers_registers(const struct reduce_target *gpu, const struct extent *extent,
                       const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);

    return rows_fit_in_registers(extent, args) && extent->n <= 2 * element &&
           (element >= WORD_BYTES || extent->outer > gpu->limits.min_subword_register_rows);
}

static bool is_rows_in_registers(const struct problem *problem)
{
    return prefers_registers(problem->gpu, problem->extent, problem->args);
}

/* Whether rows should be read one element per thread, by `small_columns`: a row is a matrix of one column. That
 * pays for very short rows, if there are not too many, and for longer unaligned rows, whose vectors would take two
 * loads: if the array is small, or if elements are words in rows of medium length; but not if states are large. */
static bool prefers_element_loads(const struct problem *problem)
{
    const struct reduce_thresholds *limits = &problem->gpu->limits;
    const struct extent *extent = problem->extent;
    const int64_t bytes = extent->n * problem->element;
    const bool aligned = bytes % REDUCE_VECTOR_BYTES == 0, words = problem->element >= WORD_BYTES;
    const bool large_state = needs_index_or_variance_state(problem->args->op);

    if (extent->outer < limits->min_element_load_rows)
        return extent->outer > 1 && !aligned && bytes <= limits->max_few_rows_bytes;
    if (extent->n <= limits->few_rows)
        return extent->outer <= limits->max_short_rows;
    if (aligned)
        return false;
    if (extent->outer * extent->n <= limits->max_unaligned_elements)
        return words || (extent->n <= limits->long_row && !large_state);
    return words && bytes >= limits->min_unaligned_row_bytes && extent->n <= limits->max_unaligned_row &&
           !large_state;
}

/* The shortest contiguous rows of simple sums: one row per thread. */
static bool prefers_thread_per_row(const struct problem *problem)
{
    const struct reduce_thresholds *limits = &problem->gpu->limits;
    const struct extent *extent = problem->extent;

    return problem->dense && extent->n <= limits->max_rowwise_elements && extent->outer > limits->max_short_rows &&
           state_fits_word(problem->args) && !rows_fit_in_registers(extent, problem->args);
}

/* ---- columns ---- */

/* Whether there are enough columns for all threads in very narrow rows. Long columns are better read by several
 * threads each. */
static bool has_enough_narrow_columns(const struct reduce_target *gpu, const struct extent *extent)
{
    return extent->inner <=
               (extent->n < gpu->limits.min_many_narrow_rows ? gpu->limits.max_narrow_columns : WARP_THREADS) &&
           extent->outer * extent->inner >= gpu->limits.min_narrow_columns * gpu->multiprocessors;
}

/* Whether a thread should have one column and not a vector of columns: vectors give fewer threads, and take two
 * loads where rows are unaligned. */
static bool prefers_one_column_per_thread(const struct problem *problem)
{
    const struct reduce_target *gpu = problem->gpu;
    const struct extent *extent = problem->extent;
    const bool loads_once =
        extent->inner % problem->vector == 0 || extent->n <= gpu->limits.few_rows || problem->element < WORD_BYTES;

    if (extent->inner < problem->vector && extent->n <= gpu->limits.few_rows)
        return true; /* a vector would span several short columns */
    if (extent->outer * extent->n * extent->inner > gpu->limits.max_small_columns_elements)
        return extent->n > gpu->limits.few_rows && has_enough_narrow_columns(gpu, extent);
    return !(loads_once && prefers_whole_columns(gpu, extent, problem->args, problem->vector));
}

/* ---- the ranking ---- */

/* The first rule whose kernel supports the problem, and that wants it, decides. */
struct rule {
    enum kernel_index kernel;
    bool (*supports)(const struct problem *), (*wants)(const struct problem *);
};

static const struct rule ranking[] = {
    {ROW_reduce_rows, is_rows, is_rows_in_registers},
    {ROW_reduce_small_columns, is_rows, prefers_element_loads},
    {ROW_reduce_rowwise, is_rows, prefers_thread_per_row},
    {ROW_reduce_rows, is_rows, takes_all},

    {ROW_reduce_small_columns, takes_all, prefers_one_column_per_thread},
    {ROW_reduce_columns, takes_all, takes_all},
};

static enum kernel_index choose_by_rank(const struct device *device, const struct problem *problem)
{
    const struct rule *rule = ranking, *last = ranking + sizeof ranking / sizeof *ranking - 1;

    if (needs_initial_first(problem))
        return ROW_reduce_rowwise;
    while (rule < last && (!rule->supports(problem) || !rule->wants(problem) ||
                           !kernel_may_be_chosen(device, rule->kernel, problem->args->dtype)))
        rule++; /* the last rule accepts every problem */
    return rule->kernel;
}

void choose_kernel(struct call *call, const struct reduce_target *gpu, const struct extent *extent,
                   struct reduce_args *args)
{
    struct kernel_choice *choice = &call->kernel;
    const int element = dtype_bytes(args->dtype), vector = columns_per_thread(args);
    const struct problem problem = {gpu,     extent, args,
                                    element, vector, layout_is_contiguous(&call->in_view[0], element)};
    const enum kernel_index kernel =
        choice->automatic ? choose_by_rank(call_target(call), &problem) : choice->row->index;

    choice->row = &kernel_rows[kernel];
    args->begins_with_initial = kernel == ROW_reduce_rowwise && args->op == REDUCE_PROD && args->has_initial;
    if (kernel == ROW_reduce_rows)
        choose_row_split(gpu, extent, args, &args->work);
    if (kernel == ROW_reduce_columns)
        choose_column_split(gpu, extent, args, vector, &args->work);
    if (kernel == ROW_reduce_small_columns)
        choose_small_column_split(gpu, extent, args, &args->work);
}

/* Whether the reduced axes are the last ones. */
static bool reduces_last_axes(const struct reduction *reduction, int ndim)
{
    int d = 0;

    while (d < ndim && !reduction->reduced[d])
        d++;
    while (d < ndim && reduction->reduced[d])
        d++;
    return d == ndim;
}

bool check_reduce_kernel(const struct call *call, const struct reduction *reduction, PyObject *axis)
{
    const struct kernel_row *row = call->kernel.row;

    if (row->role == RUNG && (!reduction->accepts_initial || reduction->args.op == REDUCE_ANY)) {
        PyErr_Format(PyExc_ValueError,
                     "kernel: '%s' computes sum, prod, min and max; expected kernel=None for '%s'", row->name,
                     reduction->op);
        return false;
    }
    if (row->role == RUNG && !reduces_last_axes(reduction, call->in[0].layout.ndim)) {
        PyErr_Format(PyExc_ValueError,
                     "kernel: '%s' reduces the whole array or its last axes; expected kernel=None for axis=%R",
                     row->name, axis);
        return false;
    }
    return check_kernel_dtype(&call->kernel, "x", reduction->args.dtype);
}
