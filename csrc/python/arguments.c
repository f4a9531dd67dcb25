/* Readers of plain arguments. A message names the argument, what was expected, and what was passed. */
#include "python/state.h"

#include <string.h>

#include "arguments.h"
#include "dtypes.h"
#include "kernels.h"

PyObject *shape_tuple(int ndim, const npy_intp *shape)
{
    PyObject *tuple = PyTuple_New(ndim);

    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *length = PyLong_FromSsize_t(shape[i]);

        if (!length)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, length);
    }
    return tuple;
}

bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected)
{
    if (count == expected)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, got %zd", function, expected, count);
    return false;
}

void refuse_dtype(const char *name, unsigned allowed, PyObject *actual)
{
    PyObject *list = dtype_list(allowed);

    if (list)
        PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got %S", name, list, actual);
    Py_XDECREF(list);
}

bool add_argument_name(const char *name)
{
    PyObject *const kinds[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError, PyExc_BufferError};
    PyObject *type, *value, *traceback;

    for (int i = 0; i < 4; i++) {
        if (!PyErr_ExceptionMatches(kinds[i]))
            continue;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        PyErr_Format(kinds[i], "%s: %S", name, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        break;
    }
    return false;
}

/* numpy.dtype("bfloat16") requires that ml_dtypes has been imported. */
static bool read_descr(PyObject *object, PyArray_Descr **descr)
{
    if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "bfloat16") == 0) {
        *descr = dtype_descr(BFLOAT16);
        return *descr != NULL;
    }
    return PyArray_DescrConverter(object, descr) || add_argument_name("dtype");
}

bool read_dtype(PyObject *object, unsigned allowed, enum dtype *dtype, int *type_num)
{
    PyArray_Descr *descr = NULL;
    enum dtype asked;

    if (object == Py_None)
        return true;
    if (!read_descr(object, &descr))
        return false;
    asked = PyArray_ISNBO(descr->byteorder) ? dtype_of(descr) : 0;
    if (asked & allowed) {
        *dtype = asked;
        *type_num = descr->type_num;
    } else {
        refuse_dtype("dtype", allowed, (PyObject *)descr);
    }
    Py_DECREF(descr);
    return !PyErr_Occurred();
}

static void refuse_axis(const char *name, PyObject *axis, int ndim)
{
    PyObject *module = PyImport_ImportModule("numpy.exceptions"), *type, *error;

    type = module ? PyObject_GetAttrString(module, "AxisError") : NULL;
    error = type ? PyObject_CallFunction(type, "Ois", axis, ndim, name) : NULL;
    if (error)
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    Py_XDECREF(type);
    Py_XDECREF(module);
}

/* A normalised axis in [0, limit). -1 with an exception. */
static int read_single_axis(PyObject *object, const char *name, int ndim, int limit)
{
    Py_ssize_t axis;

    if (PyBool_Check(object) || !PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected an integer, got %R", name, object);
        return -1;
    }
    axis = PyNumber_AsSsize_t(object, NULL); /* clamps huge values */
    if (axis == -1 && PyErr_Occurred()) {
        add_argument_name(name);
        return -1;
    }
    if (axis < -limit || axis >= limit) {
        refuse_axis(name, object, ndim);
        return -1;
    }
    return (int)(axis < 0 ? axis + limit : axis);
}

static bool mark_axis_seen(const char *name, PyObject *axes, bool *seen, int axis)
{
    if (seen[axis]) {
        PyErr_Format(PyExc_ValueError, "%s: expected each axis once, got %R", name, axes);
        return false;
    }
    return seen[axis] = true;
}

bool read_axis(PyObject *object, int ndim, bool tuples, bool scalars, bool *reduced)
{
    const bool single = !PyTuple_Check(object);
    const int limit = ndim == 0 && single && scalars ? 1 : ndim;

    memset(reduced, object == Py_None, NPY_MAXDIMS * sizeof *reduced);
    if (object == Py_None)
        return true;
    if (!single && !tuples) {
        PyErr_Format(PyExc_TypeError, "axis: expected None or an integer, got %R", object);
        return false;
    }
    for (Py_ssize_t i = 0; i < (single ? 1 : PyTuple_GET_SIZE(object)); i++) {
        int axis = read_single_axis(single ? object : PyTuple_GET_ITEM(object, i), "axis", ndim, limit);

        if (axis < 0 || !mark_axis_seen("axis", object, reduced, axis))
            return false;
    }
    return true;
}

bool read_axes(PyObject *object, int ndim, int *axes)
{
    bool seen[NPY_MAXDIMS] = {false}, ok;
    PyObject *tuple;

    for (int i = 0; i < ndim; i++)
        axes[i] = ndim - 1 - i;
    if (object == Py_None)
        return true;
    tuple = PySequence_Tuple(object);
    if (!tuple && PyIndex_Check(object) && PyErr_ExceptionMatches(PyExc_TypeError)) { /* a single axis */
        PyErr_Clear();
        tuple = PyTuple_Pack(1, object);
    }
    if (!tuple)
        return add_argument_name("axes");
    ok = PyTuple_GET_SIZE(tuple) == ndim;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "axes: expected %d axes, one for each dimension, got %R", ndim, object);
    for (int i = 0; ok && i < ndim; i++) {
        axes[i] = read_single_axis(PyTuple_GET_ITEM(tuple, i), "axes", ndim, ndim);
        ok = axes[i] >= 0 && mark_axis_seen("axes", object, seen, axes[i]);
    }
    Py_DECREF(tuple);
    return ok;
}

bool read_flag(PyObject *object, const char *name, bool *flag)
{
    int truth = PyIndex_Check(object) || PyArray_IsScalar(object, Bool) ? PyObject_IsTrue(object) : -1;

    *flag = truth > 0;
    if (truth >= 0)
        return true;
    if (PyErr_Occurred())
        return add_argument_name(name);
    PyErr_Format(PyExc_TypeError, "%s: expected True or False, got %R", name, object);
    return false;
}

bool read_double(PyObject *object, const char *name, double *value)
{
    *value = PyFloat_AsDouble(object);
    if (*value != -1 || !PyErr_Occurred())
        return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: expected a number, got %R", name, object);
        return false;
    }
    return add_argument_name(name);
}

PyArrayObject *read_initial(PyObject *object, enum dtype dtype, struct scalar *scalar)
{
    const bool integer = dtype & (BOOL | SIGNED | UNSIGNED);
    PyArray_Descr *descr = dtype_descr(dtype);
    PyArrayObject *initial = descr ? (PyArrayObject *)PyArray_Zeros(0, NULL, descr, 0) : NULL, *wide = NULL;
    PyObject *empty_index = initial ? PyTuple_New(0) : NULL;

    /* like NumPy, converts `initial` by assignment, which raises if the dtype cannot hold it */
    if (empty_index && PyObject_SetItem((PyObject *)initial, empty_index, object) == 0)
        wide = (PyArrayObject *)PyArray_Cast(initial, !integer           ? NPY_COMPLEX128
                                                      : dtype & UNSIGNED ? NPY_UINT64
                                                                         : NPY_INT64);
    Py_XDECREF(empty_index);
    if (!wide) {
        add_argument_name("initial");
        Py_XDECREF(initial);
        return NULL;
    }
    if (integer)
        scalar->bits = *(uint64_t *)PyArray_DATA(wide);
    else
        memcpy(&scalar->re, PyArray_DATA(wide), 2 * sizeof(double)); /* and im */
    Py_DECREF(wide);
    return initial;
}

bool read_none(PyObject *object, const char *name, const char *op)
{
    if (object == Py_None)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: '%s' takes none, expected None, got %R", name, op, object);
    return false;
}

bool read_one_of(PyObject *object, const char *name, const int *values, const char *expected, int *value)
{
    const bool is_integer = PyIndex_Check(object) && !PyBool_Check(object);
    Py_ssize_t number = 0;

    if (is_integer && (number = PyNumber_AsSsize_t(object, NULL)) == -1 && PyErr_Occurred())
        return false;
    for (; *values; values++)
        if (number == *values)
            break;
    *value = *values;
    if (!*values)
        PyErr_Format(is_integer ? PyExc_ValueError : PyExc_TypeError, "%s: expected %s, got %R", name, expected,
                     object);
    return *values != 0;
}
