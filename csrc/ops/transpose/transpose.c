/* transpose: any permutation of the axes, as a copy. A permutation is reduced to a batch of matrices to be
 * transposed, or of contiguous segments to be copied, at any strides. */
#include "python/state.h"

#include "array/array.h"
#include "array/lookup.h"
#include "array/operand.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/launch_cache.h"
#include "call/operands.h"
#include "ops/ops.h"
#include "python/arguments.h"
#include "python/layout.h"
#include "transpose.h"

enum { T_X, T_AXES, T_KERNEL, T_TILE, T_PAD, T_OUT, T_DEVICE, T_STREAM };

static PyObject *transpose(const struct module_state *state, PyObject *const *args, struct launch_record *record)
{
    const bool out_given = args[T_OUT] != Py_None;
    struct call call = {.inputs = 1,
                        .bytes_only = true,
                        .keeps_0d_array = !PyArray_IsScalar(args[T_X], Generic),
                        .record = record};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    int axes[NPY_MAXDIMS];

    if (!read_operand(state, args[T_X], "x", args[T_STREAM], &call.in[0]) ||
        !read_axes(args[T_AXES], layout->ndim, axes) ||
        !read_device(state, args[T_DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[T_KERNEL], "tile", args[T_TILE], args[T_PAD], args[T_DEVICE],
                     call_has_host_operands(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(state, args[T_STREAM], call.device, &call.stream))
        return call_fail(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->role == CEILING ? i : axes[i]];
    if (!call_read_out(state, &call, args[T_OUT], call.in[0].dtype, layout->ndim, shape, args[T_STREAM]))
        return call_fail(&call);

    if (call.out.size) {
        if (!choose_layout(&call, axes))
            return call_fail(&call);
        partition_transpose(&call);
    }
    return call_run(state, &call, run_transpose, NULL, out_given);
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct launch_record record = {.launches = 0};
    PyObject *result;

    if (!read_count("transpose", count, T_STREAM + 1))
        return NULL;
    const bool plain =
        args[T_OUT] != Py_None && all_none(args, T_AXES, T_PAD) && all_none(args, T_DEVICE, T_STREAM);
    PyObject *const operands[] = {args[T_X], args[T_OUT]};
    if (plain && launch_cache_run(state, OP_transpose, operands, 2, &result))
        return result;
    result = transpose(state, args, plain ? &record : NULL);
    if (plain && result)
        launch_cache_store(state, OP_transpose, operands, 2, &record, 0, result);
    return result;
}
