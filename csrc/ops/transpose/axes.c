/* The simplest form of a permutation: merged axes, and the matrices that it transposes. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/part.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "transpose.h"

static void remove_axis(struct axes *axes, int d)
{
    const size_t behind = (size_t)(--axes->ndim - d) * sizeof(npy_intp);

    memmove(axes->shape + d, axes->shape + d + 1, behind);
    memmove(axes->x + d, axes->x + d + 1, behind);
    memmove(axes->out + d, axes->out + d + 1, behind);
}

/* The axis with contiguous elements; -1 if there is none. */
static int side_by_side(const struct axes *axes, const npy_intp *steps, int element)
{
    for (int d = axes->ndim - 1; d >= 0; d--)
        if (steps[d] == element)
            return d;
    return -1;
}

int widen(struct axes *axes, int element, uintptr_t x, uintptr_t out)
{
    enum { WIDEST = 16 };
    const int run = side_by_side(axes, axes->out, element);
    npy_intp bytes, any = (npy_intp)(x | out);

    if (run < 0 || axes->ndim < 2 || axes->x[run] != element || axes->shape[run] > WIDEST / element)
        return element;
    bytes = axes->shape[run] * element;
    for (int d = 0; d < axes->ndim; d++)
        if (d != run)
            any |= axes->x[d] | axes->out[d];
    if ((bytes & (bytes - 1)) != 0 || any % bytes != 0)
        return element;
    remove_axis(axes, run);
    return (int)bytes;
}

bool view_as_matrices(struct axes axes, int element, struct transpose_args *args)
{
    const int row = side_by_side(&axes, axes.out, element), column = side_by_side(&axes, axes.x, element);

    args->element_size = element;
    args->batches = args->rows = args->columns = args->x_row_stride = args->out_row_stride = 1;
    args->batch_ndim = 0;
    if (axes.ndim == 0)
        return true;
    if (row < 0 || column < 0)
        return false;
    args->columns = args->x_row_stride = axes.shape[column];
    if (row != column) {
        args->rows = axes.shape[row];
        args->x_row_stride = axes.x[row] / element;
        args->out_row_stride = axes.out[column] / element;
        remove_axis(&axes, row);
    }
    remove_axis(&axes, side_by_side(&axes, axes.x, element));
    if (axes.ndim > MAX_BATCH_DIMENSIONS)
        return false;
    args->batch_ndim = axes.ndim;
    for (int d = 0; d < axes.ndim; d++) {
        args->batches *= axes.shape[d];
        args->batch[d] = (struct batch_dimension){axes.shape[d], axes.x[d] / element, axes.out[d] / element};
    }
    return true;
}

struct axes axes_of(const struct layout *as, const struct layout *made)
{
    struct axes axes = {.ndim = as->ndim};
    const size_t bytes = (size_t)as->ndim * sizeof(npy_intp);

    memcpy(axes.shape, as->shape, bytes);
    memcpy(axes.x, as->strides, bytes);
    memcpy(axes.out, made->strides, bytes);
    axes.ndim = merge_dimensions(axes.ndim, axes.shape, axes.x, axes.out);
    return axes;
}

/* Whether every row is 16-byte aligned: then any strides will do in place. */
static bool out_rows_are_vector_aligned(const struct transpose_args *args, const void *array)
{
    enum { VECTOR = 16 };
    npy_intp any = (npy_intp)(uintptr_t)array | args->out_row_stride * args->element_size;

    for (int d = 0; d < args->batch_ndim; d++)
        any |= args->batch[d].out_stride * args->element_size;
    return any % VECTOR == 0;
}

/* Whether `in_place` can transpose these matrices, where `array` is both x and out: they are square, and aligned
 * or contiguous. */
static bool fits_in_place(const struct transpose_args *args, const void *array)
{
    bool alike = args->rows == args->columns && args->x_row_stride == args->out_row_stride;

    for (int d = 0; d < args->batch_ndim; d++)
        alike = alike && args->batch[d].x_stride == args->batch[d].out_stride;
    return alike && (out_rows_are_vector_aligned(args, array) ||
                     (args->x_row_stride == args->columns && args->batch_ndim <= 1 &&
                      (!args->batch_ndim || args->batch[0].x_stride == args->rows * args->columns)));
}

static bool accepts_whole_element_strides(const struct layout *there, const void *call)
{
    return layout_strides_are_whole_elements(there, dtype_bytes(((const struct call *)call)->in[0].dtype));
}

bool choose_layout(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *as = &call->as[0], *made = &call->made;
    struct transpose_args args;

    call->dtype[0] = call->in[0].dtype;
    if (call->kernel.row->role == CEILING)
        view = call->in[0].layout;
    view.ndim = merge_dimensions(view.ndim, view.shape, view.strides, made->strides);
    made->ndim = view.ndim;
    memcpy(made->shape, view.shape, sizeof made->shape);
    *as = view;
    if (call->kernel.row->role == CEILING)
        return true;
    call->strided_out = (call->kernel.automatic || call->kernel.row->traits & ANY_STRIDES) &&
                        layout_strides_are_whole_elements(made, element) &&
                        layout_strides_are_whole_elements(as, element) &&
                        (view_as_matrices(axes_of(as, made), element, &args) || call->kernel.automatic);
    call->accepts_layout = call->strided_out ? accepts_whole_element_strides : NULL;
    call->accepts_context = call;
    call->in_place = call->strided_out && call->in[0].device && call->in[0].data == call->out.data &&
                     view_as_matrices(axes_of(as, made), element, &args) && fits_in_place(&args, call->out.data) &&
                     (call->kernel.automatic || call->kernel.row->index == ROW_transpose_in_place);
    if (call->kernel.row->index == ROW_transpose_in_place && !call->in_place) {
        PyErr_SetString(PyExc_ValueError,
                        "kernel: 'in_place' takes square matrices on a device with out=x, aligned to "
                        "16 bytes or contiguous; expected kernel=None for others");
        return false;
    }
    if (!call->strided_out && view.ndim > 1) { /* swap the last two, which the rung swaps back */
        const int last = view.ndim - 1;

        as->shape[last] = view.shape[last - 1];
        as->shape[last - 1] = view.shape[last];
        as->strides[last] = view.strides[last - 1];
        as->strides[last - 1] = view.strides[last];
    }
    return true;
}
