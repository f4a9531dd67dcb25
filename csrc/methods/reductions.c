/* Array's methods that reduce: x.sum(axis) is smemkit.sum(x, axis). */
#include "python/state.h"

#include "methods.h"
#include "ops/ops.h"

/* The arguments of core_reduce. */
enum { X, OP, AXIS, DTYPE, KEEPDIMS, INITIAL, DDOF, KERNEL, BLOCK_SIZE, OUT, DEVICE, STREAM, ARGUMENTS };

static const char *const argument_names[ARGUMENTS] = {
    [AXIS] = "axis",    [DTYPE] = "dtype",   [KEEPDIMS] = "keepdims",     [INITIAL] = "initial",
    [DDOF] = "ddof",    [KERNEL] = "kernel", [BLOCK_SIZE] = "block_size", [OUT] = "out",
    [STREAM] = "stream"};

enum {
    ALWAYS = 1 << AXIS | 1 << KEEPDIMS | 1 << OUT | 1 << STREAM,
    LADDER = ALWAYS | 1 << INITIAL | 1 << KERNEL | 1 << BLOCK_SIZE
};

/* Puts a keyword argument where core_reduce takes it. False with an exception if the method does not have it. */
static bool place_keyword(const char *op, unsigned accepted, PyObject *name, PyObject *value, PyObject **arguments)
{
    for (int i = 0; i < ARGUMENTS; i++) {
        if (!(accepted & 1u << i) || PyUnicode_CompareWithASCIIString(name, argument_names[i]) != 0)
            continue;
        arguments[i] = value;
        return true;
    }
    PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", op, name);
    return false;
}

static bool read_arguments(const char *op, unsigned accepted, PyObject *const *args, Py_ssize_t count,
                           PyObject *names, PyObject **arguments)
{
    const Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;

    if (count > 1) {
        PyErr_Format(PyExc_TypeError, "%s: expected the axis alone by position, got %zd arguments", op, count);
        return false;
    }
    if (count == 1)
        arguments[AXIS] = args[0];
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);

        if (count == 1 && PyUnicode_CompareWithASCIIString(name, argument_names[AXIS]) == 0) {
            PyErr_Format(PyExc_TypeError, "%s: got the axis by position and by name", op);
            return false;
        }
        if (!place_keyword(op, accepted, name, args[count + i], arguments))
            return false;
    }
    return true;
}

static PyObject *reduced(const char *op, unsigned accepted, PyObject *self, PyObject *const *args,
                         Py_ssize_t count, PyObject *names)
{
    PyObject *op_name = PyUnicode_InternFromString(op), *zero = op_name ? PyLong_FromLong(0) : NULL,
             *result = NULL;
    PyObject *arguments[ARGUMENTS];

    for (int i = 0; i < ARGUMENTS; i++)
        arguments[i] = Py_None;
    arguments[X] = self;
    arguments[OP] = op_name;
    arguments[KEEPDIMS] = Py_False;
    arguments[DDOF] = zero;
    if (zero && read_arguments(op, accepted, args, count, names, arguments))
        result = core_reduce(PyType_GetModule(Py_TYPE(self)), arguments, ARGUMENTS);
    Py_XDECREF(zero);
    Py_XDECREF(op_name);
    return result;
}

#define METHOD(op, accepted)                                                                       \
    PyObject *array_##op(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) \
    {                                                                                              \
        return reduced(#op, accepted, self, args, count, names);                                   \
    }
METHOD(sum, LADDER | 1 << DTYPE)
METHOD(prod, LADDER | 1 << DTYPE)
METHOD(min, LADDER)
METHOD(max, LADDER)
METHOD(mean, ALWAYS | 1 << DTYPE)
METHOD(var, ALWAYS | 1 << DTYPE | 1 << DDOF)
METHOD(std, ALWAYS | 1 << DTYPE | 1 << DDOF)
METHOD(any, ALWAYS)
METHOD(all, ALWAYS)
METHOD(argmin, ALWAYS)
METHOD(argmax, ALWAYS)
METHOD(count_nonzero, ALWAYS)
