/* transpose: any permutation of the axes, copied. */
#include "smemkit.h"

#include <string.h>

/* The loops over the parts of a transposition: matrices of a batch; of one matrix, columns of x or its rows,
 * whichever come in longer runs on the side where they have gaps. */
static void cut_transpose(struct call *call)
{
    enum { RUN = 1024 };
    const struct layout *made = &call->made;
    const int last = made->ndim - 1;
    const npy_intp element = dtype_bytes(call->in[0].dtype), bytes = call->in[0].size * element;
    const npy_intp part = call_part_bytes(call, bytes), columns = last > 0 ? made->shape[last - 1] : 1;
    const npy_intp rows = last > 0 ? made->shape[last] : 1, matrix = rows * columns * element;
    struct cut *cuts = call->cuts;

    if (bytes <= part || made->ndim == 0)
        return;
    if (call->as_it_lies || call->kernel.row->ceiling || made->ndim == 1) {
        cuts[1] = (struct cut){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
        return;
    }
    if (made->ndim > 2) {
        const int loop = matrix > part ? 0 : 1;

        cuts[loop] = (struct cut){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
    }
    if (matrix > part) {
        const bool by_columns = rows <= columns;
        const npy_intp length = by_columns ? columns : rows, step = step_of(part, matrix / length, 1);

        cuts[1] = (struct cut){length, step, {by_columns ? last : last - 1, -1}, by_columns ? last - 1 : last};
        if (step * element < RUN)
            cuts[1].step = RUN / element;
    }
}

/* The elements of out, in as few dimensions as can be: what is left of the permutation. A rung turns matrices, the
 * last two of those dimensions; where x has them in another place, or does not lie side by side, `convert` brings
 * it to where the rung can turn it. Left to smemkit, a permutation that is no turn is done by `convert` alone. */
static void plan_transpose(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *as = &call->as[0], *made = &call->made;

    call->dtype[0] = call->in[0].dtype;
    if (call->kernel.row->ceiling)
        view = call->in[0].layout;
    view.ndim = merge_dimensions(view.ndim, view.shape, view.strides, made->strides);
    made->ndim = view.ndim;
    memcpy(made->shape, view.shape, sizeof made->shape);
    *as = view;
    if (call->kernel.row->ceiling)
        return;
    if (view.ndim > 1) { /* the last two exchanged, for the rung to exchange them again */
        const int last = view.ndim - 1;

        as->shape[last] = view.shape[last - 1];
        as->shape[last - 1] = view.shape[last];
        as->strides[last] = view.strides[last - 1];
        as->strides[last - 1] = view.strides[last];
    }
    if (!call->kernel.chosen || (view.ndim > 1 && layout_is_contiguous(as, element)))
        return;
    *as = view;
    call->as_it_lies = !layout_is_contiguous(as, element);
    call->kernel.row = find_row(OP_transpose, "copy");
}

static bool run_transpose(struct call *part, void *unused)
{
    const struct layout *as = &part->as[0];
    struct transpose_args args = {.x = part->memory[0],
                                  .out = part->out_memory,
                                  .batches = 1,
                                  .rows = 1,
                                  .columns = layout_size(as),
                                  .element_size = dtype_bytes(part->in[0].dtype),
                                  .tile = part->kernel.size,
                                  .pad = part->kernel.pad};

    if (as->ndim > 1 && !part->kernel.row->ceiling) {
        args.rows = as->shape[as->ndim - 2];
        args.columns = as->shape[as->ndim - 1];
        args.batches = layout_size(as) / (args.rows * args.columns);
    }
    (void)unused;
    return call_launch(part, part->kernel.row, &args);
}

enum { T_X, T_AXES, T_KERNEL, T_TILE, T_PAD, T_OUT, T_DEVICE, T_STREAM };

static PyObject *transpose(const struct module_state *state, PyObject *const *args, struct plan_note *note)
{
    const bool own_out = args[T_OUT] != Py_None;
    struct call call = {.inputs = 1, .bytes_only = true, .note = note};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    int axes[NPY_MAXDIMS];

    if (!read_operand(state, args[T_X], "x", args[T_STREAM], &call.in[0]) ||
        !read_axes(args[T_AXES], layout->ndim, axes) ||
        !read_device(state, args[T_DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[T_KERNEL], "tile", args[T_TILE], args[T_PAD], args[T_DEVICE],
                     call_is_host(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(state, args[T_STREAM], call.device, &call.stream))
        return call_refused(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->ceiling ? i : axes[i]];
    if (!call_out(state, &call, args[T_OUT], call.in[0].dtype, layout->ndim, shape, args[T_STREAM]))
        return call_refused(&call);

    if (call.out.size) {
        plan_transpose(&call, axes);
        cut_transpose(&call);
    }
    return call_run(state, &call, call.as_it_lies ? NULL : run_transpose, NULL, own_out);
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct plan_note note = {.launches = 0};
    PyObject *result;

    if (!read_count("transpose", count, T_STREAM + 1))
        return NULL;
    const bool plain =
        args[T_OUT] != Py_None && are_none(args, T_AXES, T_PAD) && are_none(args, T_DEVICE, T_STREAM);
    PyObject *const operands[] = {args[T_X], args[T_OUT]};
    if (plain && plan_run(state, OP_transpose, operands, 2, &result))
        return result;
    result = transpose(state, args, plain ? &note : NULL);
    if (plain && result)
        plan_keep(state, OP_transpose, operands, 2, &note, 0, result);
    return result;
}
