/* The reductions (sum, min, var, argmax, ...) over any axes. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/lookup.h"
#include "array/operand.h"
#include "array/stream.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/launch_cache.h"
#include "call/operands.h"
#include "kernels.h"
#include "ops/ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "python/layout.h"
#include "reduce.h"

/* The arguments of core_reduce, in order. */
struct reduce_arguments {
    PyObject *x, *op, *axis, *dtype, *keepdims, *initial, *ddof, *kernel, *block_size, *out, *device, *stream;
};

static bool read_reduced_axes(struct call *call, const struct reduce_arguments *args, struct reduction *reduction)
{
    const enum reduce_op op = reduction->args.op;
    const bool is_arg = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool is_moment = op == REDUCE_MEAN || op == REDUCE_VAR || op == REDUCE_STD;
    const struct layout *layout = &call->in[0].layout;
    const bool *reduced = reduction->reduced;

    if (!read_axis(args->axis, layout->ndim, !is_arg, !is_moment, reduction->reduced) ||
        !read_flag(args->keepdims, "keepdims", &reduction->keepdims))
        return false;
    use_native_layout(call, 0);
    reduction->extent.n = 1;
    for (int i = 0; i < layout->ndim; i++) {
        if (reduced[i])
            reduction->extent.n *= layout->shape[i];
        if (!reduced[i] || reduction->keepdims)
            reduction->shape[reduction->ndim++] = reduced[i] ? 1 : layout->shape[i];
    }
    return true;
}

static bool read_reduce_initial(PyObject *object, struct reduction *reduction)
{
    struct reduce_args *args = &reduction->args;

    if (object == Py_None) {
        /* a sum starts with 0, so that a row of -0 gives 0 */
        args->has_initial =
            (args->op == REDUCE_SUM || args->op == REDUCE_MEAN) && args->accumulator & (FLOATING | COMPLEX);
        return true;
    }
    if (!reduction->accepts_initial)
        return read_none(object, "initial", reduction->op);
    reduction->initial = read_initial(object, args->result, &args->initial);
    args->has_initial = true;
    return reduction->initial != NULL;
}

static bool read_op(PyObject *object, struct reduction *reduction)
{
    const enum reduce_op *op = &reduction->args.op;

    if (!read_reduce_op(object, &reduction->args.op))
        return false;
    reduction->op = PyUnicode_AsUTF8(object);
    reduction->accepts_initial = *op == REDUCE_SUM || *op == REDUCE_PROD || *op == REDUCE_MIN || *op == REDUCE_MAX;
    return reduction->op != NULL;
}

static bool read_ddof(PyObject *object, struct reduction *reduction)
{
    struct reduce_args *args = &reduction->args;

    if (!read_double(object, "ddof", &args->ddof))
        return false;
    if (args->ddof == 0 || args->op == REDUCE_VAR || args->op == REDUCE_STD)
        return true;
    PyErr_Format(PyExc_TypeError, "ddof: '%s' takes none, expected 0, got %R", reduction->op, object);
    return false;
}

static bool read_reduce_dtypes(const struct module_state *state, struct call *call,
                               const struct reduce_arguments *args, struct reduction *reduction)
{
    PyArray_Descr *out = get_out_descr(state, args->out);

    reduction->args.has_initial = args->initial != Py_None;
    const bool ok =
        !PyErr_Occurred() && choose_reduce_dtypes(call, reduction->op, args->dtype, out, &reduction->args);

    Py_XDECREF(out);
    return ok;
}

static bool read_reduction(const struct module_state *state, const struct reduce_arguments *args,
                           struct call *call, struct reduction *reduction)
{
    return read_operand(state, args->x, "x", args->stream, &call->in[0]) && read_op(args->op, reduction) &&
           read_reduced_axes(call, args, reduction) && read_ddof(args->ddof, reduction) &&
           read_device(state, args->device, call->in, 1, &call->device) &&
           read_kernel(OP_reduce, args->kernel, "block_size", args->block_size, Py_None, args->device,
                       call_has_host_operands(call), &call->device, &call->kernel) &&
           read_reduce_dtypes(state, call, args, reduction) && read_reduce_initial(args->initial, reduction) &&
           check_reduce_kernel(call, reduction, args->axis) &&
           read_stream(state, args->stream, call->device, &call->stream);
}

/* The reduction of no elements. NULL with an exception if it is undefined. */
static PyObject *reduce_empty(const struct reduction *reduction)
{
    if (reduction->initial)
        return Py_NewRef((PyObject *)reduction->initial);
    switch (reduction->args.op) {
    case REDUCE_SUM:
    case REDUCE_ANY:
    case REDUCE_COUNT_NONZERO:
        return PyLong_FromLong(0);
    case REDUCE_PROD:
    case REDUCE_ALL:
        return PyLong_FromLong(1);
    case REDUCE_MEAN:
        if (!warn(PyExc_RuntimeWarning, "Mean of empty slice."))
            return NULL;
        /* fall through */
    case REDUCE_VAR:
    case REDUCE_STD: /* the warning about degrees of freedom has been raised */
        return reduction->args.result & COMPLEX && reduction->args.op == REDUCE_MEAN
                   ? PyComplex_FromDoubles(NAN, NAN)
                   : PyFloat_FromDouble(NAN);
    default:
        return PyErr_Format(PyExc_ValueError, "x: expected at least one element for '%s', got none",
                            reduction->op);
    }
}

/* argmin and argmax give indices, which only integers hold. */
static bool check_index_dtype(const struct call *call, const struct reduce_args *args)
{
    if ((args->op != REDUCE_ARGMIN && args->op != REDUCE_ARGMAX) || call->out.dtype & SIGNED)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected dtype int64 or one that it can be cast to, got %S",
                 call->out.descr);
    return false;
}

static bool warn_degrees_of_freedom(const struct reduction *reduction)
{
    const bool variance = reduction->args.op == REDUCE_VAR || reduction->args.op == REDUCE_STD;

    return !variance || !((double)reduction->extent.n <= reduction->args.ddof) || /* also false if ddof is NaN */
           warn(PyExc_RuntimeWarning, "Degrees of freedom <= 0 for slice.");
}

/* A single number that is made on a GPU by one store goes to memory that the host can read. */
static bool read_reduce_out(const struct module_state *state, struct call *call,
                            const struct reduce_arguments *args, const struct reduction *reduction)
{
    const enum dtype result = reduction->args.result;
    const bool single_number = args->out == Py_None && !call_has_host_operands(call) && call->kernel.automatic &&
                               !call->stream && !(result & COMPLEX) && !stream_is_entered();
    PyArray_Descr *descr = NULL;
    struct array *array = NULL;
    bool ok;

    for (int i = 0; single_number && i < reduction->ndim; i++)
        if (reduction->shape[i] != 1)
            return call_read_out(state, call, Py_None, result, reduction->ndim, reduction->shape, args->stream);
    if (!single_number)
        return call_read_out(state, call, args->out, result, reduction->ndim, reduction->shape, args->stream);
    descr = dtype_descr_as(result, call->type_num);
    array = descr ? array_new_in_result_slot(state, call->device, descr, reduction->ndim, reduction->shape) : NULL;
    ok = array &&
         call_read_out(state, call, (PyObject *)array, result, reduction->ndim, reduction->shape, args->stream);
    if (ok && array->result != NO_RESULT_SLOT)
        array->result = reduction->extent.n ? RESULT_PENDING : RESULT_NEEDS_SYNC;
    Py_XDECREF(array);
    Py_XDECREF(descr);
    return ok;
}

static PyObject *reduce(const struct module_state *state, const struct reduce_arguments *args,
                        struct launch_record *record, size_t *scratch_bytes)
{
    struct call call = {.inputs = 1, .record = record};
    struct reduction reduction = {0};
    struct reduce_args *reduce_args = &reduction.args;
    PyObject *result = NULL, *value = NULL;
    bool out_given;

    out_given = args->out != Py_None;
    if (!read_reduction(state, args, &call, &reduction) || !warn_degrees_of_freedom(&reduction) ||
        !read_reduce_out(state, &call, args, &reduction) || !check_index_dtype(&call, reduce_args)) {
        call_fail(&call);
    } else if (reduction.extent.n == 0) {
        value = reduce_empty(&reduction);
        result = call_run_fill(state, &call, value, out_given);
    } else {
        if (call.out.size) {
            reduction.gpu = reduce_target(call_target(&call));
            view_as_outer_n_inner(&call, &reduction);
            choose_kernel(&call, &reduction.gpu, &reduction.extent, reduce_args);
            call.accepts_layout = call.kernel.row->traits & WORK_SPLIT ? accepts_part_layout : NULL;
            call.accepts_context = &reduction;
            partition_reduce(&call, &reduction);
            call_cancel_slow_partition(&call);
            set_scratch_bytes(&call, &reduction);
        }
        *scratch_bytes = call.scratch_bytes;
        result = call_run(state, &call, launch_reduce_part, &reduction, out_given);
    }
    Py_XDECREF(value);
    Py_XDECREF(reduction.initial);
    return result;
}

/* The options as part of the launch cache's key; 0 if such calls are not cached. */
static unsigned encode_reduce_options(const struct reduce_arguments *args)
{
    int overflow = 0;
    enum reduce_op op;
    long axis = -128, ddof;

    if (args->dtype != Py_None || args->keepdims != Py_False || args->kernel != Py_None ||
        args->block_size != Py_None || args->initial != Py_None || args->device != Py_None ||
        args->stream != Py_None || !PyUnicode_CheckExact(args->op) || !PyLong_CheckExact(args->ddof))
        return 0;
    ddof = PyLong_AsLongAndOverflow(args->ddof, &overflow);
    if (args->axis != Py_None) {
        if (!PyLong_CheckExact(args->axis) || overflow)
            return 0;
        axis = PyLong_AsLongAndOverflow(args->axis, &overflow);
        if (axis < -64 || axis > 63)
            return 0;
    }
    if (overflow || ddof || !find_reduce_op(args->op, &op))
        return 0;
    return OP_reduce | (unsigned)(op + 1) << 4 | (unsigned)(axis + 128) << 8;
}

static PyObject *cached_reduce(const struct module_state *state, const struct reduce_arguments *args)
{
    const unsigned options = encode_reduce_options(args);
    PyObject *const operands[] = {args->x, args->out == Py_None ? NULL : args->out};
    struct launch_record record = {.launches = 0};
    size_t scratch_bytes = 0;
    PyObject *result;

    if (options && launch_cache_run(state, options, operands, 2, &result))
        return result;
    result = reduce(state, args, options ? &record : NULL, &scratch_bytes);
    if (options && result)
        launch_cache_store(state, options, operands, 2, &record, scratch_bytes, result);
    return result;
}

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct reduce_arguments arguments;

    if (!read_count("reduce", count, sizeof arguments / sizeof(PyObject *)))
        return NULL;
    memcpy(&arguments, args, sizeof arguments);
    return cached_reduce(state_of(module), &arguments);
}

int any_element(const struct module_state *state, PyObject *x)
{
    PyObject *op = PyUnicode_FromString("any"), *ddof = op ? PyLong_FromLong(0) : NULL, *found = NULL;
    int result = -1;

    if (ddof) {
        const struct reduce_arguments arguments = {.x = x,
                                                   .op = op,
                                                   .axis = Py_None,
                                                   .dtype = Py_None,
                                                   .keepdims = Py_False,
                                                   .initial = Py_None,
                                                   .ddof = ddof,
                                                   .kernel = Py_None,
                                                   .block_size = Py_None,
                                                   .out = Py_None,
                                                   .device = Py_None,
                                                   .stream = Py_None};

        found = cached_reduce(state, &arguments);
    }
    if (found)
        result = PyObject_IsTrue(found);
    Py_XDECREF(found);
    Py_XDECREF(ddof);
    Py_XDECREF(op);
    return result;
}
