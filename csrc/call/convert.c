/* Calls whose only kernel is `convert`, and plain copies and fills. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/operand.h"
#include "base/failure.h"
#include "base/scope.h"
#include "base/strided_copy.h"
#include "call.h"
#include "device/device.h"
#include "kernels.h"
#include "operands.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "steps.h"

/* Merges dimensions of `in_view` and `out_view` where both allow it. */
static void merge_views(struct call *call)
{
    struct layout *in_view = &call->in_view[0], *out_view = &call->out_view;

    *out_view = call->out.layout;
    in_view->ndim = merge_dimensions(in_view->ndim, in_view->shape, in_view->strides, out_view->strides);
    out_view->ndim = in_view->ndim;
    memcpy(out_view->shape, in_view->shape, sizeof out_view->shape);
}

PyObject *call_run_convert(const struct module_state *state, struct call *call, bool out_given)
{
    struct operand *in = &call->in[0];

    if (call->out.size) {
        npy_intp bytes = call->out.size * dtype_bytes(in->dtype),
                 part = call_part_bytes(call, bytes, LEAST_PART_BYTES);

        merge_views(call);
        call->native_layout = true;
        if (call->out_view.ndim)
            call->partitions[1] =
                (struct partition){.length = call->out_view.shape[0],
                                   .step = choose_part_step(part, bytes / call->out_view.shape[0], 1),
                                   .in = {0, -1}};
    }
    return call_run(state, call, NULL, NULL, out_given);
}

/* A plain copy of bytes, without a kernel. */
static void copy_bytes(struct part *part)
{
    const struct operand *in = &part->call->in[0], *out = &part->call->out;
    const size_t bytes = saturated_bytes(out->size, out->dtype);
    const struct device_type *type = part->device->type;
    struct segments segments = {.data = in->device ? out->data : in->data, .segment_bytes = bytes};
    struct interval *interval = part->call->timing ? (out->device ? &part->up[0] : &part->down) : NULL;
    struct transfer *transfer;

    if (!record_part_event(part, UPLOAD_BEGIN))
        return;
    part->out_written = true;
    if (in->device && out->device) {
        type->copy(part->device, out->data, in->data, bytes, part->stream, &part->failure);
    } else if (out->device) {
        if (type->upload_begin(part->device, out->data, &segments, NULL, part->stream, &transfer,
                               &part->failure) &&
            transfer)
            type->upload_end(part->device, transfer, part->stream, interval, &part->failure);
        (void)(part->failure.kind == FAILURE_NONE && record_part_event(part, UPLOAD_END));
    } else if (record_part_event(part, COMPUTED) &&
               type->download_begin(part->device, &segments, in->data, part->stream, &transfer, &part->failure)) {
        type->download_end(part->device, transfer, interval, &part->failure);
        (void)(part->failure.kind == FAILURE_NONE && record_part_event(part, DOWNLOAD_END));
    }
}

static void run_copy(struct call *call)
{
    struct part part = part_of_call(call);

    if (!order_with_owning_streams(call, true))
        return;
    copy_bytes(&part);
    call->out_written = part.out_written;
    call->failure = part.failure;
    order_owning_streams_after_call(call);
    part_add_times(&part, NULL);
}

PyObject *call_run_copy(const struct module_state *state, struct call *call, bool out_given)
{
    const struct operand *in = &call->in[0], *out = &call->out;
    const int element = dtype_bytes(out->dtype);

    if (in->dtype != out->dtype || in->swapped != out->swapped ||
        !layout_is_contiguous(&call->in_view[0], element) || !layout_is_contiguous(&out->layout, element) ||
        operands_overlap(in, out))
        return call_run_convert(state, call, out_given);
    if (out->size) {
        if (!check_no_capture(state, call) || !operand_unchanged(in) || !operand_unchanged(out))
            return call_fail(call);
        call->timing = current_scope()->timing;
        call->synchronous = !current_scope()->recorder && stream_is_synchronous(state, call->device, call->stream);
        Py_BEGIN_ALLOW_THREADS
        run_copy(call);
        Py_END_ALLOW_THREADS
        keep_owners_alive(call);
    }
    return call_finish(state, call, out_given);
}

/* The scalar `value` in out's dtype and native byte order; CopyInto swaps bytes if necessary. */
static PyArrayObject *scalar_in_out_dtype(const struct call *call, PyObject *value)
{
    PyArrayObject *scalar = value ? (PyArrayObject *)PyArray_FromAny(value, NULL, 0, 0, 0, NULL) : NULL;
    PyArray_Descr *descr = scalar ? dtype_descr(call->out.dtype) : NULL;
    PyObject *result = descr ? PyArray_CastToType(scalar, descr, 0) : NULL;

    Py_XDECREF(scalar);
    return (PyArrayObject *)result;
}

PyObject *call_run_fill(const struct module_state *state, struct call *call, PyObject *value, bool out_given)
{
    PyArrayObject *scalar = scalar_in_out_dtype(call, value), *target = NULL;
    struct call copy = {.device = call->device, .stream = call->stream, .inputs = 1};
    PyObject *result = NULL;

    if (!scalar)
        return call_fail(call);
    if (!call->out.device)
        target = (PyArrayObject *)Py_NewRef(call->out.owner);
    else
        target = new_numpy_array(call->out.descr, &call->out.layout);
    if (target && (current_scope()->recorder || PyArray_CopyInto(target, scalar) == 0)) {
        if (!call->out.device)
            result = call_finish(state, call, out_given);
        else if (read_operand(state, (PyObject *)target, "value", Py_None, &copy.in[0])) {
            copy.in_view[0] = copy.in[0].layout;
            copy.result = copy.in[0].dtype;
            copy.out = call->out; /* with its references */
            memset(&call->out, 0, sizeof call->out);
            result = call_run_copy(state, &copy, out_given);
        }
    }
    Py_DECREF(scalar);
    Py_XDECREF(target);
    call_fail(call);
    return result;
}
