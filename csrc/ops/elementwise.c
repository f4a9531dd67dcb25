/* The arithmetic and the comparisons of Arrays, element by element, with NumPy's broadcasting and dtypes. */
#include "python/state.h"

#include <string.h>

#include "array/lookup.h"
#include "array/operand.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/operands.h"
#include "call/part.h"
#include "call/steps.h"
#include "kernels.h"
#include "ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"

static const char *const names[ELEMENTWISE_FUNCTIONS] = {"add",        "subtract", "multiply",     "divide",
                                                         "negative",   "equal",    "not_equal",    "less",
                                                         "less_equal", "greater",  "greater_equal"};

bool find_elementwise(PyObject *name, enum elementwise_function *function)
{
    for (int i = 0; i < ELEMENTWISE_FUNCTIONS; i++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            *function = (enum elementwise_function)i;
            return true;
        }
    }
    return false;
}

/* A call: where its operands are, and how large their elements are. */
struct elementwise {
    enum elementwise_function function;
    int input[2];                           /* of x[0] and x[1] in the call; -1: the number, or none */
    PyArrayObject *number;                  /* NULL: none */
    unsigned char bytes[MAX_ELEMENT_BYTES]; /* of the number, in the kernel's dtype */
    int element_bytes;
    enum dtype dtype[2]; /* the kernel's */
};

static bool read_inputs(const struct module_state *state, struct elementwise *elementwise, PyObject *const x[2],
                        PyObject *stream, struct call *call)
{
    static const char *const arguments[2] = {"x1", "x2"};

    for (int i = 0; i < 2; i++) {
        elementwise->input[i] = x[i] ? call->inputs++ : -1;
        if (x[i] && !read_operand(state, x[i], arguments[i], stream, &call->in[elementwise->input[i]]))
            return false;
    }
    return true;
}

static PyArray_Descr *descr_of(const struct elementwise *elementwise, const struct call *call, int i)
{
    const int input = elementwise->input[i];

    return input >= 0 ? call->in[input].descr : elementwise->number ? PyArray_DESCR(elementwise->number) : NULL;
}

/* ---- dtypes ---- */

static bool refuse_bool(enum elementwise_function function)
{
    PyErr_Format(PyExc_TypeError, "%s: expected a dtype other than bool; != is XOR of two arrays",
                 names[function]);
    return false;
}

/* The promoted dtype by NumPy's rules. Quotients of integers are float64. */
static bool promote(const struct elementwise *elementwise, struct call *call, enum dtype *dtype)
{
    PyArray_Descr *a = descr_of(elementwise, call, 0), *b = descr_of(elementwise, call, 1);
    const enum elementwise_function function = elementwise->function;

    *dtype = dtype_promoted(a, b ? b : a, &call->type_num);
    if (!*dtype) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%S and %S have no common dtype", a, b);
        return add_argument_name("x1, x2");
    }
    if (*dtype == BOOL && (function == ELEMENTWISE_SUBTRACT || function == ELEMENTWISE_NEGATE))
        return refuse_bool(function);
    if (function == ELEMENTWISE_DIVIDE && !(*dtype & (FLOATING | COMPLEX))) {
        *dtype = FLOAT64;
        call->type_num = NPY_FLOAT64;
    }
    return true;
}

/* Signed integers are compared with uint64 as they are: float64, to which they promote, would round. */
static bool compares_exactly(const enum dtype dtype[2])
{
    const unsigned both = dtype[0] | dtype[1];

    return both & UINT64 && both & SIGNED && !(both & ~(SIGNED | UINT64));
}

static bool choose_dtypes(struct elementwise *elementwise, struct call *call)
{
    const bool compares = elementwise->function >= ELEMENTWISE_EQUAL;
    enum dtype given[2], common = 0;

    for (int i = 0; i < 2; i++) {
        PyArray_Descr *descr = descr_of(elementwise, call, i);

        given[i] = descr ? dtype_of(descr) : given[0];
    }
    const bool exactly = compares && compares_exactly(given);

    if (!exactly && !promote(elementwise, call, &common))
        return false;
    for (int i = 0; i < 2; i++) {
        elementwise->dtype[i] = !exactly ? common : given[i] == UINT64 ? UINT64 : INT64;
        if (elementwise->input[i] >= 0)
            call->dtype[elementwise->input[i]] = elementwise->dtype[i];
    }
    elementwise->element_bytes = dtype_bytes(elementwise->dtype[0]);
    call->result = compares ? BOOL : common;
    return true;
}

/* Converts the number to the dtype in which the kernel reads it. */
static bool convert_number(struct elementwise *elementwise)
{
    const enum dtype dtype = elementwise->dtype[elementwise->input[0] < 0 ? 0 : 1];
    PyArray_Descr *descr;
    PyArrayObject *cast;

    if (!elementwise->number)
        return true;
    descr = dtype_descr(dtype);
    cast = descr ? (PyArrayObject *)PyArray_CastToType(elementwise->number, descr, 0) : NULL;
    if (cast)
        memcpy(elementwise->bytes, PyArray_DATA(cast), (size_t)dtype_bytes(dtype));
    Py_XDECREF(cast);
    return cast != NULL;
}

/* ---- shapes ---- */

/* Broadcasts two operands to their common shape. */
static bool broadcast_both(struct call *call)
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
        if (lengths[0] != lengths[1] && lengths[0] != 1 && lengths[1] != 1)
            return refuse_shapes(&call->in[0], &call->in[1], "shapes that can be broadcast");
        call->in_view[0].shape[d] = call->in_view[1].shape[d] = lengths[0] == 1 ? lengths[1] : lengths[0];
    }
    call->in_view[0].ndim = call->in_view[1].ndim = ndim;
    return true;
}

static bool choose_views(struct call *call)
{
    if (call->inputs == 2)
        return broadcast_both(call);
    call->in_view[0] = call->in[0].layout;
    return true;
}

static bool accepts_layout(const struct layout *layout, const void *context)
{
    return layout_strides_are_whole_elements(layout, ((const struct elementwise *)context)->element_bytes);
}

static bool same_layout(const struct layout *a, const struct layout *b)
{
    bool same = a->ndim == b->ndim;

    for (int d = 0; same && d < a->ndim; d++)
        same = a->shape[d] == b->shape[d] && (a->shape[d] == 1 || a->strides[d] == b->strides[d]);
    return same;
}

/* Whether each operand that overlaps out is out itself, so that a thread overwrites only what it has read. */
static bool may_run_in_place(const struct call *call)
{
    bool may = true;

    for (int i = 0; may && i < call->inputs; i++) {
        const struct operand *in = &call->in[i], *out = &call->out;
        const bool itself = in->data == out->data && in->dtype == out->dtype && in->dtype == call->result &&
                            same_layout(&call->in_view[i], &out->layout);

        may = itself || !operands_overlap(in, out);
    }
    return may;
}

/* ---- the launch ---- */

/* The operands' strides over as few dimensions as possible. Those that an operand without an input has are 0. */
struct strided_operands {
    struct layout shape;
    npy_intp strides[2][NPY_MAXDIMS];
};

static struct strided_operands merged_operands(const struct elementwise *elementwise, const struct layout *views)
{
    struct strided_operands operands = {.shape = views[0]};

    for (int i = 0; i < 2; i++)
        if (elementwise->input[i] >= 0)
            memcpy(operands.strides[i], views[elementwise->input[i]].strides, sizeof operands.strides[i]);
    operands.shape.ndim =
        merge_dimensions(operands.shape.ndim, operands.shape.shape, operands.strides[0], operands.strides[1]);
    return operands;
}

/* Whether the kernel reads the operands in their own layouts. Otherwise both are made contiguous first. */
static bool takes_any_strides(const struct elementwise *elementwise, const struct call *call)
{
    return !call_has_host_operands(call) &&
           merged_operands(elementwise, call->in_view).shape.ndim <= ELEMENTWISE_DIMENSIONS;
}

static bool launch_elementwise_part(struct part *part, void *context)
{
    const struct elementwise *elementwise = context;
    const struct strided_operands operands = merged_operands(elementwise, part->in_view);
    struct elementwise_args args = {.out = part->buffers.out,
                                    .n = layout_size(&part->in_view[0]),
                                    .ndim = operands.shape.ndim,
                                    .dtype = {elementwise->dtype[0], elementwise->dtype[1]},
                                    .function = elementwise->function};
    const void **const addresses[2] = {&args.a, &args.b};

    memcpy(args.number, elementwise->bytes, sizeof args.number);
    for (int d = 0; d < args.ndim; d++)
        args.shape[d] = operands.shape.shape[d];
    for (int i = 0; i < 2; i++) {
        if (elementwise->input[i] >= 0)
            *addresses[i] = part->buffers.operands[elementwise->input[i]];
        for (int d = 0; d < args.ndim; d++)
            args.strides[i][d] = operands.strides[i][d];
    }
    return part_launch(part, part->call->kernel.row, &args);
}

static PyObject *run(const struct module_state *state, struct elementwise *elementwise, PyObject *const x[2],
                     PyObject *out, PyObject *device, PyObject *stream)
{
    struct call call = {.inputs = 0, .accepts_context = elementwise};

    if (!read_inputs(state, elementwise, x, stream, &call) ||
        !read_device(state, device, call.in, call.inputs, &call.device) || !choose_dtypes(elementwise, &call) ||
        !convert_number(elementwise) || !choose_views(&call) ||
        !read_kernel(OP_elementwise, Py_None, "size", Py_None, Py_None, device, call_has_host_operands(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, stream, call.device, &call.stream) ||
        !call_read_out(state, &call, out, call.result, call.in_view[0].ndim, call.in_view[0].shape, stream))
        return call_fail(&call);

    call.accepts_layout = takes_any_strides(elementwise, &call) ? accepts_layout : NULL;
    call.in_place = may_run_in_place(&call);
    return call_run(state, &call, launch_elementwise_part, elementwise, out != Py_None);
}

PyObject *elementwise_into(const struct module_state *state, enum elementwise_function function,
                           PyObject *const x[2], PyArrayObject *number, PyObject *out)
{
    struct elementwise elementwise = {.function = function, .number = number};

    return run(state, &elementwise, x, out, Py_None, Py_None);
}

PyObject *core_elementwise(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { FUNCTION, X1, X2, OUT, DEVICE, STREAM, ARGUMENTS };
    struct elementwise elementwise = {.number = NULL};

    if (!read_count("elementwise", count, ARGUMENTS))
        return NULL;
    if (!find_elementwise(args[FUNCTION], &elementwise.function))
        return PyErr_Format(PyExc_ValueError, "function: expected a ufunc's name such as 'add', got %R",
                            args[FUNCTION]);
    PyObject *const x[2] = {args[X1], elementwise.function == ELEMENTWISE_NEGATE ? NULL : args[X2]};

    return run(state_of(module), &elementwise, x, args[OUT], args[DEVICE], args[STREAM]);
}
