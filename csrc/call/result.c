/* Moves a part's result to `out`, and adds up the part's times. */
#include "python/state.h"

#include <string.h>

#include "base/failure.h"
#include "base/strided_copy.h"
#include "call.h"
#include "device/device.h"
#include "kernels.h"
#include "part.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "steps.h"
#include "timing.h"

/* The result on the device. */
static bool locate_result(struct part *part, struct convert_operand *result)
{
    const struct call *call = part->call;

    if (!call->native_layout) {
        *result = describe_contiguous(part->buffers.out, call->result, &part->out_view);
        result->swapped = call->bytes_only && call->in[0].swapped;
        return true;
    }
    *result = part->native_operand;
    if (call->result == call->out.dtype && !call->overlapping)
        return true;
    /* through a temporary */
    part->buffers.out = allocate_temporary(
        &part->buffers, saturated_bytes(layout_size(&part->out_view), call->result), &part->failure);
    *result = describe_contiguous(part->buffers.out, call->result, &part->out_view);
    return part->buffers.out && launch_convert(part, &part->native_operand, result, &part->out_view);
}

/* Where the result goes: to out on the device; for an out on the host, to the memory that will be downloaded,
 * which may be the result's own. */
struct destination {
    char *memory;
    npy_intp first; /* bytes before element 0, …, 0 */
    struct layout layout;
    struct segments segments; /* of out on the host */
};

static struct destination destination_of(const struct part *part)
{
    const struct operand *out = &part->call->out;
    struct destination to = {.memory = part->out, .layout = part->out_view};

    if (!out->device) {
        (void)layout_segments(&part->out_view, dtype_bytes(out->dtype), part->out, false, &to.segments, &to.layout,
                              &to.first);
        to.memory = part->buffers.out;
    }
    return to;
}

/* Converts the result to out's layout, dtype and byte order. */
static bool convert_result(struct part *part, const struct convert_operand *result, struct destination *to)
{
    const struct operand *out = &part->call->out;
    struct convert_operand x;
    bool ok;

    if (!out->device &&
        !(to->memory = allocate_temporary(
              &part->buffers, saturated_bytes(layout_size(&part->out_view), out->dtype), &part->failure)))
        return false;
    x = describe_strided(to->memory + to->first, out->dtype, &to->layout, out->swapped);
    part->ran = false;
    ok = launch_convert(part, result, &x, &to->layout);
    update_out_written(part, to->memory);
    return ok;
}

bool part_write_out(struct part *part)
{
    const struct operand *out = &part->call->out;
    struct convert_operand result;
    struct destination to;

    if (out->device && part->buffers.out == part->out)
        return record_part_event(part, COMPUTED);
    if (!locate_result(part, &result))
        return false;
    to = destination_of(part);
    if ((part->call->native_layout || out->device || result.dtype != out->dtype ||
         result.swapped != out->swapped || !layout_is_contiguous(&to.layout, dtype_bytes(out->dtype))) &&
        !convert_result(part, &result, &to))
        return false;
    if (!record_part_event(part, COMPUTED))
        return false;
    if (out->device)
        return true;
    part->out_written = true;
    part->transfers.download_started = part->device->type->download_begin(
        part->device, &to.segments, to.memory, part->stream, &part->transfers.download, &part->failure);
    return part->transfers.download_started && record_part_event(part, DOWNLOAD_END);
}

static void add_interval(double *seconds, double *until, const struct interval *interval)
{
    const double from = interval->from > *until ? interval->from : *until;

    if (interval->to > from) {
        *seconds += interval->to - from;
        *until = interval->to;
    }
}

static double seconds_between(struct part *part, device_event earlier, device_event later)
{
    struct failure ignored = {0};
    double seconds = 0;

    if (!earlier || !later ||
        !part->device->type->seconds_between(part->device, earlier, later, &seconds, &ignored))
        return 0;
    return seconds;
}

static double seconds_after(struct part *part, enum part_event event)
{
    return seconds_between(part, part->events[event], part->events[event + 1]);
}

/* The kernel time of a part, without the time in which earlier parts were still running. `before` is the event at
 * the end of those; it becomes the end of this part. */
static double kernel_seconds(struct part *part, device_event *before)
{
    const double seconds = seconds_after(part, KERNEL_BEGIN);
    const double since = *before ? seconds_between(part, *before, part->events[COMPUTED]) : seconds;

    if (since < 0)
        return 0;
    part->device->type->destroy_event(part->device, *before);
    *before = part->events[COMPUTED];
    part->events[COMPUTED] = NULL;
    return since < seconds ? since : seconds;
}

void part_add_times(struct part *part, device_event *before)
{
    struct timing *timing = part->call->timing;
    bool by_copy_pool = false;

    if (!timing)
        return;
    for (int i = 0; i < part->call->inputs; i++) {
        by_copy_pool = by_copy_pool || part->up[i].to > 0;
        add_interval(&timing->upload, &timing->uploaded, &part->up[i]);
    }
    if (!by_copy_pool)
        timing->upload += seconds_after(part, UPLOAD_BEGIN);
    if (part->down.to > 0)
        add_interval(&timing->download, &timing->downloaded, &part->down);
    else
        timing->download += seconds_after(part, COMPUTED);
    timing->kernel += before ? kernel_seconds(part, before) : seconds_after(part, KERNEL_BEGIN);
    for (int i = 0; i < PART_EVENTS; i++)
        if (part->events[i])
            part->device->type->destroy_event(part->device, part->events[i]);
    memset(part->events, 0, sizeof part->events);
}

bool part_complete(struct part *part, device_event *before)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    if (part->transfers.download_started && !part->call->out.device) {
        struct failure failure = {0};

        if (!part->device->type->download_end(part->device, part->transfers.download,
                                              part->call->timing ? &part->down : NULL, &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        part->transfers.download_started = false;
    }
    release_temporaries(&part->buffers);
    part_add_times(part, before);
    return ok;
}
