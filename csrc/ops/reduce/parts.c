/* Reductions of large host arrays in parts, and the launch of one part. */
#include "python/state.h"

#include "call/call.h"
#include "call/operands.h"
#include "call/part.h"
#include "device/device.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "reduce.h"

void partition_reduce(struct call *call, struct reduction *reduction)
{
    enum { MIN_SEGMENT = 1024 };
    struct extent *extent = &reduction->extent;
    const struct layout *in_view = &call->in_view[0];
    const npy_intp element = dtype_bytes(call->in[0].dtype), row = extent->n * extent->inner * element;
    const npy_intp bytes = extent->outer * row, part = call_part_bytes(call, bytes, LEAST_PART_BYTES);
    const struct reduce_work *work = &reduction->args.work;
    const npy_intp block = work->splits > 1 ? work->chunk : 0;
    const int outer = 0, n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    struct partition *partitions = call->partitions;

    if (bytes <= part)
        return;
    if (reduction->outer_ndim) {
        const int loop = row > part ? 0 : 1;

        partitions[loop] = (struct partition){in_view->shape[outer], 1, {outer, -1}, 0};
        partitions[loop].step = choose_part_step(part, bytes / in_view->shape[outer], 1);
        reduction->loop_axis[loop] = OUTER_AXIS;
    }
    if (row <= part)
        return;
    if (block && reduction->reduced_ndim == 1 && extent->inner * element * block <= part) {
        partitions[1] = (struct partition){
            in_view->shape[n], choose_part_step(part, extent->inner * element, block), {n, -1}, -1};
        reduction->loop_axis[1] = REDUCED_AXIS;
    } else if (inner < in_view->ndim && work->fold <= 1) {
        partitions[1] = (struct partition){in_view->shape[inner], 1, {inner, -1}, reduction->outer_ndim};
        partitions[1].step = choose_part_step(part, row / in_view->shape[inner], 1);
        if (partitions[1].step * (extent->inner / in_view->shape[inner]) * element < MIN_SEGMENT)
            partitions[1].step = MIN_SEGMENT / element;
        reduction->loop_axis[1] = INNER_AXIS;
    }
}

/* Counters of the device, or in the call's scratch behind `states` bytes of partial results. */
static void allocate_counters(struct call *call, struct reduction *reduction, int64_t counters, size_t states)
{
    struct device *device = call_target(call);
    const size_t bytes = (size_t)counters * sizeof(unsigned);

    if (reduction->loop_axis[1] != REDUCED_AXIS && device->type->zeroed_workspace)
        reduction->args.work.counters = device->type->zeroed_workspace(device, bytes, call->stream);
    reduction->counters = reduction->args.work.counters ? 0 : counters;
    reduction->states = states;
    call->scratch_bytes = states + (reduction->counters ? bytes : 0);
}

/* The inter-block workspace: flagged partials or counters of the device, and scratch for partial results.
 */
static void allocate_workspace(struct call *call, struct reduction *reduction)
{
    struct device *device = call_target(call);
    struct reduce_work *work = &reduction->args.work;
    const int64_t width = work->lanes ? work->lanes * work->vector / work->fold : 1; /* columns of a tile */
    const int64_t rows = reduction->extent.outer * ceil_div(reduction->extent.inner, width);
    const bool one_word = partial_fits_word(&reduction->args);
    const int words_per_partial = one_word ? 1 : REDUCE_MAX_STATE_WORDS;
    const size_t words = (size_t)(rows * work->splits * words_per_partial) * REDUCE_FLAGGED_WORD_BYTES;
    const bool in_one_launch = reduction->loop_axis[1] != REDUCED_AXIS && device->type->zeroed_workspace;

    if (in_one_launch && call->kernel.row->index == ROW_reduce_rows &&
        (one_word || fills_all_multiprocessors(&reduction->gpu, rows * work->splits)))
        work->flagged_partials = device->type->zeroed_workspace(device, words, call->stream);
    work->words_per_partial = (unsigned char)words_per_partial;
    if (!work->flagged_partials)
        allocate_counters(call, reduction, rows, (size_t)(rows * width * work->splits) * REDUCE_MAX_STATE_BYTES);
}

void set_scratch_bytes(struct call *call, struct reduction *reduction)
{
    struct reduce_args args = {.n = reduction->extent.n, .block_size = call->kernel.size};
    const struct partition *partitions = call->partitions;
    int64_t rows = reduction->extent.outer * reduction->extent.inner;

    for (int loop = 0; loop < 2; loop++)
        if ((reduction->loop_axis[loop] == OUTER_AXIS || reduction->loop_axis[loop] == INNER_AXIS) &&
            partitions[loop].step < partitions[loop].length)
            rows = rows / partitions[loop].length * partitions[loop].step;
    args.outer = rows;
    args.inner = 1;
    if (call->kernel.row->role == RUNG && call->kernel.row->needs != HOST)
        call->scratch_bytes = reduce_scratch_bytes(&args);
    if (call->kernel.row->traits & COUNTERS)
        allocate_counters(call, reduction, rows, call->scratch_bytes);
    if (reduction->args.work.splits > 1)
        allocate_workspace(call, reduction);
}

/* Counters in the call's own scratch, if the device cannot provide them: a call in parts has several launches that
 * share them. */
static bool zero_scratch_counters(struct part *part, const struct reduction *reduction, struct reduce_args *args)
{
    unsigned *counters = (unsigned *)((char *)part->buffers.scratch + reduction->states);

    if (!reduction->counters)
        return true;
    args->work.counters = counters;
    if (part->call->record)
        part->call->record->launches++; /* not cacheable: another call's counters would have to be zeroed */
    return args->first > 0 ||
           part->device->type->fill(part->device, counters, 0, (size_t)reduction->counters * sizeof *counters,
                                    part->stream, &part->failure);
}

/* The strides of a part. */
static void set_strides(const struct part *part, const struct reduction *reduction, struct reduce_args *args)
{
    const int n = reduction->outer_ndim, inner = n + reduction->reduced_ndim, element = dtype_bytes(args->dtype);
    const npy_intp *strides = part->in_view[0].strides;
    struct reduce_work *work = &args->work;

    work->outer_stride = n ? strides[n - 1] / element : args->count * args->inner;
    work->step = reduction->reduced_ndim ? strides[inner - 1] / element : args->inner;
}

bool launch_reduce_part(struct part *part, void *context)
{
    const struct reduction *reduction = context;
    struct reduce_args args = reduction->args;
    int64_t *const sizes[] = {
        [OUTER_AXIS] = &args.outer, [REDUCED_AXIS] = &args.count, [INNER_AXIS] = &args.inner};

    args.outer = reduction->extent.outer;
    args.n = args.count = reduction->extent.n;
    args.inner = reduction->extent.inner;
    for (int loop = 0; loop < 2; loop++)
        if (reduction->loop_axis[loop] != NO_AXIS)
            *sizes[reduction->loop_axis[loop]] =
                *sizes[reduction->loop_axis[loop]] / part->call->partitions[loop].length * part->length[loop];
    args.first = reduction->loop_axis[1] == REDUCED_AXIS ? part->begin[1] : 0;
    args.block_size = part->call->kernel.size;
    args.multiprocessors = part->device->multiprocessors;
    args.x = part->buffers.operands[0];
    args.out = part->buffers.out;
    args.scratch = part->buffers.scratch;
    set_strides(part, reduction, &args);
    return zero_scratch_counters(part, reduction, &args) && part_launch(part, part->call->kernel.row, &args);
}
