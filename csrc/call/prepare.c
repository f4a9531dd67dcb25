/* Brings the operands of a part to the device, in the kernel's layout and dtype, and launches kernels. */
#include "python/state.h"

#include <stdatomic.h>
#include <string.h>

#include "array/operand.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "call.h"
#include "choice.h"
#include "device/allocation.h"
#include "dry_run.h"
#include "kernels.h"
#include "launch_cache.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "timing.h"

/* The number of launches of this process. */
static atomic_ullong launches;

unsigned long long launch_count(void)
{
    return atomic_load(&launches);
}

PyArrayObject *new_numpy_array(PyArray_Descr *descr, const struct layout *layout)
{
    Py_INCREF(descr);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, layout->ndim, layout->shape, NULL, NULL, 0,
                                                 NULL);
}

static bool is_host_memory(const struct operand *operand)
{
    return !operand->device || operand->device->ordinal < 0;
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
    const bool parts = is_partitioned(&call->partitions[0]) || is_partitioned(&call->partitions[1]);

    for (int i = 0; i < call->inputs; i++)
        if (!operand_unchanged(&call->in[i]))
            return false;
    if (!operand_unchanged(&call->out))
        return false;
    if (call->out.device ||
        (!(parts && call->overlapping) &&
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

bool call_record_stage(struct call *call, enum stage stage)
{
    return !current_timing() ||
           call->device->type->record_new_event(call->device, call->stream, &call->stages[stage], &call->failure);
}

void *call_allocate(struct call *call, size_t bytes)
{
    void **memory = &call->temporaries[call->temporary_count];

    if (!device_allocate(call->device, bytes, call->stream, memory, &call->failure))
        return NULL;
    call->temporary_count++;
    return *memory;
}

void release_temporaries(struct call *call)
{
    while (call->temporary_count)
        device_release(call->device, call->temporaries[--call->temporary_count], call->stream);
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

bool launch_convert(struct call *call, const struct convert_operand *x, const struct convert_operand *out,
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
    return call_launch(call, &kernel_rows[ROW_convert_strided], &args);
}

bool begin_operand_upload(struct call *part, struct call *invariants, struct uploads_in_flight *uploads_in_flight,
                          int i, const struct staging_buffer *staging_buffer)
{
    const struct operand *in = &part->in[i];
    const int element = dtype_bytes(in->dtype);
    void *memory = staging_buffer ? staging_buffer->memory : NULL;
    struct segments segments;
    npy_intp first;

    uploads_in_flight->device_layout[i] = part->in_view[i];
    part->memory[i] = in->data;
    if (in->device)
        return true;
    (void)layout_segments(&part->in_view[i], element, in->data, true, &segments,
                          &uploads_in_flight->device_layout[i], &first);
    if (memory && segments_bytes(&segments) >
                      staging_buffer->bytes) /* the staging buffer was sized for a layout without gaps */
        (void)layout_segments(&part->in_view[i], element, in->data, false, &segments,
                              &uploads_in_flight->device_layout[i], &first);
    if (!memory && !(memory = call_allocate(invariants, segments_bytes(&segments)))) {
        part->failure = invariants->failure;
        return false;
    }
    part->memory[i] = (char *)memory + first;
    return part->device->type->upload_begin(part->device, memory, &segments,
                                            staging_buffer ? staging_buffer->free : NULL, part->stream,
                                            &uploads_in_flight->uploads[i], &part->failure);
}

bool wait_for_uploads(struct call *part, struct uploads_in_flight *uploads_in_flight)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    for (int i = 0; i < part->inputs; i++) {
        struct failure failure = {0};

        if (!uploads_in_flight->uploads[i])
            continue;
        if (!part->device->type->upload_end(part->device, uploads_in_flight->uploads[i], part->stream,
                                            current_timing() ? &part->up[i] : NULL, &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        uploads_in_flight->uploads[i] = NULL;
    }
    return ok;
}

/* Whether an operand's bytes have to be swapped. */
static bool reads_swapped(const struct call *call, const struct operand *in)
{
    return in->swapped && !call->bytes_only;
}

static bool is_aligned(const void *memory, enum dtype dtype)
{
    return (uintptr_t)memory % (uintptr_t)dtype_bytes(dtype) == 0;
}

bool convert_to_kernel_layout(struct call *part, struct call *invariants, int i,
                              const struct layout *device_layout)
{
    const struct operand *in = &part->in[i];
    const bool swapped = reads_swapped(part, in);
    struct convert_operand x, to;
    void *memory;

    if (part->native_layout) {
        part->native_operand = describe_strided(part->memory[i], in->dtype, device_layout, in->swapped);
        return true;
    }
    part->in_view[i].ndim = device_layout->ndim;
    memcpy(part->in_view[i].strides, device_layout->strides, sizeof device_layout->strides);
    if (in->dtype == part->dtype[i] && !swapped && is_aligned(part->memory[i], in->dtype) &&
        (layout_is_contiguous(device_layout, dtype_bytes(in->dtype)) ||
         (part->accepts_layout && part->accepts_layout(device_layout, part->accepts_context))))
        return true;
    x = describe_strided(part->memory[i], in->dtype, device_layout, swapped);
    memory = call_allocate(invariants, saturated_bytes(layout_size(device_layout), part->dtype[i]));
    if (!memory) {
        part->failure = invariants->failure;
        return false;
    }
    to = describe_contiguous(memory, part->dtype[i], device_layout);
    memcpy(part->in_view[i].strides, to.strides, (size_t)device_layout->ndim * sizeof *to.strides);
    part->memory[i] = memory;
    return launch_convert(part, &x, &to, device_layout);
}

/* Whether the kernel can write its result directly to out. */
static bool writes_directly_to_out(const struct call *call)
{
    return call->out.device && call->result == call->out.dtype && is_aligned(call->out.data, call->result) &&
           call->out.swapped == (call->bytes_only && call->in[0].swapped) &&
           (call->strided_out || layout_is_contiguous(&call->out_view, dtype_bytes(call->result))) &&
           (!call->overlapping || call->in_place);
}

bool allocate_result_and_scratch(struct call *part, struct call *invariants)
{
    if (part->native_layout)
        return true;
    if (writes_directly_to_out(part))
        part->out_memory = part->out.data;
    else
        part->out_memory = call_allocate(invariants, saturated_bytes(layout_size(&part->out_view), part->result));
    if (invariants->failure.kind == FAILURE_NONE && part->scratch_bytes)
        part->scratch = call_allocate(invariants, part->scratch_bytes);
    part->failure = invariants->failure;
    return part->failure.kind == FAILURE_NONE;
}

void call_count_launch(void)
{
    atomic_fetch_add(&launches, 1);
}

bool call_launch(struct call *call, const struct kernel_row *row, const void *args)
{
    if (is_dry_run())
        dry_run_add_launch(row, &call->kernel, args);
    else
        call_count_launch();
    if (call->record)
        launch_record_add(call->record, row, args);
    const bool ok = call->device->type->launch(call->device, row, args, call->stream, &call->failure);

    call->ran = call->ran || ok || call->failure.ran;
    return ok;
}

void update_out_written(struct call *part, const void *memory)
{
    part->out_written = part->out_written || (part->ran && part->out.device && memory == part->out.data);
}
