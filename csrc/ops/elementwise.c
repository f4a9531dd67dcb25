/* The operations that visit each element once: reverse, add_one, convert, and the operators add and compare. */
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

/* Broadcasts both operands to their common shape. -1 with an exception. */
static int broadcast_both(struct call *call, npy_intp *shape)
{
    const struct layout *const layouts[2] = {&call->in[0].layout, &call->in[1].layout};
    const int ndim = layouts[0]->ndim > layouts[1]->ndim ? layouts[0]->ndim : layouts[1]->ndim;

    for (int d = 0; d < ndim; d++) {
        npy_intp lengths[2];

        for (int i = 0; i < 2; i++) {
            const int axis = d - (ndim - layouts[i]->ndim);

            lengths[i] = axis < 0 ? 1 : layouts[i]->shape[axis];
            call->in_view[i].strides[d] = lengths[i] == 1 ? 0 : layouts[i]->strides[axis];
        }
        if (lengths[0] != lengths[1] && lengths[0] != 1 && lengths[1] != 1) {
            refuse_shapes(&call->in[0], &call->in[1], "shapes that can be broadcast");
            return -1;
        }
        shape[d] = lengths[0] == 1 ? lengths[1] : lengths[0];
        call->in_view[0].shape[d] = call->in_view[1].shape[d] = shape[d];
    }
    return call->in_view[0].ndim = call->in_view[1].ndim = ndim;
}

/* An operation on two arrays, element by element. */
struct binary {
    enum op op;
    bool (*set_dtypes)(struct call *); /* of the operands and of the result */
    call_launcher launch;
    enum comparison comparison;
};

static PyObject *run_binary(const struct module_state *state, const struct binary *binary, PyObject *x1,
                            PyObject *x2, PyObject *out, PyObject *device, PyObject *stream)
{
    enum comparison comparison = binary->comparison;
    struct call call = {.inputs = 2};
    npy_intp shape[NPY_MAXDIMS];
    int ndim;

    if (!read_operand(state, x1, "x1", stream, &call.in[0]) ||
        !read_operand(state, x2, "x2", stream, &call.in[1]) ||
        !read_device(state, device, call.in, 2, &call.device) || !binary->set_dtypes(&call) ||
        (ndim = broadcast_both(&call, shape)) < 0 ||
        !read_kernel(binary->op, Py_None, "size", Py_None, Py_None, device, call_has_host_operands(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, stream, call.device, &call.stream) ||
        !call_read_out(state, &call, out, call.result, ndim, shape, stream))
        return call_fail(&call);

    return call_run(state, &call, binary->launch, &comparison, out != Py_None);
}

static PyObject *core_binary(PyObject *module, const struct binary *binary, PyObject *const *args,
                             Py_ssize_t count)
{
    return read_count(op_names[binary->op], count, 5)
               ? run_binary(state_of(module), binary, args[0], args[1], args[2], args[3], args[4])
               : NULL;
}

static bool launch_add_part(struct part *part, void *unused)
{
    struct add_args args = {.a = part->buffers.operands[0],
                            .b = part->buffers.operands[1],
                            .out = part->buffers.out,
                            .n = layout_size(&part->in_view[0]),
                            .dtype = part->call->result};

    (void)unused;
    return part_launch(part, part->call->kernel.row, &args);
}

static bool set_add_dtypes(struct call *call)
{
    const bool ok = read_common_dtype(call, Py_None, &call->result);

    call->dtype[0] = call->dtype[1] = call->result;
    return ok;
}

static bool launch_compare_part(struct part *part, void *comparison)
{
    struct compare_args args = {.a = part->buffers.operands[0],
                                .b = part->buffers.operands[1],
                                .out = part->buffers.out,
                                .n = layout_size(&part->in_view[0]),
                                .dtype = {part->call->dtype[0], part->call->dtype[1]},
                                .comparison = *(const enum comparison *)comparison};

    return part_launch(part, part->call->kernel.row, &args);
}

/* The operands' promoted dtype by NumPy's rules, except for signed integers with uint64: float64 would round. */
static bool set_compare_dtypes(struct call *call)
{
    const unsigned both = call->in[0].dtype | call->in[1].dtype;
    enum dtype common = 0;
    const bool integers = both & UINT64 && both & SIGNED && !(both & ~(SIGNED | UINT64));
    const bool ok = integers || read_common_dtype(call, Py_None, &common);

    for (int i = 0; i < 2; i++)
        call->dtype[i] = !integers ? common : call->in[i].dtype == UINT64 ? UINT64 : INT64;
    call->result = BOOL;
    return ok;
}

static const struct binary add = {OP_add, set_add_dtypes, launch_add_part, 0},
                           equal = {OP_compare, set_compare_dtypes, launch_compare_part, COMPARE_EQUAL},
                           not_equal = {OP_compare, set_compare_dtypes, launch_compare_part, COMPARE_NOT_EQUAL};

PyObject *core_add(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return core_binary(module, &add, args, count);
}

PyObject *core_equal(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return core_binary(module, &equal, args, count);
}

PyObject *core_not_equal(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return core_binary(module, &not_equal, args, count);
}

PyObject *add_into(const struct module_state *state, PyObject *x1, PyObject *x2, PyObject *out)
{
    return run_binary(state, &add, x1, x2, out, Py_None, Py_None);
}

PyObject *equal_into(const struct module_state *state, PyObject *x1, PyObject *x2, PyObject *out)
{
    return run_binary(state, &equal, x1, x2, out, Py_None, Py_None);
}

PyObject *not_equal_into(const struct module_state *state, PyObject *x1, PyObject *x2, PyObject *out)
{
    return run_binary(state, &not_equal, x1, x2, out, Py_None, Py_None);
}
