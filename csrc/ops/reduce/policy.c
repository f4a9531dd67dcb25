/* Which kernel a reduction takes. */
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
#include "thresholds.h"

/* Whether there are enough columns for all threads in very narrow rows. Long columns are better read by several
 * threads each. */
static bool has_enough_narrow_columns(const struct device *device, const struct extent *extent)
{
    return extent->inner <= (extent->n < MIN_MANY_NARROW_ROWS ? MAX_NARROW_COLUMNS : WARP) &&
           extent->outer * extent->inner >= MIN_NARROW_COLUMNS_PER_SM * (int64_t)device->multiprocessors;
}

/* Whether a thread should have one column and not a vector of columns: vectors give fewer threads, and take two
 * loads where rows are unaligned. */
static bool prefers_small_columns(const struct device *device, const struct extent *extent,
                                  const struct reduce_args *args, int vector)
{
    const bool loads_once =
        extent->inner % vector == 0 || extent->n <= FEW_ROWS || dtype_bytes(args->dtype) < WORD_BYTES;

    if (extent->outer * extent->n * extent->inner > MAX_SMALL_COLUMNS_ELEMENTS)
        return extent->n > FEW_ROWS && has_enough_narrow_columns(device, extent);
    return !(loads_once && prefers_whole_columns(device, extent, args, vector));
}

bool prefers_registers(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);

    return rows_fit_in_registers(extent, args) && extent->n <= 2 * element &&
           (element >= WORD_BYTES || extent->outer > MIN_SUBWORD_REGISTER_ROWS);
}

/* Whether rows should be read one element per thread: very short rows, if there are not too many, and longer
 * unaligned ones, which take two loads by vectors: if they are small, or words in a warp's threads, unless
 * combining takes long. */
static bool prefers_element_loads(const struct extent *extent, const struct reduce_args *args)
{
    const int element = dtype_bytes(args->dtype);
    const int64_t bytes = extent->n * element;
    const bool aligned = bytes % VECTOR_BYTES == 0;

    if (extent->outer < MIN_ELEMENT_LOAD_ROWS)
        return extent->outer > 1 && !aligned && bytes <= MAX_FEW_ROWS_BYTES;
    if (extent->n <= FEW_ROWS)
        return extent->outer <= MAX_SHORT_ROWS;
    if (aligned)
        return false;
    if (extent->outer * extent->n <= MAX_UNALIGNED_ELEMENTS)
        return element >= WORD_BYTES || (extent->n <= LONG_ROW && !needs_index_or_variance_state(args->op));
    return element >= WORD_BYTES && bytes >= MIN_UNALIGNED_ROW_BYTES && extent->n <= MAX_UNALIGNED_ROW &&
           !needs_index_or_variance_state(args->op);
}

/* The kernel for rows: in registers; or one element per thread, since a row problem is a column problem with one
 * column; or, for the shortest contiguous (`dense`) rows of simple sums, one row per thread. */
static enum kernel_index choose_row_kernel(const struct extent *extent, const struct reduce_args *args, bool dense)
{
    if (prefers_registers(extent, args))
        return ROW_reduce_rows;
    if (prefers_element_loads(extent, args))
        return ROW_reduce_small_columns;
    return dense && extent->n <= MAX_ROWWISE_ELEMENTS && extent->outer > MAX_SHORT_ROWS && state_fits_word(args) &&
                   !rows_fit_in_registers(extent, args)
               ? ROW_reduce_rowwise
               : ROW_reduce_rows;
}

/* Whether a product has to start with `initial`: 0 times factors that overflow together is 0 in that order, and
 * NaN in another; likewise for infinities. One thread per result multiplies in that order, which is slow for long
 * rows. (For finite initials the order is unspecified: 1e-300 times many tens may overflow.) */
static bool needs_initial_first(const struct reduce_args *args)
{
    const struct scalar *x = &args->initial;

    return args->op == REDUCE_PROD && args->has_initial && args->accumulator & (FLOATING | COMPLEX) &&
           ((x->re == 0 && x->im == 0) || isinf(x->re) || isinf(x->im));
}

void choose_kernel(struct call *call, const struct extent *extent, struct reduce_args *args)
{
    struct kernel_choice *choice = &call->kernel;
    const struct device *device = call->device;
    const int element = dtype_bytes(args->dtype), vector = choose_columns_per_thread(args, element);

    enum kernel_index kernel = choice->row->index;

    if (choice->automatic && needs_initial_first(args))
        kernel = ROW_reduce_rowwise;
    else if (choice->automatic && extent->inner == 1)
        kernel = choose_row_kernel(extent, args, layout_is_contiguous(&call->in_view[0], element));
    else if (choice->automatic)
        kernel =
            prefers_small_columns(device, extent, args, vector) ? ROW_reduce_small_columns : ROW_reduce_columns;
    choice->row = &kernel_rows[kernel];
    args->begins_with_initial = kernel == ROW_reduce_rowwise && args->op == REDUCE_PROD && args->has_initial;
    if (kernel == ROW_reduce_rows)
        choose_row_split(device, extent, args, &args->work);
    if (kernel == ROW_reduce_columns)
        choose_column_split(device, extent, args, vector, &args->work);
    if (kernel == ROW_reduce_small_columns)
        choose_small_column_split(device, extent, args, &args->work);
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
