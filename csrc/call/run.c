/* Runs the parts of a call as a pipeline: uploads, kernels and downloads of different parts overlap. */
#include "python/state.h"

#include <stdlib.h>

#include "array/operand.h"
#include "array/stream.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "call.h"
#include "device/device.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "steps.h"
#include "executor/executor.h"

/* A call while its parts run. */
struct execution {
    struct call *call;
    call_launcher launch; /* NULL: `convert` is the only kernel */
    void *context;
    struct device *device;
    device_stream second_stream; /* computes every second part; the call's stream if there is none */
    struct transfer *prefault;   /* of a new out on the host, in progress, or NULL */
    struct buffers invariants;   /* memory that later parts need as well: operands that all parts of the inner loop
                                    read, and a result that the parts accumulate */
    struct layout invariant_views[MAX_INPUTS]; /* of those operands, as the kernel reads them */
    struct buffers kept; /* memory that parts use one after the other: staging buffers and scratch */
    void *scratch[2];    /* of the parts on each stream, which run in order: allocating it for each part would
                            take longer than its kernel where it is large; NULL: none yet */
};

/* Starts the uploads of a part; the first part uploads the invariants. */
static bool begin_uploads(struct execution *execution, struct part *part, bool first,
                          const struct staging_buffer *staging)
{
    bool ok = record_part_event(part, UPLOAD_BEGIN);

    for (int i = 0; ok && i < part->call->inputs; i++) {
        if (is_invariant(part->call, i))
            ok = !first || begin_operand_upload(part, &execution->invariants, i, NULL);
        else
            ok = begin_operand_upload(part, &part->buffers, i, staging ? &staging[i] : NULL);
    }
    return ok && record_part_event(part, UPLOAD_END);
}

/* Gives the invariants' memory, with the accumulated result, to the last part, which downloads it. */
static void move_invariants_to_part(struct buffers *invariants, struct buffers *part)
{
    while (invariants->temporary_count)
        part->temporaries[part->temporary_count++] = invariants->temporaries[--invariants->temporary_count];
}

static bool convert_operands(struct execution *execution, struct part *part, bool first)
{
    struct buffers *invariants = &execution->invariants;
    bool ok = true;

    for (int i = 0; ok && i < part->call->inputs; i++) {
        if (!is_invariant(part->call, i)) {
            ok = convert_to_kernel_layout(part, &part->buffers, i);
        } else if (first) {
            ok = convert_to_kernel_layout(part, invariants, i);
            invariants->operands[i] = part->buffers.operands[i];
            execution->invariant_views[i] = part->in_view[i];
        } else {
            part->buffers.operands[i] = invariants->operands[i];
            part->in_view[i] = execution->invariant_views[i];
        }
    }
    return ok;
}

/* Scratch memory for the parts on each stream. */
static bool allocate_scratch(struct execution *execution, struct part *part)
{
    const struct call *call = part->call;
    const int streams = execution->second_stream != call->stream && is_partitioned(&call->partitions[1]) ? 2 : 1;

    for (int i = 0; i < streams && call->scratch_bytes; i++)
        if (!execution->scratch[i] &&
            !(execution->scratch[i] = allocate_temporary(&execution->kept, call->scratch_bytes, &part->failure)))
            return false;
    return true;
}

static bool compute_part(struct execution *execution, struct part *part, bool first)
{
    const bool accumulates = accumulates_parts(part->call);
    struct buffers *invariants = &execution->invariants, *buffers = &part->buffers;
    bool ok = wait_for_uploads(part) && record_part_event(part, KERNEL_BEGIN) &&
              convert_operands(execution, part, first);

    if (first) /* the second stream needs everything enqueued so far */
        ok = ok && allocate_scratch(execution, part) &&
             part->device->type->stream_wait_stream(part->device, execution->second_stream, part->stream,
                                                    &part->failure);
    if (first || !accumulates)
        ok = ok && allocate_result(part, accumulates ? invariants : buffers);
    else
        buffers->out = invariants->out;
    invariants->out = buffers->out;
    buffers->scratch = execution->scratch[part->stream != part->call->stream];
    part->ran = part->transfers.download_started = false;
    ok = ok && (!execution->launch || execution->launch(part, execution->context));
    update_out_written(part, buffers->out);
    if (accumulates && !is_last_part(part))
        return ok && record_part_event(part, COMPUTED);
    if (accumulates)
        move_invariants_to_part(invariants, buffers);
    return ok && part_write_out(part);
}

/* Faults in the memory of a new result on the host while the kernel runs; earlier, it would take host memory
 * bandwidth from the uploads. */
static void prefault_result(struct execution *execution)
{
    const struct call *call = execution->call;

    if (call->out_is_new && !execution->prefault && !call->native_layout && !call->out.device &&
        execution->device->type->prefault)
        execution->device->type->prefault(execution->device, call->out.data,
                                          saturated_bytes(call->out.size, call->out.dtype), &execution->prefault);
}

/* Ends a part. If it failed, sets the call's failure and returns false. */
static bool complete_part(struct execution *execution, struct part *part, device_event *before)
{
    struct call *call = execution->call;
    bool ok = wait_for_uploads(part);

    ok = part_complete(part, before) && ok;
    call->out_written = call->out_written || part->out_written;
    if (!ok && call->failure.kind == FAILURE_NONE)
        call->failure = part->failure;
    return ok;
}

static void run_unpartitioned(struct execution *execution)
{
    struct part part = part_of_call(execution->call);

    if (begin_uploads(execution, &part, true, NULL) && compute_part(execution, &part, true))
        prefault_result(execution);
    (void)complete_part(execution, &part, NULL);
}

/* The parts in flight at the same time. */
enum { PIPELINE_DEPTH = 3 };

_Static_assert(PIPELINE_DEPTH *MAX_INPUTS + 2 <= MAX_TEMPORARIES, "staging buffers, and scratch of two streams");

struct slot {
    struct part part;
    struct staging_buffer staging[MAX_INPUTS];
    device_event computed; /* after which the staging buffers may be overwritten */
    bool busy;
};

struct pipeline {
    struct execution *execution;
    struct slot slots[PIPELINE_DEPTH];
    int next;              /* the slot of the oldest part */
    device_event computed; /* the end of the last part that was timed */
};

/* Allocates staging buffers for a slot's parts; its first part is the largest. */
static bool allocate_staging_buffers(struct pipeline *pipeline, struct slot *slot)
{
    struct call *call = pipeline->execution->call;
    struct part *part = &slot->part;

    for (int i = 0; i < call->inputs; i++) {
        const struct operand *in = &call->in[i];
        struct staging_buffer *staging_buffer = &slot->staging[i];
        struct segments segments;
        struct layout device_layout;
        npy_intp first;

        if (is_invariant(call, i) || in->device || staging_buffer->memory)
            continue;
        (void)layout_segments(&part->in_view[i], dtype_bytes(in->dtype), part->in[i], true, &segments,
                              &device_layout, &first);
        staging_buffer->bytes = segments_bytes(&segments);
        staging_buffer->memory =
            allocate_temporary(&pipeline->execution->kept, staging_buffer->bytes, &call->failure);
        if (!staging_buffer->memory)
            return false;
    }
    if (!slot->computed && !pipeline->execution->device->type->record_new_event(
                               pipeline->execution->device, call->stream, &slot->computed, &call->failure))
        return false;
    for (int i = 0; i < call->inputs; i++)
        slot->staging[i].free = slot->computed;
    return true;
}

/* Waits for the part in a slot. If it failed, sets the call's failure and returns false. */
static bool complete_slot(struct pipeline *pipeline, struct slot *slot)
{
    if (!slot->busy)
        return true;
    slot->busy = false;
    return complete_part(pipeline->execution, &slot->part, &pipeline->computed);
}

/* Puts a part into a slot, after the slot's previous part has ended, and starts its uploads. It will be computed
 * on `stream`. */
static bool begin_slot(struct pipeline *pipeline, struct slot *slot, const npy_intp at[2], device_stream stream)
{
    if (!complete_slot(pipeline, slot))
        return false;
    slot->part = part_of_call(pipeline->execution->call);
    slot->part.stream = slot->part.buffers.stream = stream;
    for (int loop = 0; loop < 2; loop++)
        part_slice(&slot->part, loop, at[loop]);
    if (!allocate_staging_buffers(pipeline, slot))
        return false;
    slot->busy = true;
    return begin_uploads(pipeline->execution, &slot->part, at[1] == 0, slot->staging);
}

static bool compute_slot(struct pipeline *pipeline, struct slot *slot)
{
    const struct device_type *type = pipeline->execution->device->type;
    struct part *part = &slot->part;

    if (!compute_part(pipeline->execution, part, part->begin[1] == 0))
        return false;
    prefault_result(pipeline->execution);
    type->destroy_event(pipeline->execution->device, slot->computed);
    slot->computed = NULL;
    return type->record_new_event(pipeline->execution->device, part->stream, &slot->computed, &part->failure);
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
static bool run_inner_loop(struct pipeline *pipeline, npy_intp outer)
{
    struct call *call = pipeline->execution->call;
    const struct partition *partition = &call->partitions[1];
    const npy_intp step = is_partitioned(partition) ? partition->step : 1,
                   length = is_partitioned(partition) ? partition->length : 1;
    npy_intp at[2] = {outer, 0};
    int64_t last_check = tenths_of_second();
    bool odd = false;

    /* each outer step starts in slot 0, whose staging buffers are the largest; parts end in order */
    for (; pipeline->next != 0; pipeline->next = (pipeline->next + 1) % PIPELINE_DEPTH)
        if (!complete_slot(pipeline, &pipeline->slots[pipeline->next]))
            return false;
    if (!begin_slot(pipeline, &pipeline->slots[0], at, call->stream))
        return false;
    while (at[1] < length) {
        struct slot *slot = &pipeline->slots[pipeline->next];

        at[1] += step;
        pipeline->next = (pipeline->next + 1) % PIPELINE_DEPTH;
        odd = !odd;
        if ((at[1] < length && !begin_slot(pipeline, &pipeline->slots[pipeline->next], at,
                                           odd ? pipeline->execution->second_stream : call->stream)) ||
            !compute_slot(pipeline, slot) || interrupted(call, &last_check))
            return false;
    }
    return true;
}

/* Makes the call's stream wait for the parts on the second stream. */
static bool join_streams(struct execution *execution)
{
    const struct device_type *type = execution->device->type;
    struct call *call = execution->call;
    struct failure failure = {0};
    const bool ok = type->stream_wait_stream(execution->device, call->stream, execution->second_stream, &failure);

    if (!ok && call->failure.kind == FAILURE_NONE)
        call->failure = failure;
    if (!ok) /* memory that these parts use is released next */
        (void)type->synchronize_stream(execution->device, execution->second_stream, &failure);
    return ok;
}

/* The outer loop. Loop invariants of the inner loop are released after each step. */
static bool run_outer_loop(struct pipeline *pipeline)
{
    const struct partition *partition = &pipeline->execution->call->partitions[0];
    const npy_intp step = is_partitioned(partition) ? partition->step : 1,
                   length = is_partitioned(partition) ? partition->length : 1;

    for (npy_intp at = 0; at < length; at += step) {
        if (!run_inner_loop(pipeline, at) || !join_streams(pipeline->execution))
            return false;
        release_temporaries(&pipeline->execution->invariants);
    }
    return true;
}

static void run_pipeline(struct pipeline *pipeline)
{
    struct execution *execution = pipeline->execution;
    struct call *call = execution->call;
    const bool ok = run_outer_loop(pipeline);

    for (int i = 0; i < PIPELINE_DEPTH; i++) /* also after a failure: copies in flight use host memory */
        if (pipeline->slots[i].busy && !ok && call->failure.kind == FAILURE_NONE)
            call->failure = pipeline->slots[i].part.failure;
    for (int i = 0; i < PIPELINE_DEPTH; i++) {
        struct slot *slot = &pipeline->slots[(pipeline->next + i) % PIPELINE_DEPTH];

        (void)complete_slot(pipeline, slot);
        execution->device->type->destroy_event(execution->device, slot->computed);
    }
    execution->device->type->destroy_event(execution->device, pipeline->computed);
    (void)join_streams(execution);
}

static void run_partitioned(struct execution *execution)
{
    const struct device_type *type = execution->device->type;
    struct call *call = execution->call;
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);

    if (!pipeline) {
        failure_set(&call->failure, FAILURE_MEMORY, "out of memory on the host");
        return;
    }
    pipeline->execution = execution;
    if (call->independent_parts && type->second_stream) {
        device_stream second_stream = type->second_stream(execution->device);

        if (second_stream)
            execution->second_stream = second_stream;
    }
    run_pipeline(pipeline);
    free(pipeline);
}

bool order_with_owning_streams(struct call *call, bool before)
{
    struct device *device = call_target(call);
    bool ok = true;

    for (int i = 0; i <= call->inputs; i++) {
        const struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->owning_stream != call->stream)
            ok = ok &&
                 device->type->stream_wait_stream(device, before ? call->stream : operand->owning_stream,
                                                  before ? operand->owning_stream : call->stream, &call->failure);
    }
    return ok;
}

void order_owning_streams_after_call(struct call *call)
{
    struct failure failure = {0};

    if (!call->synchronous && order_with_owning_streams(call, false))
        return;
    (void)call->device->type->synchronize_stream(call->device, call->stream, &failure);
    if (call->synchronous && call->failure.kind == FAILURE_NONE)
        call->failure = failure;
}

void call_execute(struct call *call, call_launcher launch, void *context)
{
    struct execution execution = {.call = call, .launch = launch, .context = context};
    struct failure ignored = {0};

    execution.device = execution.invariants.device = execution.kept.device = call_target(call);
    execution.second_stream = execution.invariants.stream = execution.kept.stream = call->stream;
    if (order_with_owning_streams(call, true)) {
        if (call_is_partitioned(call))
            run_partitioned(&execution);
        else
            run_unpartitioned(&execution);
        release_temporaries(&execution.invariants);
        release_temporaries(&execution.kept);
        order_owning_streams_after_call(call);
    }
    if (execution.prefault)
        (void)execution.device->type->download_end(execution.device, execution.prefault, NULL, &ignored);
}
