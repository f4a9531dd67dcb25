/* The data path of a call, the same for every operation: upload, conversion to the layout, dtype and byte order
 * that the kernel wants, launch, download.
 *
 * One kernel, `convert`, handles layouts, byte orders and casts; the operations' kernels see contiguous arrays of
 * one dtype, except those that accept strides. The host only moves bytes: a NumPy array is uploaded in memory
 * order, without the gaps between its elements where that is faster, and is reordered on the device.
 *
 * A call with large host arrays is done in parts if its operation says how: while the kernel works on one part,
 * the next is being uploaded and the previous one downloaded. So a call takes as long as the slowest of the three,
 * and needs device memory for a few parts only.
 */
#include "smemkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor/executor.h"

/* The number of launches of this process. */
static atomic_ullong launches;

unsigned long long launch_count(void)
{
    return atomic_load(&launches);
}

bool call_has_host_operands(const struct call *call)
{
    return call->in[0].device == NULL;
}

/* Whether an operand or the result is in host memory. */
static bool has_host_array(const struct call *call)
{
    bool host = !call->out.device;

    for (int i = 0; i < call->inputs; i++)
        host = host || !call->in[i].device;
    return host;
}

/* SIZE_MAX, more than any device has, if the product overflows: an array may repeat its elements. */
static size_t bytes_of(npy_intp elements, enum dtype dtype)
{
    size_t bytes;

    return __builtin_mul_overflow((size_t)elements, (size_t)dtype_bytes(dtype), &bytes) ? SIZE_MAX : bytes;
}

/* ---- parts ---- */

/* For tests: the bytes per part, also on the CPU device; 0: the default for a GPU. Negative: the same, but calls
 * that would be slow in parts are done whole, as on a GPU. */
static atomic_llong part_bytes_override;

PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes)
{
    const long long asked = PyLong_AsLongLong(bytes);

    (void)module;
    if (asked == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong(atomic_exchange(&part_bytes_override, asked));
}

npy_intp call_part_bytes(const struct call *call, npy_intp bytes)
{
    const npy_intp asked = (npy_intp)atomic_load(&part_bytes_override), least = 1 << 20, most = 1 << 25;

    if (!has_host_array(call) || (!asked && call->device->ordinal < 0))
        return NPY_MAX_INTP;
    if (asked)
        return asked < 0 ? -asked : asked;
    return bytes / 8 < least ? least : bytes / 8 > most ? most : bytes / 8;
}

static bool is_partitioned(const struct partition *partition)
{
    return partition->step > 0 && partition->step < partition->length;
}

/* Whether all parts of the inner loop read the same elements of an operand. */
static bool is_invariant(const struct call *call, int i)
{
    return !is_partitioned(&call->partitions[1]) || call->partitions[1].in[i] < 0;
}

/* Whether the parts of the inner loop contribute to one result, which is complete after the last of them. */
static bool accumulates_parts(const struct call *call)
{
    return is_partitioned(&call->partitions[1]) && call->partitions[1].made < 0;
}

/* Whether it is the last part of the inner loop. */
static bool is_last_part(const struct call *part)
{
    return !is_partitioned(&part->partitions[1]) ||
           part->at[1] + part->part_length[1] == part->partitions[1].length;
}

static void slice(struct layout *layout, char **data, int dimension, npy_intp at, npy_intp length)
{
    if (dimension < 0)
        return;
    layout->shape[dimension] = length;
    *data += at * layout->strides[dimension];
}

/* Restricts a part to one step of a loop: its share of the operands and of the result. */
static void slice_part(struct call *part, int loop, npy_intp at)
{
    const struct partition *partition = &part->partitions[loop];

    if (!is_partitioned(partition)) {
        part->at[loop] = 0;
        part->part_length[loop] = partition->length;
        return;
    }
    part->at[loop] = at;
    part->part_length[loop] = partition->length - at < partition->step ? partition->length - at : partition->step;
    for (int i = 0; i < part->inputs; i++)
        slice(&part->as[i], &part->in[i].data, partition->in[i], at, part->part_length[loop]);
    slice(&part->made, &part->out.data, partition->made, at, part->part_length[loop]);
}

/* Whether a part consists of contiguous segments that are too short to be copied fast. */
static bool has_short_segments(const struct layout *layout, const struct operand *operand, bool with_gaps)
{
    enum { SHORT = 256 };
    struct layout there;
    struct segments segments;
    npy_intp first;

    return !operand->device &&
           layout_segments(layout, dtype_bytes(operand->dtype), NULL, with_gaps, &segments, &there, &first) &&
           segments.ndim && segments.segment_bytes < SHORT;
}

size_t call_available_bytes(const struct call *call, size_t enough)
{
    size_t available_bytes;

    Py_BEGIN_ALLOW_THREADS
    available_bytes = call->device->type->available_bytes(call->device, enough);
    Py_END_ALLOW_THREADS
    return available_bytes;
}

/* Cancels the operation's partition where the call is faster whole: if the parts of an array consist of short
 * segments, unless the whole arrays do not fit on the device. */
void call_cancel_slow_partition(struct call *call)
{
    size_t bytes = bytes_of(call->out.size, call->result);
    struct call *part;
    bool slow = false;

    if ((!is_partitioned(&call->partitions[0]) && !is_partitioned(&call->partitions[1])) ||
        atomic_load(&part_bytes_override) > 0 || !(part = malloc(sizeof *part)))
        return;
    *part = *call;
    for (int loop = 0; loop < 2; loop++)
        slice_part(part, loop, 0);
    for (int i = 0; i < call->inputs; i++) {
        bytes += bytes_of(call->in[i].size, call->in[i].dtype);
        slow = slow || has_short_segments(&part->as[i], &part->in[i], true);
    }
    slow = slow || has_short_segments(&part->made, &part->out, false);
    free(part);
    /* a converted operand takes memory twice */
    if (slow && bytes < call_available_bytes(call, bytes < SIZE_MAX / 4 ? 4 * bytes : SIZE_MAX) / 3)
        call->partitions[0].step = call->partitions[1].step = 0;
}

/* ---- preparation ---- */

static PyArrayObject *new_numpy_array(PyArray_Descr *descr, const struct layout *layout)
{
    Py_INCREF(descr);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, layout->ndim, layout->shape, NULL, NULL, 0,
                                                 NULL);
}

static bool is_host_memory(const struct operand *operand)
{
    return !operand->device || operand->device->ordinal < 0;
}

/* Whether an operand and out overlap in memory. */
static bool overlap(const struct operand *in, const struct operand *out)
{
    npy_intp low[2], high[2];

    if (is_host_memory(in) != is_host_memory(out) || !in->size || !out->size)
        return false;
    layout_byte_range(&in->layout, dtype_bytes(in->dtype), &low[0], &high[0]);
    layout_byte_range(&out->layout, dtype_bytes(out->dtype), &low[1], &high[1]);
    return in->data + low[0] < out->data + high[1] && out->data + low[1] < in->data + high[0];
}

static bool overlaps(const struct call *call)
{
    bool any = false;

    for (int i = 0; i < call->inputs; i++)
        any = any || overlap(&call->in[i], &call->out);
    return any;
}

/* Called with the GIL, before any launch. A result that is made in parts must not overwrite operands that are
 * still to be read: it goes to a bounce buffer first. */
static bool prepare(struct call *call)
{
    npy_intp step = dtype_bytes(call->out.dtype);
    struct segments segments;
    struct layout there;
    npy_intp first;
    const bool parts = is_partitioned(&call->partitions[0]) || is_partitioned(&call->partitions[1]);

    for (int i = 0; i < call->inputs; i++)
        if (!operand_unchanged(&call->in[i]))
            return false;
    if (!operand_unchanged(&call->out))
        return false;
    if (call->out.device || (!(parts && call->overlapping) &&
                             layout_segments(&call->made, (int)step, NULL, false, &segments, &there, &first)))
        return true;
    call->bounce_buffer = new_numpy_array(call->out.descr, &call->out.layout);
    if (!call->bounce_buffer)
        return false;
    call->out.data = PyArray_BYTES(call->bounce_buffer);
    for (int d = call->made.ndim - 1; d >= 0; d--) {
        call->made.strides[d] = step;
        step *= call->made.shape[d];
    }
    return true;
}

static bool mark(struct call *call, enum stage stage)
{
    return !current_timing() ||
           call->device->type->mark(call->device, call->stream, &call->stages[stage], &call->failure);
}

void *call_allocate(struct call *call, size_t bytes)
{
    void **memory = &call->temporaries[call->temporary_count];

    if (!device_allocate(call->device, bytes, call->stream, memory, &call->failure))
        return NULL;
    call->temporary_count++;
    return *memory;
}

static void release_temporaries(struct call *call)
{
    while (call->temporary_count)
        device_release(call->device, call->temporaries[--call->temporary_count], call->stream);
}

/* The description of a contiguous array of the shape of `like`. */
static struct convert_operand describe_contiguous(void *data, enum dtype dtype, const struct layout *like)
{
    struct convert_operand side = {.data = data, .dtype = dtype, .aligned = true};
    int64_t step = dtype_bytes(dtype);

    for (int d = like->ndim - 1; d >= 0; d--) {
        side.strides[d] = step;
        step *= like->shape[d];
    }
    return side;
}

static struct convert_operand describe_strided(void *data, enum dtype dtype, const struct layout *layout,
                                               bool swapped)
{
    const int element = dtype_bytes(dtype);
    struct convert_operand side = {.data = data, .dtype = dtype, .swapped = swapped};

    side.aligned = (uintptr_t)data % (uintptr_t)element == 0;
    for (int d = 0; d < layout->ndim; d++) {
        side.strides[d] = layout->strides[d];
        side.aligned = side.aligned && layout->strides[d] % element == 0;
    }
    return side;
}

/* Launches `convert` for elements of `shape`, merged into as few dimensions as possible. */
static bool launch_convert(struct call *call, const struct convert_operand *x, const struct convert_operand *out,
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
    return call_launch(call, find_row(OP_convert, "strided"), &args);
}

/* The uploads of a part's operands. */
struct uploads_in_flight {
    struct layout there[MAX_INPUTS]; /* their layouts on the device, from element 0, …, 0 at part->memory */
    struct transfer *uploads[MAX_INPUTS];
};

/* Device memory for the upload of an operand. */
struct staging_buffer {
    void *memory; /* NULL: not yet allocated */
    size_t bytes;
    device_event free; /* after which it may be overwritten; NULL: in stream order */
};

/* Starts the upload of an operand that is in host memory. `invariants` owns memory that is allocated here. */
static bool begin_operand_upload(struct call *part, struct call *invariants,
                                 struct uploads_in_flight *uploads_in_flight, int i,
                                 const struct staging_buffer *staging_buffer)
{
    const struct operand *in = &part->in[i];
    const int element = dtype_bytes(in->dtype);
    void *memory = staging_buffer ? staging_buffer->memory : NULL;
    struct segments segments;
    npy_intp first;

    uploads_in_flight->there[i] = part->as[i];
    part->memory[i] = in->data;
    if (in->device)
        return true;
    (void)layout_segments(&part->as[i], element, in->data, true, &segments, &uploads_in_flight->there[i], &first);
    if (memory && segments_bytes(&segments) >
                      staging_buffer->bytes) /* the staging buffer was sized for a layout without gaps */
        (void)layout_segments(&part->as[i], element, in->data, false, &segments, &uploads_in_flight->there[i],
                              &first);
    if (!memory && !(memory = call_allocate(invariants, segments_bytes(&segments)))) {
        part->failure = invariants->failure;
        return false;
    }
    part->memory[i] = (char *)memory + first;
    return part->device->type->upload_begin(part->device, memory, &segments,
                                            staging_buffer ? staging_buffer->free : NULL, part->stream,
                                            &uploads_in_flight->uploads[i], &part->failure);
}

/* Makes the stream wait for the uploads; the host memory is not needed afterwards. */
static bool wait_for_uploads(struct call *part, struct uploads_in_flight *uploads_in_flight)
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

/* Converts one operand, from its layout on the device, to the layout and dtype that the kernel wants. */
static bool convert_to_kernel_layout(struct call *part, struct call *invariants, int i, const struct layout *there)
{
    const struct operand *in = &part->in[i];
    const bool swapped = reads_swapped(part, in);
    struct convert_operand x, to;
    void *memory;

    if (part->native_layout) {
        part->native_operand = describe_strided(part->memory[i], in->dtype, there, in->swapped);
        return true;
    }
    part->as[i].ndim = there->ndim;
    memcpy(part->as[i].strides, there->strides, sizeof there->strides);
    if (in->dtype == part->dtype[i] && !swapped && is_aligned(part->memory[i], in->dtype) &&
        (layout_is_contiguous(there, dtype_bytes(in->dtype)) ||
         (part->accepts_layout && part->accepts_layout(there, part->accepts_context))))
        return true;
    x = describe_strided(part->memory[i], in->dtype, there, swapped);
    memory = call_allocate(invariants, bytes_of(layout_size(there), part->dtype[i]));
    if (!memory) {
        part->failure = invariants->failure;
        return false;
    }
    to = describe_contiguous(memory, part->dtype[i], there);
    memcpy(part->as[i].strides, to.strides, (size_t)there->ndim * sizeof *to.strides);
    part->memory[i] = memory;
    return launch_convert(part, &x, &to, there);
}

/* Whether the kernel can write its result directly to out. */
static bool writes_directly_to_out(const struct call *call)
{
    return call->out.device && call->result == call->out.dtype && is_aligned(call->out.data, call->result) &&
           call->out.swapped == (call->bytes_only && call->in[0].swapped) &&
           (call->strided_out || layout_is_contiguous(&call->made, dtype_bytes(call->result))) &&
           (!call->overlapping || call->in_place);
}

static bool allocate_result_and_scratch(struct call *part, struct call *invariants)
{
    if (part->native_layout)
        return true;
    if (writes_directly_to_out(part))
        part->out_memory = part->out.data;
    else
        part->out_memory = call_allocate(invariants, bytes_of(layout_size(&part->made), part->result));
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
        dry_run_note(row, &call->kernel, args);
    else
        call_count_launch();
    if (call->note)
        launch_record_add(call->note, row, args);
    const bool ok = call->device->type->launch(call->device, row, args, call->stream, &call->failure);

    call->ran = call->ran || ok || call->failure.ran;
    return ok;
}

/* To be called after the launch of a kernel that writes to `memory`, whether or not it succeeded. */
static void update_out_written(struct call *part, const void *memory)
{
    part->out_written = part->out_written || (part->ran && part->out.device && memory == part->out.data);
}

/* ---- the result ---- */

/* The result on the device. */
static bool locate_result(struct call *part, struct convert_operand *made)
{
    struct convert_operand x = part->native_operand;

    if (!part->native_layout) {
        *made = describe_contiguous(part->out_memory, part->result, &part->made);
        made->swapped = part->bytes_only && part->in[0].swapped;
        return true;
    }
    *made = x;
    if (part->result == part->out.dtype && !part->overlapping)
        return true;
    /* through a temporary */
    part->out_memory = call_allocate(part, bytes_of(layout_size(&part->made), part->result));
    *made = describe_contiguous(part->out_memory, part->result, &part->made);
    return part->out_memory && launch_convert(part, &x, made, &part->made);
}

/* Moves the kernel's result to out, or starts its download. */
static bool write_out(struct call *part)
{
    const int element = dtype_bytes(part->out.dtype);
    struct convert_operand made, to;
    struct layout there = part->made;
    struct segments segments;
    npy_intp first = 0;
    char *memory = part->out.data;
    bool ok;

    if (part->out.device && part->out_memory == part->out.data)
        return mark(part, COMPUTED);
    if (!locate_result(part, &made))
        return false;
    if (!part->out.device) {
        (void)layout_segments(&part->made, element, part->out.data, false, &segments, &there, &first);
        memory = part->out_memory;
    }
    if (part->native_layout || part->out.device || made.dtype != part->out.dtype ||
        made.swapped != part->out.swapped || !layout_is_contiguous(&there, element)) {
        if (!part->out.device &&
            !(memory = call_allocate(part, bytes_of(layout_size(&part->made), part->out.dtype))))
            return false;
        to = describe_strided(memory + first, part->out.dtype, &there, part->out.swapped);
        part->ran = false;
        ok = launch_convert(part, &made, &to, &there);
        update_out_written(part, memory);
        if (!ok)
            return false;
    }
    if (!mark(part, COMPUTED))
        return false;
    if (part->out.device)
        return true;
    part->out_written = true;
    part->delivered = part->device->type->download_begin(part->device, &segments, memory, part->stream,
                                                         &part->download, &part->failure);
    return part->delivered && mark(part, DOWNLOAD_END);
}

static void add_interval(double *seconds, double *until, const struct interval *span)
{
    const double from = span->from > *until ? span->from : *until;

    if (span->to > from) {
        *seconds += span->to - from;
        *until = span->to;
    }
}

static double seconds_between(struct call *call, device_event earlier, device_event later)
{
    struct failure ignored = {0};
    double seconds = 0;

    if (!earlier || !later ||
        !call->device->type->seconds_between(call->device, earlier, later, &seconds, &ignored))
        return 0;
    return seconds;
}

static double seconds_after(struct call *part, enum stage stage)
{
    return seconds_between(part, part->stages[stage], part->stages[stage + 1]);
}

/* The kernel time of a part, without the time in which earlier parts were still running. `before` is the event at
 * the end of those; it becomes the end of this part. */
static double kernel_seconds(struct call *part, device_event *before)
{
    const double seconds = seconds_after(part, KERNEL_BEGIN);
    const double since = *before ? seconds_between(part, *before, part->stages[COMPUTED]) : seconds;

    if (since < 0)
        return 0;
    part->device->type->drop(part->device, *before);
    *before = part->stages[COMPUTED];
    part->stages[COMPUTED] = NULL;
    return since < seconds ? since : seconds;
}

/* Adds a part's times to timed()'s. A copy that did not go through the stream reports its own interval. `before`:
 * for one of several parts; NULL otherwise.
 */
static void add_times(struct call *part, device_event *before)
{
    struct timing *timing = current_timing();
    bool second_stream = false;

    if (!timing)
        return;
    for (int i = 0; i < part->inputs; i++) {
        second_stream = second_stream || part->up[i].to > 0;
        add_interval(&timing->upload, &timing->uploaded, &part->up[i]);
    }
    if (!second_stream)
        timing->upload += seconds_after(part, UPLOAD_BEGIN);
    if (part->down.to > 0)
        add_interval(&timing->download, &timing->downloaded, &part->down);
    else
        timing->download += seconds_after(part, COMPUTED);
    timing->kernel += before ? kernel_seconds(part, before) : seconds_after(part, KERNEL_BEGIN);
    for (int i = 0; i < STAGES; i++)
        if (part->stages[i])
            part->device->type->drop(part->device, part->stages[i]);
    memset(part->stages, 0, sizeof part->stages);
}

/* Waits for the download and releases the part's temporaries. False if something failed. */
static bool complete_part(struct call *part, device_event *before)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    if (part->delivered && !part->out.device) {
        struct failure failure = {0};

        if (!part->device->type->download_end(part->device, part->download, current_timing() ? &part->down : NULL,
                                              &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        part->delivered = false;
    }
    release_temporaries(part);
    add_times(part, before);
    return ok;
}

/* ---- one part, and the pipeline of parts ---- */

/* Starts the uploads of a part. `invariants` owns the memory that later parts need as well: operands that all
 * parts of the inner loop read, and a result that the parts accumulate; the `first` part uploads them. */
static bool begin_uploads(struct call *part, struct call *invariants, struct uploads_in_flight *uploads_in_flight,
                          bool first, const struct staging_buffer *staging)
{
    bool ok = mark(part, UPLOAD_BEGIN);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (is_invariant(part, i))
            ok = !first || begin_operand_upload(part, invariants, uploads_in_flight, i, NULL);
        else
            ok = begin_operand_upload(part, part, uploads_in_flight, i, staging ? &staging[i] : NULL);
    }
    return ok && mark(part, UPLOAD_END);
}

/* Gives the accumulated result's memory to the last part, which downloads it. */
static void move_invariants_to_part(struct call *invariants, struct call *part)
{
    while (invariants->temporary_count)
        part->temporaries[part->temporary_count++] = invariants->temporaries[--invariants->temporary_count];
}

static bool compute_part(struct call *part, struct call *invariants, struct uploads_in_flight *uploads_in_flight,
                         bool first, call_launcher launch, void *context)
{
    bool ok = wait_for_uploads(part, uploads_in_flight) && mark(part, KERNEL_BEGIN);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (!is_invariant(part, i)) {
            ok = convert_to_kernel_layout(part, part, i, &uploads_in_flight->there[i]);
        } else if (first) {
            ok = convert_to_kernel_layout(part, invariants, i, &uploads_in_flight->there[i]);
            invariants->memory[i] = part->memory[i];
        } else {
            part->memory[i] = invariants->memory[i];
        }
    }
    if (first) /* the second stream needs everything enqueued so far */
        ok = ok && part->device->type->follow(part->device, part->second_stream, part->stream, &part->failure);
    if (first || !accumulates_parts(part)) {
        ok = ok && allocate_result_and_scratch(part, accumulates_parts(part) ? invariants : part);
        invariants->out_memory = part->out_memory;
        invariants->scratch = part->scratch;
    } else {
        part->out_memory = invariants->out_memory;
        part->scratch = invariants->scratch;
    }
    part->ran = part->delivered = false;
    ok = ok && (!launch || launch(part, context));
    update_out_written(part, part->out_memory);
    if (accumulates_parts(part) && !is_last_part(part))
        return ok && mark(part, COMPUTED);
    if (accumulates_parts(part))
        move_invariants_to_part(invariants, part);
    return ok && write_out(part);
}

/* Faults in the memory of a new result on the host while the kernel runs; earlier, it would take host memory
 * bandwidth from the uploads. */
static void prefault_result(struct call *call)
{
    if (call->out_is_new && !call->prefault && !call->native_layout && !call->out.device &&
        call->device->type->prefault)
        call->device->type->prefault(call->device, call->out.data, bytes_of(call->out.size, call->out.dtype),
                                     &call->prefault);
}

static void run_unpartitioned(struct call *call, call_launcher launch, void *context)
{
    struct uploads_in_flight uploads_in_flight = {.uploads = {NULL, NULL}};

    for (int loop = 0; loop < 2; loop++) {
        call->at[loop] = 0;
        call->part_length[loop] = call->partitions[loop].length;
    }
    if (begin_uploads(call, call, &uploads_in_flight, true, NULL) &&
        compute_part(call, call, &uploads_in_flight, true, launch, context))
        prefault_result(call);
    (void)wait_for_uploads(call, &uploads_in_flight);
    (void)complete_part(call, NULL);
}

/* Parts in flight at the same time. */
enum { PIPELINE_DEPTH = 3 };

struct slot {
    struct call part;
    struct uploads_in_flight uploads_in_flight;
    struct staging_buffer staging[MAX_INPUTS];
    device_event computed; /* after which the staging buffers may be overwritten */
    bool busy;
};

struct pipeline {
    struct slot slots[PIPELINE_DEPTH];
    int next; /* the slot of the oldest part */
    struct call invariants;
    device_event computed; /* the end of the last part that was timed */
};

/* Allocates staging buffers for a slot's parts; its first part is the largest. */
static bool allocate_staging_buffers(struct call *call, struct slot *slot)
{
    for (int i = 0; i < call->inputs; i++) {
        const struct operand *in = &slot->part.in[i];
        struct staging_buffer *staging_buffer = &slot->staging[i];
        struct segments segments;
        struct layout there;
        npy_intp first;

        if (is_invariant(call, i) || in->device || staging_buffer->memory)
            continue;
        (void)layout_segments(&slot->part.as[i], dtype_bytes(in->dtype), in->data, true, &segments, &there,
                              &first);
        staging_buffer->bytes = segments_bytes(&segments);
        staging_buffer->memory = call_allocate(call, staging_buffer->bytes);
        if (!staging_buffer->memory)
            return false;
    }
    if (!slot->computed && !call->device->type->mark(call->device, call->stream, &slot->computed, &call->failure))
        return false;
    for (int i = 0; i < call->inputs; i++)
        slot->staging[i].free = slot->computed;
    return true;
}

/* Waits for the part in a slot. If it failed, sets the call's failure and returns false. */
static bool complete_slot(struct call *call, struct pipeline *pipeline, struct slot *slot)
{
    bool ok = true;

    if (slot->busy) {
        slot->busy = false;
        ok = wait_for_uploads(&slot->part, &slot->uploads_in_flight);
        ok = complete_part(&slot->part, &pipeline->computed) && ok;
        call->out_written = call->out_written || slot->part.out_written;
        if (!ok && call->failure.kind == FAILURE_NONE)
            call->failure = slot->part.failure;
    }
    return ok;
}

/* Puts a part into a slot, after the slot's previous part has ended, and starts its uploads. It will be computed
 * on `stream`. */
static bool begin_slot(struct call *call, struct pipeline *pipeline, struct slot *slot, const npy_intp at[2],
                       device_stream stream)
{
    if (!complete_slot(call, pipeline, slot))
        return false;
    slot->part = *call;
    slot->part.stream = stream;
    slot->part.temporary_count = 0;
    for (int loop = 0; loop < 2; loop++)
        slice_part(&slot->part, loop, at[loop]);
    if (!allocate_staging_buffers(call, slot))
        return false;
    slot->busy = true;
    return begin_uploads(&slot->part, &pipeline->invariants, &slot->uploads_in_flight, at[1] == 0, slot->staging);
}

static bool compute_slot(struct call *call, struct pipeline *pipeline, struct slot *slot, call_launcher launch,
                         void *context)
{
    const struct device_type *type = call->device->type;
    struct call *part = &slot->part;

    if (!compute_part(part, &pipeline->invariants, &slot->uploads_in_flight, part->at[1] == 0, launch, context))
        return false;
    prefault_result(call);
    type->drop(call->device, slot->computed);
    slot->computed = NULL;
    return type->mark(call->device, part->stream, &slot->computed, &part->failure);
}

/* A number that changes ten times per second. */
static int64_t tenths(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 10 + now.tv_nsec / 100000000;
}

static bool interrupted(struct call *call, int64_t *asked)
{
    const int64_t now = tenths();

    if (now == *asked)
        return false;
    *asked = now;
    if (smemkit_interrupted())
        failure_set(&call->failure, FAILURE_INTERRUPTED, "interrupted");
    return call->failure.kind != FAILURE_NONE;
}

/* The inner loop: each part's uploads start before the previous part is computed. Parts alternate between two
 * streams, so that the last blocks of one part overlap with the next part. */
static bool run_inner_loop(struct call *call, struct pipeline *pipeline, npy_intp outer, call_launcher launch,
                           void *context)
{
    const struct partition *partition = &call->partitions[1];
    const npy_intp step = is_partitioned(partition) ? partition->step : 1,
                   length = is_partitioned(partition) ? partition->length : 1;
    npy_intp at[2] = {outer, 0};
    int64_t asked = tenths();
    bool odd = false;

    /* each outer step starts in slot 0, whose staging buffers are the largest; parts end in order */
    for (; pipeline->next != 0; pipeline->next = (pipeline->next + 1) % PIPELINE_DEPTH)
        if (!complete_slot(call, pipeline, &pipeline->slots[pipeline->next]))
            return false;
    if (!begin_slot(call, pipeline, &pipeline->slots[0], at, call->stream))
        return false;
    while (at[1] < length) {
        struct slot *slot = &pipeline->slots[pipeline->next];

        at[1] += step;
        pipeline->next = (pipeline->next + 1) % PIPELINE_DEPTH;
        odd = !odd;
        if ((at[1] < length && !begin_slot(call, pipeline, &pipeline->slots[pipeline->next], at,
                                           odd ? call->second_stream : call->stream)) ||
            !compute_slot(call, pipeline, slot, launch, context) || interrupted(call, &asked))
            return false;
    }
    return true;
}

/* Makes the call's stream wait for the parts on the second stream. */
static bool join_streams(struct call *call)
{
    struct failure failure = {0};
    const bool ok = call->device->type->follow(call->device, call->stream, call->second_stream, &failure);

    if (!ok && call->failure.kind == FAILURE_NONE)
        call->failure = failure;
    if (!ok) /* memory that these parts use is released next */
        (void)call->device->type->wait(call->device, call->second_stream, &failure);
    return ok;
}

/* The outer loop. Loop invariants of the inner loop are released after each step. */
static bool run_outer_loop(struct call *call, struct pipeline *pipeline, call_launcher launch, void *context)
{
    const struct partition *partition = &call->partitions[0];
    const npy_intp step = is_partitioned(partition) ? partition->step : 1,
                   length = is_partitioned(partition) ? partition->length : 1;

    for (npy_intp at = 0; at < length; at += step) {
        if (!run_inner_loop(call, pipeline, at, launch, context) || !join_streams(call))
            return false;
        release_temporaries(&pipeline->invariants);
    }
    return true;
}

static void run_partitioned(struct call *call, call_launcher launch, void *context)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    device_stream second_stream = NULL;
    bool ok = false;

    if (!pipeline) {
        failure_set(&call->failure, FAILURE_MEMORY, "out of memory on the host");
    } else {
        pipeline->invariants.device = call->device;
        pipeline->invariants.stream = call->stream;
        if (call->independent_parts && call->device->type->second_stream)
            second_stream = call->device->type->second_stream(call->device);
        if (second_stream)
            call->second_stream = second_stream;
        ok = run_outer_loop(call, pipeline, launch, context);
        for (int i = 0; i < PIPELINE_DEPTH; i++) /* also after a failure: copies in flight use host memory */
            if (pipeline->slots[i].busy && !ok && call->failure.kind == FAILURE_NONE)
                call->failure = pipeline->slots[i].part.failure;
        for (int i = 0; i < PIPELINE_DEPTH; i++) {
            struct slot *slot = &pipeline->slots[(pipeline->next + i) % PIPELINE_DEPTH];

            ok = complete_slot(call, pipeline, slot) && ok;
            call->device->type->drop(call->device, slot->computed);
        }
        call->device->type->drop(call->device, pipeline->computed);
        ok = join_streams(call) && ok;
        release_temporaries(&pipeline->invariants);
    }
    release_temporaries(call);
    free(pipeline);
}

/* Orders the call's stream after the streams that own the operands' memory (`before`), or those after the call's
 * stream. */
static bool order_with_owning_streams(struct call *call, bool before)
{
    bool ok = true;

    for (int i = 0; i <= call->inputs; i++) {
        const struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->owning_stream != call->stream)
            ok = ok && call->device->type->follow(call->device, before ? call->stream : operand->owning_stream,
                                                  before ? operand->owning_stream : call->stream, &call->failure);
    }
    return ok;
}

/* Orders the owning streams after the call. If that fails, waits for the call, because the memory may be released
 * next. */
static void order_owning_streams_after_call(struct call *call)
{
    struct failure ignored = {0};

    if (!order_with_owning_streams(call, false))
        (void)call->device->type->wait(call->device, call->stream, &ignored);
}

static void run(struct call *call, call_launcher launch, void *context, bool own_out)
{
    struct device *device = call->device;

    call->device = dry_run_device(device);
    call->second_stream = call->stream;
    call->out_is_new = !own_out;
    if (order_with_owning_streams(call, true)) {
        if (is_partitioned(&call->partitions[0]) || is_partitioned(&call->partitions[1]))
            run_partitioned(call, launch, context);
        else
            run_unpartitioned(call, launch, context);
        order_owning_streams_after_call(call);
    }
    if (call->prefault) {
        struct failure ignored = {0};

        (void)call->device->type->download_end(call->device, call->prefault, NULL, &ignored);
    }
    call->device = device;
}

/* ---- the whole call ---- */

static void drop(struct call *call)
{
    for (int i = 0; i < call->inputs; i++)
        drop_operand(&call->in[i]);
    Py_CLEAR(call->bounce_buffer);
    drop_operand(&call->out);
}

PyObject *call_fail(struct call *call)
{
    drop(call);
    return NULL;
}

/* A call with host arrays synchronises, which is not allowed during graph capture. */
static bool check_no_capture(const struct module_state *state, const struct call *call)
{
    return !has_host_array(call) ||
           refuse_capture(state, call->device, call->stream,
                          "nothing can come from the host or go there; expected arrays on the device");
}

/* Keeps the owners of other libraries' arrays alive until the call's work is done, where those libraries do not
 * know of it. */
static void keep_owners_alive(struct call *call)
{
    PyObject *owners[MAX_KEPT_ALIVE];
    int count = 0;

    _Static_assert(MAX_KEPT_ALIVE == MAX_INPUTS + 1, "one for each operand, and one for out");
    for (int i = 0; i <= call->inputs; i++) {
        struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->retire && operand->owner) {
            owners[count++] = Py_NewRef(operand->owner);
            operand->retire = false;
        }
    }
    if (count)
        foreign_keep_alive(call->device, call->stream, owners, count);
}

static const char IN_PART[] = "out has been written in part";

/* Adds IN_PART to the exception that a signal handler has raised. */
static void add_partly_written(void)
{
    PyObject *type, *error, *traceback, *args, *done = NULL;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    args = error ? PyObject_GetAttrString(error, "args") : NULL;
    if (args && PyTuple_Check(args) && !PyTuple_GET_SIZE(args)) {
        Py_SETREF(args, Py_BuildValue("(s)", IN_PART));
        if (args)
            (void)PyObject_SetAttrString(error, "args", args);
    } else if (args) {
        done = PyObject_CallMethod(error, "add_note", "s", IN_PART); /* not in CPython 3.10 */
    }
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(args);
    PyErr_Restore(type, error, traceback);
}

void raise_call_failure(const struct module_state *state, struct failure *failure, bool out_written)
{
    const bool raised = PyErr_Occurred() || failure->kind == FAILURE_INTERRUPTED;

    if (out_written && !raised) {
        const size_t length = strlen(failure->text);

        snprintf(failure->text + length, sizeof failure->text - length, "; %s", IN_PART);
    }
    raise_failure(state, failure);
    if (out_written && raised)
        add_partly_written();
}

static PyObject *finish_call(const struct module_state *state, struct call *call, bool own_out)
{
    PyObject *result;

    if (call->failure.kind != FAILURE_NONE) {
        raise_call_failure(state, &call->failure, call->out_written && own_out && !call->bounce_buffer);
        return call_fail(call);
    }
    if (call->bounce_buffer && !is_dry_run() &&
        PyArray_CopyInto((PyArrayObject *)call->out.owner, call->bounce_buffer) < 0)
        return call_fail(call);
    result = Py_NewRef(call->out.given ? call->out.given : call->out.owner);
    if (!call->out.device && !own_out && !call->keeps_0d_array)
        result = PyArray_Return((PyArrayObject *)result);
    drop(call);
    return result;
}

PyObject *call_run(const struct module_state *state, struct call *call, call_launcher launch, void *context,
                   bool own_out)
{
    if (call->out.size) {
        call->overlapping = overlaps(call);
        call_cancel_slow_partition(call);
        if (!check_no_capture(state, call) || !prepare(call))
            return call_fail(call);
        Py_BEGIN_ALLOW_THREADS
        run(call, launch, context, own_out);
        Py_END_ALLOW_THREADS
        keep_owners_alive(call);
    }
    return finish_call(state, call, own_out);
}

/* ---- copies and conversions: no kernel but `convert` ---- */

/* Merges the dimensions of `as` and `made` as far as both allow. */
static void merge_views(struct call *call)
{
    struct layout *as = &call->as[0], *made = &call->made;

    *made = call->out.layout;
    as->ndim = merge_dimensions(as->ndim, as->shape, as->strides, made->strides);
    made->ndim = as->ndim;
    memcpy(made->shape, as->shape, sizeof made->shape);
}

PyObject *call_run_convert(const struct module_state *state, struct call *call, bool own_out)
{
    struct operand *in = &call->in[0];

    if (call->out.size) {
        npy_intp bytes = call->out.size * dtype_bytes(in->dtype), part = call_part_bytes(call, bytes);

        merge_views(call);
        call->native_layout = true;
        if (call->made.ndim)
            call->partitions[1] = (struct partition){.length = call->made.shape[0],
                                                     .step = step_of(part, bytes / call->made.shape[0], 1),
                                                     .in = {0, -1}};
    }
    return call_run(state, call, NULL, NULL, own_out);
}

/* A plain copy of bytes, without a kernel. */
static void run_copy(struct call *call)
{
    const struct operand *in = &call->in[0], *out = &call->out;
    const size_t bytes = bytes_of(out->size, out->dtype);
    const struct device_type *type = call->device->type;
    struct segments segments = {.data = in->device ? out->data : in->data, .segment_bytes = bytes};
    struct interval *interval = current_timing() ? (out->device ? &call->up[0] : &call->down) : NULL;
    struct transfer *transfer;

    if (!order_with_owning_streams(call, true) || !mark(call, UPLOAD_BEGIN))
        return;
    call->out_written = true;
    if (in->device && out->device) {
        type->copy(call->device, out->data, in->data, bytes, call->stream, &call->failure);
    } else if (out->device) {
        if (type->upload_begin(call->device, out->data, &segments, NULL, call->stream, &transfer,
                               &call->failure) &&
            transfer)
            type->upload_end(call->device, transfer, call->stream, interval, &call->failure);
        (void)(call->failure.kind == FAILURE_NONE && mark(call, UPLOAD_END));
    } else if (mark(call, COMPUTED) &&
               type->download_begin(call->device, &segments, in->data, call->stream, &transfer, &call->failure)) {
        type->download_end(call->device, transfer, interval, &call->failure);
        (void)(call->failure.kind == FAILURE_NONE && mark(call, DOWNLOAD_END));
    }
    order_owning_streams_after_call(call);
    add_times(call, NULL);
}

PyObject *call_run_copy(const struct module_state *state, struct call *call, bool own_out)
{
    const struct operand *in = &call->in[0], *out = &call->out;
    const int element = dtype_bytes(out->dtype);

    if (in->dtype != out->dtype || in->swapped != out->swapped || !layout_is_contiguous(&call->as[0], element) ||
        !layout_is_contiguous(&out->layout, element) || overlap(in, out))
        return call_run_convert(state, call, own_out);
    if (out->size) {
        if (!check_no_capture(state, call) || !operand_unchanged(in) || !operand_unchanged(out))
            return call_fail(call);
        Py_BEGIN_ALLOW_THREADS
        if (!is_dry_run())
            run_copy(call);
        Py_END_ALLOW_THREADS
        keep_owners_alive(call);
    }
    return finish_call(state, call, own_out);
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

PyObject *call_run_fill(const struct module_state *state, struct call *call, PyObject *value, bool own_out)
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
    if (target && (is_dry_run() || PyArray_CopyInto(target, scalar) == 0)) {
        if (!call->out.device)
            result = finish_call(state, call, own_out);
        else if (read_operand(state, (PyObject *)target, "value", Py_None, &copy.in[0])) {
            copy.as[0] = copy.in[0].layout;
            copy.result = copy.in[0].dtype;
            copy.out = call->out; /* with its references */
            memset(&call->out, 0, sizeof call->out);
            result = call_run_copy(state, &copy, own_out);
        }
    }
    Py_DECREF(scalar);
    Py_XDECREF(target);
    call_fail(call);
    return result;
}
