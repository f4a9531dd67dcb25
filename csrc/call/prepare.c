/* Brings the operands of a part to the device, in the kernel's layout and dtype, and launches kernels. */
#include "python/state.h"

#include <string.h>

#include "array/operand.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "call.h"
#include "choice.h"
#include "device/allocation.h"
#include "kernels.h"
#include "launch_cache.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "steps.h"

PyArrayObject *new_numpy_array(PyArray_Descr *descr, const struct layout *layout)
{
    Py_INCREF(descr);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, layout->ndim, layout->shape, NULL, NULL, 0,
                                                 NULL);
}

static bool is_host_memory(const struct operand *operand)
{
    return !operand->device || device_is_host(operand->device);
}

bool operands_overlap(const struct operand *in, const struct operand *out)
{
    npy_intp low[2], high[2];

    if (is_host_memory(in) != is_host_memory(out) || !in->size || !out->size)
        return false;
    layout_byte_range(&in->layout, dtype_bytes(in->dtype), &low[0], &high[0]);
    layout_byte_range(&out->layout, dtype_bytes(out->dtype), &low[1], &high[1]);
    return in->data + low[0] < out->data + high[1] && out->data + low[1] < in->data + high[0];
}

bool out_overlaps_operand(const struct call *call)
{
    bool any = false;

    for (int i = 0; i < call->inputs; i++)
        any = any || operands_overlap(&call->in[i], &call->out);
    return any;
}

bool call_prepare(struct call *call)
{
    npy_intp step = dtype_bytes(call->out.dtype);
    struct segments segments;
    struct layout device_layout;
    npy_intp first;

    for (int i = 0; i < call->inputs; i++)
        if (!operand_unchanged(&call->in[i]))
            return false;
    if (!operand_unchanged(&call->out))
        return false;
    if (call->out.device ||
        (!(call_is_partitioned(call) && call->overlapping) &&
         layout_segments(&call->out_view, (int)step, NULL, false, &segments, &device_layout, &first)))
        return true;
    call->bounce_buffer = new_numpy_array(call->out.descr, &call->out.layout);
    if (!call->bounce_buffer)
        return false;
    call->out.data = PyArray_BYTES(call->bounce_buffer);
    for (int d = call->out_view.ndim - 1; d >= 0; d--) {
        call->out_view.strides[d] = step;
        step *= call->out_view.shape[d];
    }
    return true;
}

bool record_part_event(struct part *part, enum part_event event)
{
    return !part->call->timing ||
           part->device->type->record_new_event(part->device, part->stream, &part->events[event], &part->failure);
}

void *allocate_temporary(struct buffers *buffers, size_t bytes, struct failure *failure)
{
    void **memory = &buffers->temporaries[buffers->temporary_count];

    if (!device_allocate(buffers->device, bytes, buffers->stream, memory, failure))
        return NULL;
    buffers->temporary_count++;
    return *memory;
}

void release_temporaries(struct buffers *buffers)
{
    while (buffers->temporary_count)
        device_release(buffers->device, buffers->temporaries[--buffers->temporary_count], buffers->stream);
}

struct convert_operand describe_contiguous(void *data, enum dtype dtype, const struct layout *like)
{
    struct convert_operand operand = {.data = data, .dtype = dtype, .aligned = true};
    int64_t step = dtype_bytes(dtype);

    for (int d = like->ndim - 1; d >= 0; d--) {
        operand.strides[d] = step;
        step *= like->shape[d];
    }
    return operand;
}

struct convert_operand describe_strided(void *data, enum dtype dtype, const struct layout *layout, bool swapped)
{
    const int element = dtype_bytes(dtype);
    struct convert_operand operand = {.data = data, .dtype = dtype, .swapped = swapped};

    operand.aligned = (uintptr_t)data % (uintptr_t)element == 0;
    for (int d = 0; d < layout->ndim; d++) {
        operand.strides[d] = layout->strides[d];
        operand.aligned = operand.aligned && layout->strides[d] % element == 0;
    }
    return operand;
}

bool launch_convert(struct part *part, const struct convert_operand *x, const struct convert_operand *out,
                    const struct layout *shape)
{
    struct convert_args args = {.x = *x, .out = *out, .size = layout_size(shape)};
    npy_intp lengths[NPY_MAXDIMS];

    if (x->dtype == out->dtype && x->swapped && out->swapped)
        args.x.swapped = args.out.swapped = false;
    memcpy(lengths, shape->shape, sizeof lengths);
    args.ndim = merge_dimensions(shape->ndim, lengths, args.x.strides, args.out.strides);
    for (int d = 0; d < args.ndim; d++)
        args.shape[d] = lengths[d];
    return part_launch(part, &kernel_rows[ROW_convert_strided], &args);
}

bool begin_operand_upload(struct part *part, struct buffers *buffers, int i,
                          const struct staging_buffer *staging_buffer)
{
    const struct operand *in = &part->call->in[i];
    const int element = dtype_bytes(in->dtype);
    void *memory = staging_buffer ? staging_buffer->memory : NULL;
    struct segments segments;
    npy_intp first;

    part->uploaded[i] = part->in_view[i];
    part->buffers.operands[i] = part->in[i];
    if (in->device)
        return true;
    (void)layout_segments(&part->in_view[i], element, part->in[i], true, &segments, &part->uploaded[i], &first);
    if (memory && segments_bytes(&segments) >
                      staging_buffer->bytes) /* the staging buffer was sized for a layout without gaps */
        (void)layout_segments(&part->in_view[i], element, part->in[i], false, &segments, &part->uploaded[i],
                              &first);
    if (!memory && !(memory = allocate_temporary(buffers, segments_bytes(&segments), &part->failure)))
        return false;
    part->buffers.operands[i] = (char *)memory + first;
    return part->device->type->upload_begin(part->device, memory, &segments,
                                            staging_buffer ? staging_buffer->free : NULL, part->stream,
                                            &part->transfers.uploads[i], &part->failure);
}

bool wait_for_uploads(struct part *part)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    for (int i = 0; i < part->call->inputs; i++) {
        struct failure failure = {0};

        if (!part->transfers.uploads[i])
            continue;
        if (!part->device->type->upload_end(part->device, part->transfers.uploads[i], part->stream,
                                            part->call->timing ? &part->up[i] : NULL, &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        part->transfers.uploads[i] = NULL;
    }
    return ok;
}

static bool is_aligned(const void *memory, enum dtype dtype)
{
    return (uintptr_t)memory % (uintptr_t)dtype_bytes(dtype) == 0;
}

bool convert_to_kernel_layout(struct part *part, struct buffers *buffers, int i)
{
    const struct call *call = part->call;
    const struct operand *in = &call->in[i];
    const struct layout *uploaded = &part->uploaded[i];
    const bool swapped = in->swapped && !call->bytes_only;
    struct convert_operand x, to;
    void **memory = &part->buffers.operands[i], *converted;

    if (call->native_layout) {
        part->native_operand = describe_strided(*memory, in->dtype, uploaded, in->swapped);
        return true;
    }
    part->in_view[i].ndim = uploaded->ndim;
    memcpy(part->in_view[i].strides, uploaded->strides, sizeof uploaded->strides);
    if (in->dtype == call->dtype[i] && !swapped && is_aligned(*memory, in->dtype) &&
        (layout_is_contiguous(uploaded, dtype_bytes(in->dtype)) ||
         (call->accepts_layout && call->accepts_layout(uploaded, call->accepts_context))))
        return true;
    x = describe_strided(*memory, in->dtype, uploaded, swapped);
    converted =
        allocate_temporary(buffers, saturated_bytes(layout_size(uploaded), call->dtype[i]), &part->failure);
    if (!converted)
        return false;
    to = describe_contiguous(converted, call->dtype[i], uploaded);
    memcpy(part->in_view[i].strides, to.strides, (size_t)uploaded->ndim * sizeof *to.strides);
    *memory = converted;
    return launch_convert(part, &x, &to, uploaded);
}

/* Whether the kernel can write its result directly to out. */
static bool writes_directly_to_out(const struct part *part)
{
    const struct call *call = part->call;

    return call->out.device && call->result == call->out.dtype && is_aligned(part->out, call->result) &&
           call->out.swapped == (call->bytes_only && call->in[0].swapped) &&
           (call->strided_out || layout_is_contiguous(&part->out_view, dtype_bytes(call->result))) &&
           (!call->overlapping || call->in_place);
}

bool allocate_result(struct part *part, struct buffers *buffers)
{
    const struct call *call = part->call;

    if (call->native_layout)
        return true;
    if (writes_directly_to_out(part))
        part->buffers.out = part->out;
    else
        part->buffers.out = allocate_temporary(
            buffers, saturated_bytes(layout_size(&part->out_view), call->result), &part->failure);
    return part->failure.kind == FAILURE_NONE;
}

bool part_launch(struct part *part, const struct kernel_row *row, const void *args)
{
    bool ok;

    if (part->call->record)
        launch_record_add(part->call->record, row, args);
    ok = part->device->type->launch(part->device, row, args, part->stream, &part->failure);
    part->ran = part->ran || ok || part->failure.ran;
    return ok;
}

void update_out_written(struct part *part, const void *memory)
{
    part->out_written = part->out_written || (part->ran && part->call->out.device && memory == part->out);
}
