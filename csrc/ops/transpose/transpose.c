/* transpose: any permutation of the axes, as a copy. A permutation is reduced to a batch of matrices to be
 * transposed, or of contiguous segments to be copied, at any strides. */
#include "python/state.h"

#include <string.h>

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

/* The arguments of core_transpose, in order. */
struct transpose_arguments {
    PyObject *x, *axes, *kernel, *tile, *pad, *out, *device, *stream;
};

static PyObject *transpose(const struct module_state *state, const struct transpose_arguments *args,
                           struct launch_record *record)
{
    const bool out_given = args->out != Py_None;
    struct call call = {
        .inputs = 1, .bytes_only = true, .keeps_0d_array = !PyArray_IsScalar(args->x, Generic), .record = record};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    int axes[NPY_MAXDIMS];

    if (!read_operand(state, args->x, "x", args->stream, &call.in[0]) ||
        !read_axes(args->axes, layout->ndim, axes) ||
        !read_device(state, args->device, call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args->kernel, "tile", args->tile, args->pad, args->device,
                     call_has_host_operands(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(state, args->stream, call.device, &call.stream))
        return call_fail(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->role == CEILING ? i : axes[i]];
    if (!call_read_out(state, &call, args->out, call.in[0].dtype, layout->ndim, shape, args->stream))
        return call_fail(&call);

    if (call.out.size) {
        if (!load_tuned_thresholds(call.device, call.stream) || !choose_layout(&call, axes))
            return call_fail(&call);
        partition_transpose(&call);
    }
    return call_run(state, &call, run_transpose, NULL, out_given);
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct transpose_arguments arguments;
    struct launch_record record = {.launches = 0};
    PyObject *result;

    if (!read_count("transpose", count, sizeof arguments / sizeof(PyObject *)))
        return NULL;
    memcpy(&arguments, args, sizeof arguments);
    const bool plain = arguments.out != Py_None && arguments.axes == Py_None && arguments.kernel == Py_None &&
                       arguments.tile == Py_None && arguments.pad == Py_None && arguments.device == Py_None &&
                       arguments.stream == Py_None;
    PyObject *const operands[] = {arguments.x, arguments.out};
    if (plain && launch_cache_run(state, OP_transpose, operands, 2, &result))
        return result;
    result = transpose(state, &arguments, plain ? &record : NULL);
    if (plain && result)
        launch_cache_store(state, OP_transpose, operands, 2, &record, 0, result);
    return result;
}
