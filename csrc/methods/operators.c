/* The operators of an Array: +, ==, != and @. The other operand is an Array or, except for @, a number. NumPy
 * arrays are refused, because the caller has to say which operand is to be copied to where. (NumPy itself converts
 * 0-dimensional arrays to scalars on the left of == and !=.) */
#include "python/state.h"

#include "array/array.h"
#include "array/operand.h"
#include "kernels.h"
#include "methods.h"
#include "ops/ops.h"
#include "python/dtypes.h"

/* The dtype of a Python number combined with an array, by NumPy 2's rules: the array's dtype if it can hold the
 * number's kind. Also for bfloat16, where NumPy would widen. */
static enum dtype dtype_with_number(enum dtype dtype, PyObject *number)
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

/* The dtype of a scalar; NumPy scalars have their own. NULL without an exception if it is not a number. */
static PyArray_Descr *scalar_descr(struct array *array, PyObject *object)
{
    PyArray_Descr *descr;

    if (!PyArray_IsScalar(object, Generic))
        return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object)
                   ? dtype_descr(dtype_with_number(array->dtype, object))
                   : NULL;
    descr = PyArray_DescrFromScalar(object);
    if (descr && !dtype_of(descr))
        Py_CLEAR(descr);
    return descr;
}

/* The other operand: an Array itself, or a number as a 0-dimensional array on the device of `array`. NULL without
 * an exception for anything else. */
static PyObject *as_operand(struct array *array, PyObject *object)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(array));
    PyObject *number, *result;
    PyArray_Descr *descr;

    if (array_check(object) || PyArray_Check(object))
        return Py_NewRef(object);
    descr = scalar_descr(array, object);
    number = descr ? PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_FORCECAST, NULL) : NULL;
    result = number ? array_from(state, array->device, number, 0, 0) : NULL;
    Py_XDECREF(number);
    return result;
}

typedef PyObject *(*operation)(const struct module_state *, PyObject *x, PyObject *y, PyObject *out);

/* An operation on x and y, at least one of which is an Array, into `out`, or a new array if that is None. */
static PyObject *elementwise(operation compute, PyObject *x, PyObject *y, PyObject *out)
{
    struct array *array = (struct array *)(array_check(x) ? x : y);
    PyObject *a = as_operand(array, x), *b = a ? as_operand(array, y) : NULL, *result = NULL;

    if (b) {
        result = compute(PyType_GetModuleState(Py_TYPE(array)), a, b, out);
    } else if (!PyErr_Occurred()) {
        result = Py_NewRef(Py_NotImplemented);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

PyObject *array_add(PyObject *x, PyObject *y)
{
    return elementwise(add_into, x, y, Py_None);
}

PyObject *array_add_to(PyObject *x, PyObject *y)
{
    return elementwise(add_into, x, y, x);
}

static PyObject *matmul(PyObject *x, PyObject *y, PyObject *out)
{
    PyTypeObject *type = Py_TYPE(array_check(x) ? x : y);

    if (!(array_check(x) || PyArray_Check(x)) || !(array_check(y) || PyArray_Check(y)))
        Py_RETURN_NOTIMPLEMENTED;
    return matmul_into(PyType_GetModuleState(type), x, y, out);
}

PyObject *array_matmul(PyObject *x, PyObject *y)
{
    return matmul(x, y, Py_None);
}

PyObject *array_matmul_to(PyObject *x, PyObject *y)
{
    return matmul(x, y, x);
}

/* Whether the current exception says that a Python integer is too large for an integer array: no element equals
 * it. */
static bool fits_no_element(PyObject *x, PyObject *number)
{
    const bool integral = ((struct array *)x)->dtype & (BOOL | SIGNED | UNSIGNED);

    if (!integral || !PyLong_Check(number) || !PyErr_ExceptionMatches(PyExc_OverflowError))
        return false;
    PyErr_Clear();
    return true;
}

/* The other object's own == or !=, if its class defines one; otherwise NotImplemented. */
static PyObject *compare_by_other_type(PyObject *x, PyObject *y, int comparison)
{
    const PyTypeObject *type = Py_TYPE(y);

    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
        Py_RETURN_NOTIMPLEMENTED;
    return type->tp_richcompare(y, x, comparison);
}

PyObject *array_compare(PyObject *x, PyObject *y, int comparison)
{
    const operation same = comparison == Py_EQ ? equal_into : not_equal_into;
    const operation opposite = comparison == Py_EQ ? not_equal_into : equal_into;
    PyObject *result;

    if (comparison != Py_EQ && comparison != Py_NE)
        Py_RETURN_NOTIMPLEMENTED;
    result = elementwise(same, x, y, Py_None);
    if (!result && fits_no_element(x, y))
        return elementwise(opposite, x, x, Py_None); /* all False for ==, all True for != */
    if (result == Py_NotImplemented)
        Py_SETREF(result, compare_by_other_type(x, y, comparison));
    if (result == Py_NotImplemented) { /* Python would fall back to identity */
        Py_DECREF(result);
        return PyErr_Format(PyExc_TypeError, "%s: expected an Array on %s or a number, got %s; asarray() converts",
                            comparison == Py_EQ ? "==" : "!=", ((struct array *)x)->device->name,
                            Py_TYPE(y)->tp_name);
    }
    return result;
}

/* Whether an element equals the value. */
int array_contains(PyObject *self, PyObject *value)
{
    PyObject *equal = array_compare(self, value, Py_EQ);
    const int found = equal ? any_element(PyType_GetModuleState(Py_TYPE(self)), equal) : -1;

    Py_XDECREF(equal);
    return found;
}

/* == or != of an Array and another operand, in either order. NumPy passes its scalars as 0-dimensional arrays.
 */
static PyObject *compare_with(PyObject *x, PyObject *y, int comparison)
{
    PyObject *array = array_check(x) ? x : y, *other = array == x ? y : x, *result;

    other = PyArray_Check(other) ? PyArray_Return((PyArrayObject *)Py_NewRef(other)) : Py_NewRef(other);
    result = other ? array_compare(array, other, comparison) : NULL;
    Py_XDECREF(other);
    return result;
}

/* Calls the operator that a NumPy ufunc stands for; NotImplemented for others. */
static PyObject *call_operator(PyObject *ufunc_name, PyObject *x, PyObject *y)
{
    if (PyUnicode_CompareWithASCIIString(ufunc_name, "add") == 0)
        return array_add(x, y);
    if (PyUnicode_CompareWithASCIIString(ufunc_name, "matmul") == 0)
        return array_matmul(x, y);
    if (PyUnicode_CompareWithASCIIString(ufunc_name, "equal") == 0)
        return compare_with(x, y, Py_EQ);
    if (PyUnicode_CompareWithASCIIString(ufunc_name, "not_equal") == 0)
        return compare_with(x, y, Py_NE);
    Py_RETURN_NOTIMPLEMENTED;
}

/* Whether an operand of another type implements __array_ufunc__. */
static bool other_operand_has_ufunc(PyObject *args)
{
    bool another = false;

    for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *operand = PyTuple_GET_ITEM(args, i);

        another = another || (!array_check(operand) && !PyArray_Check(operand) &&
                              PyObject_HasAttrString((PyObject *)Py_TYPE(operand), "__array_ufunc__"));
    }
    return another;
}

/* NumPy scalars and arrays implement operators by ufuncs, which call this method if an operand is an Array: x + y
 * arrives as numpy.add(x, y), and x += y as numpy.add(x, y, out=x). */
PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *ufunc, *method, *name, *result;

    if (PyTuple_GET_SIZE(args) < 2)
        return PyErr_Format(PyExc_TypeError, "__array_ufunc__: expected a ufunc and a method, got %R", args);
    ufunc = PyTuple_GET_ITEM(args, 0);
    method = PyTuple_GET_ITEM(args, 1);
    if (!(name = PyObject_GetAttrString(ufunc, "__name__")))
        return NULL;
    const bool plain = PyUnicode_Check(name) && PyUnicode_Check(method) && PyTuple_GET_SIZE(args) == 4 &&
                       !(keywords && PyDict_GET_SIZE(keywords)) &&
                       PyUnicode_CompareWithASCIIString(method, "__call__") == 0 &&
                       (PyTuple_GET_ITEM(args, 2) == self || PyTuple_GET_ITEM(args, 3) == self);

    result = plain ? call_operator(name, PyTuple_GET_ITEM(args, 2), PyTuple_GET_ITEM(args, 3))
                   : Py_NewRef(Py_NotImplemented);
    if (result == Py_NotImplemented && !other_operand_has_ufunc(args)) {
        Py_DECREF(result);
        result = PyErr_Format(PyExc_TypeError,
                              "numpy.%S: does not accept a smemkit.Array; asarray() and .numpy() convert", name);
    }
    Py_DECREF(name);
    return result;
}
