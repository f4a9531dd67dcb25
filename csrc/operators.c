/* The operators of an Array: + and @, whose other side is an Array too, or for + a number. NumPy's arrays are
 * refused: which side would be copied, and to where, is for the caller to say. */
#include "smemkit.h"

/* What a Python number becomes beside an array, by NumPy 2's rules: the array's dtype, if that can hold its kind.
 * For bfloat16 too, where NumPy would widen. */
static enum dtype beside(enum dtype dtype, PyObject *number)
{
    const bool integral = dtype & (BOOL | SIGNED | UNSIGNED);

    if (PyComplex_Check(number) && !(dtype & COMPLEX))
        return integral || dtype == FLOAT64 ? COMPLEX128 : COMPLEX64;
    if (PyFloat_Check(number) && integral)
        return FLOAT64;
    if (PyLong_Check(number) && !PyBool_Check(number) && dtype == BOOL)
        return INT64;
    return dtype;
}

/* NumPy's scalars have a dtype of their own; NULL, without an exception, for what is no number. */
static PyArray_Descr *descr_beside(struct array *array, PyObject *object)
{
    PyArray_Descr *descr;

    if (PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
        PyComplex_CheckExact(object))
        return dtype_descr(beside(array->dtype, object));
    if (!PyArray_IsScalar(object, Generic))
        return NULL;
    descr = PyArray_DescrFromScalar(object);
    if (descr && !dtype_of(descr))
        Py_CLEAR(descr);
    return descr;
}

/* A number as an array without dimensions on the array's device. NULL, without an exception, for what is none. */
static PyObject *as_array(struct array *array, PyObject *object)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(array));
    PyArray_Descr *descr = descr_beside(array, object);
    PyObject *number = descr ? PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_FORCECAST, NULL) : NULL, *result;

    result = number ? array_from(state, array->device, number, 0) : NULL;
    Py_XDECREF(number);
    return result;
}

/* x + y into `out`, or a new array where it is None. */
static PyObject *add(PyObject *x, PyObject *y, PyObject *out)
{
    struct array *array = (struct array *)(array_check(x) ? x : y);
    PyObject *a = array_check(x) ? Py_NewRef(x) : as_array(array, x), *b = NULL, *result = NULL;

    if (a)
        b = array_check(y) ? Py_NewRef(y) : as_array(array, y);
    if (b) {
        PyObject *const args[] = {a, b, out, Py_None, Py_None};

        result = core_add(PyType_GetModule(Py_TYPE(array)), args, 5);
    } else if (!PyErr_Occurred()) {
        result = Py_NewRef(Py_NotImplemented);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

PyObject *array_add(PyObject *x, PyObject *y)
{
    return add(x, y, Py_None);
}

PyObject *array_add_to(PyObject *x, PyObject *y)
{
    return add(x, y, x);
}

static PyObject *matmul(PyObject *x, PyObject *y, PyObject *out)
{
    PyObject *precision, *result;

    if (!array_check(x) || !array_check(y))
        Py_RETURN_NOTIMPLEMENTED;
    if (!(precision = PyUnicode_InternFromString("highest")))
        return NULL;
    PyObject *const args[] = {x, y, Py_None, precision, Py_None, Py_None, out, Py_None, Py_None};

    result = core_matmul(PyType_GetModule(Py_TYPE(x)), args, 9);
    Py_DECREF(precision);
    return result;
}

PyObject *array_matmul(PyObject *x, PyObject *y)
{
    return matmul(x, y, Py_None);
}

PyObject *array_matmul_to(PyObject *x, PyObject *y)
{
    return matmul(x, y, x);
}
