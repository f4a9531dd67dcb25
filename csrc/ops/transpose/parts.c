/* The launches of a transpose, and its parts for large host arrays. */
#include "python/state.h"

#include "call/call.h"
#include "call/choice.h"
#include "call/operands.h"
#include "call/part.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "transpose.h"

/* Moves elements one by one, with any strides. */
static bool launch_element_copy(struct part *part, const struct axes *axes, int element)
{
    const enum dtype dtype = element == 1   ? UINT8
                             : element == 2 ? UINT16
                             : element == 4 ? UINT32
                             : element == 8 ? UINT64
                                            : COMPLEX128;
    struct convert_args args = {.x = {.data = part->buffers.operands[0], .dtype = dtype, .aligned = true},
                                .out = {.data = part->buffers.out, .dtype = dtype, .aligned = true},
                                .size = 1,
                                .ndim = axes->ndim};

    for (int d = 0; d < axes->ndim; d++) {
        args.size *= axes->shape[d];
        args.shape[d] = axes->shape[d];
        args.x.strides[d] = axes->x[d];
        args.out.strides[d] = axes->out[d];
    }
    return part_launch(part, &kernel_rows[ROW_convert_strided], &args);
}

/* Sets what a launcher derives from the device. Returns the thresholds. */
static struct transpose_thresholds set_device_arguments(const struct device *device, struct transpose_args *args)
{
    const struct transpose_thresholds limits = transpose_thresholds(device);

    args->multiprocessors = device->multiprocessors;
    args->full_tile_elements = limits.full_tile_elements;
    args->spare_elements = limits.spare_elements;
    return limits;
}

static bool launch_strided_transpose(struct part *part)
{
    struct layout out_view = part->out_view;
    int element = dtype_bytes(part->call->in[0].dtype);
    npy_intp step = element;
    struct transpose_args args = {.x = part->buffers.operands[0], .out = part->buffers.out};
    struct transpose_thresholds limits;
    struct axes axes;

    if (part->buffers.out != part->out) { /* a temporary of the call */
        for (int d = out_view.ndim - 1; d >= 0; d--) {
            out_view.strides[d] = step;
            step *= out_view.shape[d];
        }
    }
    axes = axes_of(&part->in_view[0], &out_view);
    if (part->call->kernel.automatic)
        element = widen_elements(&axes, element, (uintptr_t)args.x, (uintptr_t)args.out);
    if (!view_as_matrices(axes, element, &args))
        return launch_element_copy(part, &axes, element);
    limits = set_device_arguments(part->device, &args);
    if (args.x == args.out)
        return part_launch(part, &kernel_rows[ROW_transpose_in_place], &args);
    return part_launch(part,
                       part->call->kernel.automatic ? choose_transpose_kernel(part->device, &axes, &args, &limits)
                                                    : part->call->kernel.row,
                       &args);
}

bool run_transpose(struct part *part, void *unused)
{
    const struct layout *in_view = &part->in_view[0];
    struct transpose_args args = {.x = part->buffers.operands[0],
                                  .out = part->buffers.out,
                                  .batches = 1,
                                  .rows = 1,
                                  .columns = layout_size(in_view),
                                  .element_size = dtype_bytes(part->call->in[0].dtype),
                                  .tile = part->call->kernel.size,
                                  .pad = part->call->kernel.pad};

    (void)unused;
    if (part->call->strided_out)
        return launch_strided_transpose(part);
    if (in_view->ndim > 1 && part->call->kernel.row->role != CEILING) {
        args.rows = in_view->shape[in_view->ndim - 2];
        args.columns = in_view->shape[in_view->ndim - 1];
        args.batches = layout_size(in_view) / (args.rows * args.columns);
    }
    (void)set_device_arguments(part->device, &args);
    args.x_row_stride = args.columns;
    args.out_row_stride = args.rows;
    if (args.batches > 1) {
        args.batch_ndim = 1;
        args.batch[0] = (struct batch_dimension){args.batches, args.rows * args.columns, args.rows * args.columns};
    }
    return part_launch(part, part->call->kernel.row, &args);
}

void partition_transpose(struct call *call)
{
    enum { MIN_SEGMENT = 1024 };
    const struct layout *out_view = &call->out_view;
    const int last = out_view->ndim - 1;
    const npy_intp element = dtype_bytes(call->in[0].dtype), bytes = call->in[0].size * element;
    const npy_intp part = call_part_bytes(call, bytes, LEAST_PART_BYTES),
                   columns = last > 0 ? out_view->shape[last - 1] : 1;
    const npy_intp rows = last > 0 ? out_view->shape[last] : 1, matrix = rows * columns * element;
    struct partition *partitions = call->partitions;

    if (bytes <= part || out_view->ndim == 0)
        return;
    if (call->kernel.row->role == CEILING || out_view->ndim == 1) {
        partitions[1] = (struct partition){
            out_view->shape[0], choose_part_step(part, bytes / out_view->shape[0], 1), {0, -1}, 0};
        return;
    }
    if (out_view->ndim > 2) {
        const int loop = matrix > part ? 0 : 1;

        partitions[loop] = (struct partition){
            out_view->shape[0], choose_part_step(part, bytes / out_view->shape[0], 1), {0, -1}, 0};
    }
    if (matrix > part) {
        const bool by_columns = rows <= columns;
        const npy_intp length = by_columns ? columns : rows, step = choose_part_step(part, matrix / length, 1);
        const int partition = by_columns ? last - 1 : last;

        partitions[1] = (struct partition){
            length, step, {call->strided_out ? partition : 2 * last - 1 - partition, -1}, partition};
        if (step * element < MIN_SEGMENT)
            partitions[1].step = MIN_SEGMENT / element;
    }
}
