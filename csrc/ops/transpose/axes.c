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
static int contiguous_axis(const struct axes *axes, const npy_intp *steps, int element)
{
    for (int d = axes->ndim - 1; d >= 0; d--)
        if (steps[d] == element)
            return d;
    return -1;
}

int widen_elements(struct axes *axes, int element, uintptr_t x, uintptr_t out)
{
    enum { WIDEST = 16 };
    const int axis = contiguous_axis(axes, axes->out, element);
    npy_intp bytes, any = (npy_intp)(x | out);

    if (axis < 0 || axes->ndim < 2 || axes->x[axis] != element || axes->shape[axis] > WIDEST / element)
        return element;
    bytes = axes->shape[axis] * element;
    for (int d = 0; d < axes->ndim; d++)
        if (d != axis)
            any |= axes->x[d] | axes->out[d];
    if ((bytes & (bytes - 1)) != 0 || any % bytes != 0)
        return element;
    remove_axis(axes, axis);
    return (int)bytes;
}

bool view_as_matrices(struct axes axes, int element, struct transpose_args *args)
{
    const int row = contiguous_axis(&axes, axes.out, element), column = contiguous_axis(&axes, axes.x, element);

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
    remove_axis(&axes, contiguous_axis(&axes, axes.x, element));
    if (axes.ndim > MAX_BATCH_DIMENSIONS)
        return false;
    args->batch_ndim = axes.ndim;
    for (int d = 0; d < axes.ndim; d++) {
        args->batches *= axes.shape[d];
        args->batch[d] = (struct batch_dimension){axes.shape[d], axes.x[d] / element, axes.out[d] / element};
    }
    return true;
}

struct axes axes_of(const struct layout *in_view, const struct layout *out_view)
{
    struct axes axes = {.ndim = in_view->ndim};
    const size_t bytes = (size_t)in_view->ndim * sizeof(npy_intp);

    memcpy(axes.shape, in_view->shape, bytes);
    memcpy(axes.x, in_view->strides, bytes);
    memcpy(axes.out, out_view->strides, bytes);
    axes.ndim = merge_dimensions(axes.ndim, axes.shape, axes.x, axes.out);
    return axes;
}

/* Whether every row is 16-byte aligned: then in_place takes any strides. */
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

/* Whether the call asks for `in_place`, or leaves the choice to smemkit. */
static bool wants_in_place(const struct call *call, int element)
{
    if (!call->kernel.automatic)
        return call->kernel.row->index == ROW_transpose_in_place;
    return kernel_may_be_chosen(call_target(call), ROW_transpose_in_place, dtypes_of_size(element));
}

static bool accepts_whole_element_strides(const struct layout *device_layout, const void *call)
{
    return layout_strides_are_whole_elements(device_layout, dtype_bytes(((const struct call *)call)->in[0].dtype));
}

bool choose_layout(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *in_view = &call->in_view[0],
                  *out_view = &call->out_view;
    struct transpose_args args;

    call->dtype[0] = call->in[0].dtype;
    if (call->kernel.row->role == CEILING)
        view = call->in[0].layout;
    view.ndim = merge_dimensions(view.ndim, view.shape, view.strides, out_view->strides);
    out_view->ndim = view.ndim;
    memcpy(out_view->shape, view.shape, sizeof out_view->shape);
    *in_view = view;
    if (call->kernel.row->role == CEILING)
        return true;
    call->strided_out = (call->kernel.automatic || call->kernel.row->traits & ANY_STRIDES) &&
                        layout_strides_are_whole_elements(out_view, element) &&
                        layout_strides_are_whole_elements(in_view, element) &&
                        (view_as_matrices(axes_of(in_view, out_view), element, &args) || call->kernel.automatic);
    call->accepts_layout = call->strided_out ? accepts_whole_element_strides : NULL;
    call->accepts_context = call;
    call->in_place = call->strided_out && call->in[0].device && call->in[0].data == call->out.data &&
                     view_as_matrices(axes_of(in_view, out_view), element, &args) &&
                     fits_in_place(&args, call->out.data) && wants_in_place(call, element);
    if (call->kernel.row->index == ROW_transpose_in_place && !call->in_place) {
        PyErr_SetString(PyExc_ValueError,
                        "kernel: 'in_place' takes square matrices on a device with out=x, aligned to "
                        "16 bytes or contiguous; expected kernel=None for others");
        return false;
    }
    if (!call->strided_out && view.ndim > 1) { /* swap the last two, which the rung swaps back */
        const int last = view.ndim - 1;

        in_view->shape[last] = view.shape[last - 1];
        in_view->shape[last - 1] = view.shape[last];
        in_view->strides[last] = view.strides[last - 1];
        in_view->strides[last - 1] = view.strides[last];
    }
    return true;
}
