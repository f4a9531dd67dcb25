/* Runs the parts of a call as a pipeline: uploads, kernels and downloads of different parts overlap. */
#include "python/state.h"

#include <stdlib.h>

#include "array/operand.h"
#include "array/stream.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "call.h"
#include "device/device.h"
#include "dry_run.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "executor/executor.h"

/* Starts the uploads of a part. `invariants` owns the memory that later parts need as well: operands that all
 * parts of the inner loop read, and a result that the parts accumulate; the `first` part uploads them. */
static bool begin_uploads(struct call *part, struct call *invariants, struct uploads_in_flight *uploads_in_flight,
                          bool first, const struct staging_buffer *staging)
{
    bool ok = call_record_stage(part, UPLOAD_BEGIN);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (is_invariant(part, i))
            ok = !first || begin_operand_upload(part, invariants, uploads_in_flight, i, NULL);
        else
            ok = begin_operand_upload(part, part, uploads_in_flight, i, staging ? &staging[i] : NULL);
    }
    return ok && call_record_stage(part, UPLOAD_END);
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
    bool ok = wait_for_uploads(part, uploads_in_flight) && call_record_stage(part, KERNEL_BEGIN);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (!is_invariant(part, i)) {
            ok = convert_to_kernel_layout(part, part, i, &uploads_in_flight->device_layout[i]);
        } else if (first) {
            ok = convert_to_kernel_layout(part, invariants, i, &uploads_in_flight->device_layout[i]);
            invariants->memory[i] = part->memory[i];
        } else {
            part->memory[i] = invariants->memory[i];
        }
    }
    if (first) /* the second stream needs everything enqueued so far */
        ok = ok && part->device->type->stream_wait_stream(part->device, part->second_stream, part->stream,
                                                          &part->failure);
    if (first || !accumulates_parts(part)) {
        ok = ok && allocate_result_and_scratch(part, accumulates_parts(part) ? invariants : part);
        invariants->out_memory = part->out_memory;
        invariants->scratch = part->scratch;
    } else {
        part->out_memory = invariants->out_memory;
        part->scratch = invariants->scratch;
    }
    part->ran = part->download_started = false;
    ok = ok && (!launch || launch(part, context));
    update_out_written(part, part->out_memory);
    if (accumulates_parts(part) && !is_last_part(part))
        return ok && call_record_stage(part, COMPUTED);
    if (accumulates_parts(part))
        move_invariants_to_part(invariants, part);
    return ok && call_write_out(part);
}

/* Faults in the memory of a new result on the host while the kernel runs; earlier, it would take host memory
 * bandwidth from the uploads. */
static void prefault_result(struct call *call)
{
    if (call->out_is_new && !call->prefault && !call->native_layout && !call->out.device &&
        call->device->type->prefault)
        call->device->type->prefault(call->device, call->out.data,
                                     saturated_bytes(call->out.size, call->out.dtype), &call->prefault);
}

static void run_unpartitioned(struct call *call, call_launcher launch, void *context)
{
    struct uploads_in_flight uploads_in_flight = {.uploads = {NULL, NULL}};

    for (int loop = 0; loop < 2; loop++) {
        call->part_begin[loop] = 0;
        call->part_length[loop] = call->partitions[loop].length;
    }
    if (begin_uploads(call, call, &uploads_in_flight, true, NULL) &&
        compute_part(call, call, &uploads_in_flight, true, launch, context))
        prefault_result(call);
    (void)wait_for_uploads(call, &uploads_in_flight);
    (void)call_complete_part(call, NULL);
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
        struct layout device_layout;
        npy_intp first;

        if (is_invariant(call, i) || in->device || staging_buffer->memory)
            continue;
        (void)layout_segments(&slot->part.in_view[i], dtype_bytes(in->dtype), in->data, true, &segments,
                              &device_layout, &first);
        staging_buffer->bytes = segments_bytes(&segments);
        staging_buffer->memory = call_allocate(call, staging_buffer->bytes);
        if (!staging_buffer->memory)
            return false;
    }
    if (!slot->computed &&
        !call->device->type->record_new_event(call->device, call->stream, &slot->computed, &call->failure))
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
        ok = call_complete_part(&slot->part, &pipeline->computed) && ok;
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
        call_slice_part(&slot->part, loop, at[loop]);
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

    if (!compute_part(part, &pipeline->invariants, &slot->uploads_in_flight, part->part_begin[1] == 0, launch,
                      context))
        return false;
    prefault_result(call);
    type->destroy_event(call->device, slot->computed);
    slot->computed = NULL;
    return type->record_new_event(call->device, part->stream, &slot->computed, &part->failure);
}

/* A number that changes ten times per second. */
static int64_t tenths_of_second(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 10 + now.tv_nsec / 100000000;
}

static bool interrupted(struct call *call, int64_t *last_check)
{
    const int64_t now = tenths_of_second();

    if (now == *last_check)
        return false;
    *last_check = now;
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
    int64_t last_check = tenths_of_second();
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
            !compute_slot(call, pipeline, slot, launch, context) || interrupted(call, &last_check))
            return false;
    }
    return true;
}

/* Makes the call's stream wait for the parts on the second stream. */
static bool join_streams(struct call *call)
{
    struct failure failure = {0};
    const bool ok =
        call->device->type->stream_wait_stream(call->device, call->stream, call->second_stream, &failure);

    if (!ok && call->failure.kind == FAILURE_NONE)
        call->failure = failure;
    if (!ok) /* memory that these parts use is released next */
        (void)call->device->type->synchronize_stream(call->device, call->second_stream, &failure);
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
            call->device->type->destroy_event(call->device, slot->computed);
        }
        call->device->type->destroy_event(call->device, pipeline->computed);
        ok = join_streams(call) && ok;
        release_temporaries(&pipeline->invariants);
    }
    release_temporaries(call);
    free(pipeline);
}

bool order_with_owning_streams(struct call *call, bool before)
{
    bool ok = true;

    for (int i = 0; i <= call->inputs; i++) {
        const struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->owning_stream != call->stream)
            ok = ok && call->device->type->stream_wait_stream(
                           call->device, before ? call->stream : operand->owning_stream,
                           before ? operand->owning_stream : call->stream, &call->failure);
    }
    return ok;
}

void order_owning_streams_after_call(struct call *call)
{
    struct failure ignored = {0};

    if (!order_with_owning_streams(call, false))
        (void)call->device->type->synchronize_stream(call->device, call->stream, &ignored);
}

void call_execute(struct call *call, call_launcher launch, void *context, bool out_given)
{
    struct device *device = call->device;

    call->device = dry_run_device(device);
    call->second_stream = call->stream;
    call->out_is_new = !out_given;
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
