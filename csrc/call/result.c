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
#include "timing.h"

/* The result on the device. */
static bool locate_result(struct call *part, struct convert_operand *result)
{
    struct convert_operand x = part->native_operand;

    if (!part->native_layout) {
        *result = describe_contiguous(part->out_memory, part->result, &part->out_view);
        result->swapped = part->bytes_only && part->in[0].swapped;
        return true;
    }
    *result = x;
    if (part->result == part->out.dtype && !part->overlapping)
        return true;
    /* through a temporary */
    part->out_memory = call_allocate(part, saturated_bytes(layout_size(&part->out_view), part->result));
    *result = describe_contiguous(part->out_memory, part->result, &part->out_view);
    return part->out_memory && launch_convert(part, &x, result, &part->out_view);
}

bool call_write_out(struct call *part)
{
    const int element = dtype_bytes(part->out.dtype);
    struct convert_operand result, to;
    struct layout device_layout = part->out_view;
    struct segments segments;
    npy_intp first = 0;
    char *memory = part->out.data;
    bool ok;

    if (part->out.device && part->out_memory == part->out.data)
        return call_record_stage(part, COMPUTED);
    if (!locate_result(part, &result))
        return false;
    if (!part->out.device) {
        (void)layout_segments(&part->out_view, element, part->out.data, false, &segments, &device_layout, &first);
        memory = part->out_memory;
    }
    if (part->native_layout || part->out.device || result.dtype != part->out.dtype ||
        result.swapped != part->out.swapped || !layout_is_contiguous(&device_layout, element)) {
        if (!part->out.device &&
            !(memory = call_allocate(part, saturated_bytes(layout_size(&part->out_view), part->out.dtype))))
            return false;
        to = describe_strided(memory + first, part->out.dtype, &device_layout, part->out.swapped);
        part->ran = false;
        ok = launch_convert(part, &result, &to, &device_layout);
        update_out_written(part, memory);
        if (!ok)
            return false;
    }
    if (!call_record_stage(part, COMPUTED))
        return false;
    if (part->out.device)
        return true;
    part->out_written = true;
    part->download_started = part->device->type->download_begin(part->device, &segments, memory, part->stream,
                                                                &part->download, &part->failure);
    return part->download_started && call_record_stage(part, DOWNLOAD_END);
}

static void add_interval(double *seconds, double *until, const struct interval *interval)
{
    const double from = interval->from > *until ? interval->from : *until;

    if (interval->to > from) {
        *seconds += interval->to - from;
        *until = interval->to;
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
    part->device->type->destroy_event(part->device, *before);
    *before = part->stages[COMPUTED];
    part->stages[COMPUTED] = NULL;
    return since < seconds ? since : seconds;
}

void call_add_times(struct call *part, device_event *before)
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
            part->device->type->destroy_event(part->device, part->stages[i]);
    memset(part->stages, 0, sizeof part->stages);
}

bool call_complete_part(struct call *part, device_event *before)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    if (part->download_started && !part->out.device) {
        struct failure failure = {0};

        if (!part->device->type->download_end(part->device, part->download, current_timing() ? &part->down : NULL,
                                              &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        part->download_started = false;
    }
    release_temporaries(part);
    call_add_times(part, before);
    return ok;
}
