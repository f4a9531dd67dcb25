/* The operations of one operand that visit each element once: reverse, add_one, convert. */
#include "python/state.h"

#include "array/lookup.h"
#include "array/operand.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/operands.h"
#include "call/part.h"
#include "kernels.h"
#include "ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "python/layout.h"

static bool launch_reverse_part(struct part *part, void *unused)
{
    struct reverse_args args = {.x = part->buffers.operands[0],
                                .out = part->buffers.out,
                                .n = layout_size(&part->in_view[0]),
                                .element_size = dtype_bytes(part->call->in[0].dtype)};

    (void)unused;
    return part_launch(part, part->call->kernel.row, &args);
}

PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, KERNEL, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool out_given = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1, .bytes_only = true};

    if (!read_count("reverse", count, ARGUMENTS) ||
        !read_operand(state, args[X], "x", args[STREAM], &call.in[0]) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_reverse, args[KERNEL], "size", Py_None, Py_None, args[DEVICE],
                     call_has_host_operands(&call), &call.device, &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_read_out(state, &call, args[OUT], call.in[0].dtype, call.in[0].layout.ndim, call.in[0].layout.shape,
                       args[STREAM]))
        return call_fail(&call);

    use_native_layout(&call, 0);
    return call_run(state, &call, launch_reverse_part, NULL, out_given);
}

static bool launch_add_one_part(struct part *part, void *unused)
{
    struct add_one_args args = {.x = part->buffers.operands[0],
                                .out = part->buffers.out,
                                .n = layout_size(&part->in_view[0]),
                                .dtype = part->call->result};

    (void)unused;
    return part_launch(part, part->call->kernel.row, &args);
}

PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool out_given = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1};

    if (!read_count("add_one", count, ARGUMENTS) || !read_operand(state, args[X], "x", args[STREAM], &call.in[0]))
        return call_fail(&call);
    use_native_layout(&call, 0);
    call.type_num = call.in[0].descr->type_num;
    if (call.dtype[0] == BOOL) /* True + 1 is 2 */
        call.dtype[0] = INT64;
    if (!read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_add_one, Py_None, "size", Py_None, Py_None, args[DEVICE], call_has_host_operands(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_read_out(state, &call, args[OUT], call.dtype[0], call.in[0].layout.ndim, call.in[0].layout.shape,
                       args[STREAM]))
        return call_fail(&call);

    return call_run(state, &call, launch_add_one_part, NULL, out_given);
}

static PyObject *convert(const struct module_state *state, PyObject *x, PyObject *dtype_object, PyObject *out,
                         PyObject *device, PyObject *stream)
{
    struct call call = {.inputs = 1};
    enum dtype dtype;

    if (!read_operand(state, x, "x", stream, &call.in[0]))
        return call_fail(&call);
    use_native_layout(&call, 0);
    dtype = call.in[0].dtype;
    call.type_num = call.in[0].descr->type_num;
    if (!read_dtype(dtype_object, EVERY, &dtype, &call.type_num) || !warn_complex(call.in[0].dtype, dtype) ||
        !read_device(state, device, call.in, 1, &call.device) ||
        !read_kernel(OP_convert, Py_None, "size", Py_None, Py_None, device, call_has_host_operands(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, stream, call.device, &call.stream) ||
        !call_read_out(state, &call, out, dtype, call.in[0].layout.ndim, call.in[0].layout.shape, stream))
        return call_fail(&call);

    return call_run_convert(state, &call, out != Py_None);
}

PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return read_count("convert", count, 5) ? convert(state_of(module), args[0], args[1], args[2], args[3], args[4])
                                           : NULL;
}

PyObject *convert_to_native(const struct module_state *state, PyObject *x)
{
    return convert(state, x, Py_None, Py_None, Py_None, Py_None);
}
