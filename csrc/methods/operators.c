/* The operators of an Array: + - * /, comparisons and @. The other operand is an Array or, except for @, a number.
 * NumPy arrays are refused, because the caller has to say which operand must be copied, and to which device.
 * (NumPy itself converts 0-dimensional arrays to scalars on the left of == and !=.) */
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
static PyArray_Descr *scalar_descr(struct array *array, enum elementwise_function function, PyObject *object)
{
    const bool integers = !(array->dtype & (FLOATING | COMPLEX)) && PyLong_Check(object);
    PyArray_Descr *descr;

    if (!PyArray_IsScalar(object, Generic)) {
        if (!PyLong_Check(object) && !PyFloat_Check(object) && !PyComplex_Check(object))
            return NULL;
        return dtype_descr(integers && function == ELEMENTWISE_DIVIDE ? FLOAT64
                                                                      : dtype_with_number(array->dtype, object));
    }
    descr = PyArray_DescrFromScalar(object);
    if (descr && !dtype_of(descr))
        Py_CLEAR(descr);
    return descr;
}

/* A number as a 0-dimensional NumPy array. NULL without an exception for anything else. */
static PyArrayObject *read_number(struct array *array, enum elementwise_function function, PyObject *object)
{
    PyArray_Descr *descr = scalar_descr(array, function, object);

    return descr ? (PyArrayObject *)PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_FORCECAST, NULL) : NULL;
}

/* A function of x and y, at least one of which is an Array, into `out`, or a new array if that is None. */
static PyObject *elementwise(enum elementwise_function function, PyObject *x, PyObject *y, PyObject *out)
{
    PyObject *const array = array_check(x) ? x : y, *const other = array == x ? y : x;
    PyObject *operands[2] = {x, y}, *result;
    PyArrayObject *number = NULL;

    if (!array_check(other) && !PyArray_Check(other)) {
        if (!(number = read_number((struct array *)array, function, other)))
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
        operands[array == x ? 1 : 0] = NULL;
    }
    result = elementwise_into(PyType_GetModuleState(Py_TYPE(array)), function, operands, number, out);
    Py_XDECREF(number);
    return result;
}

#define OPERATOR(name, function)                          \
    PyObject *array_##name(PyObject *x, PyObject *y)      \
    {                                                     \
        return elementwise(function, x, y, Py_None);      \
    }                                                     \
    PyObject *array_##name##_to(PyObject *x, PyObject *y) \
    {                                                     \
        return elementwise(function, x, y, x);            \
    }
OPERATOR(add, ELEMENTWISE_ADD)
OPERATOR(subtract, ELEMENTWISE_SUBTRACT)
OPERATOR(multiply, ELEMENTWISE_MULTIPLY)
OPERATOR(divide, ELEMENTWISE_DIVIDE)
#undef OPERATOR

PyObject *array_negative(PyObject *x)
{
    PyObject *const operands[2] = {x, NULL};

    return elementwise_into(PyType_GetModuleState(Py_TYPE(x)), ELEMENTWISE_NEGATE, operands, NULL, Py_None);
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

static enum elementwise_function function_of(int comparison)
{
    switch (comparison) {
    case Py_EQ:
        return ELEMENTWISE_EQUAL;
    case Py_NE:
        return ELEMENTWISE_NOT_EQUAL;
    case Py_LT:
        return ELEMENTWISE_LESS;
    case Py_LE:
        return ELEMENTWISE_LESS_EQUAL;
    case Py_GT:
        return ELEMENTWISE_GREATER;
    default:
        return ELEMENTWISE_GREATER_EQUAL;
    }
}

/* Whether the current exception says that a Python integer is too large for an integer array: it is greater or
 * less than every element. */
static bool fits_no_element(PyObject *x, PyObject *number)
{
    const bool integral = ((struct array *)x)->dtype & (BOOL | SIGNED | UNSIGNED);

    if (!integral || !PyLong_Check(number) || !PyErr_ExceptionMatches(PyExc_OverflowError))
        return false;
    PyErr_Clear();
    return true;
}

/* The comparison with a number that is beyond every element: the same for all of them. */
static PyObject *compare_beyond(PyObject *x, PyObject *number, int comparison)
{
    PyObject *zero = PyLong_FromLong(0);
    const int positive = zero ? PyObject_RichCompareBool(number, zero, Py_GT) : -1;
    const bool result = comparison == Py_NE || (positive ? comparison == Py_LT || comparison == Py_LE
                                                         : comparison == Py_GT || comparison == Py_GE);

    Py_XDECREF(zero);
    return positive < 0 ? NULL : elementwise(result ? ELEMENTWISE_EQUAL : ELEMENTWISE_NOT_EQUAL, x, x, Py_None);
}

/* The other object's own comparison, if its class defines one; otherwise NotImplemented. */
static PyObject *compare_by_other_type(PyObject *x, PyObject *y, int comparison)
{
    const PyTypeObject *type = Py_TYPE(y);

    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_richcompare == PyBaseObject_Type.tp_richcompare)
        Py_RETURN_NOTIMPLEMENTED;
    return type->tp_richcompare(y, x, comparison);
}

PyObject *array_compare(PyObject *x, PyObject *y, int comparison)
{
    const bool ordering = comparison != Py_EQ && comparison != Py_NE;
    PyObject *result = elementwise(function_of(comparison), x, y, Py_None);

    if (!result && fits_no_element(x, y))
        return compare_beyond(x, y, comparison);
    if (ordering) /* Python asks the other object, and raises */
        return result;
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

/* A NumPy scalar as itself: NumPy passes it as a 0-dimensional array. A new reference. */
static PyObject *as_scalar(PyObject *object)
{
    return PyArray_Check(object) ? PyArray_Return((PyArrayObject *)Py_NewRef(object)) : Py_NewRef(object);
}

/* A comparison of an Array and another operand, in either order. */
static PyObject *compare_with(PyObject *x, PyObject *y, enum elementwise_function function)
{
    static const int comparisons[2][6] = {
        {Py_EQ, Py_NE, Py_LT, Py_LE, Py_GT, Py_GE},
        {Py_EQ, Py_NE, Py_GT, Py_GE, Py_LT, Py_LE}}; /* with operands exchanged */
    PyObject *array = array_check(x) ? x : y, *other = as_scalar(array == x ? y : x), *result;

    result = other ? array_compare(array, other, comparisons[array != x][function - ELEMENTWISE_EQUAL]) : NULL;
    Py_XDECREF(other);
    return result;
}

/* Calls the operator that a NumPy ufunc of one or two operands stands for; NotImplemented for others. */
static PyObject *call_operator(PyObject *ufunc_name, PyObject *args)
{
    PyObject *x = PyTuple_GET_ITEM(args, 2), *y = PyTuple_GET_SIZE(args) == 4 ? PyTuple_GET_ITEM(args, 3) : NULL;
    enum elementwise_function function;

    if (y && PyUnicode_CompareWithASCIIString(ufunc_name, "matmul") == 0)
        return array_matmul(x, y);
    if (!find_elementwise(ufunc_name, &function) || (function == ELEMENTWISE_NEGATE) != !y)
        Py_RETURN_NOTIMPLEMENTED;
    if (!y)
        return array_negative(x);
    return function >= ELEMENTWISE_EQUAL ? compare_with(x, y, function) : elementwise(function, x, y, Py_None);
}

/* Whether self is one of the one or two operands. */
static bool is_operand(PyObject *self, PyObject *args)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(args);

    return (count == 3 || count == 4) &&
           (PyTuple_GET_ITEM(args, 2) == self || PyTuple_GET_ITEM(args, count - 1) == self);
}

/* Whether an operand of another type implements __array_ufunc__: 1, 0, or -1 with an exception. */
static int other_operand_has_ufunc(PyObject *args)
{
    int another = 0;

    for (Py_ssize_t i = 2; i < PyTuple_GET_SIZE(args) && another == 0; i++) {
        PyObject *operand = PyTuple_GET_ITEM(args, i);

        if (!array_check(operand) && !PyArray_Check(operand))
            another = has_attribute((PyObject *)Py_TYPE(operand), "__array_ufunc__");
    }
    return another;
}

/* NumPy scalars and arrays implement operators by ufuncs, which call this method if an operand is an Array: x + y
 * arrives as numpy.add(x, y), and x += y as numpy.add(x, y, out=x). */
PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *ufunc, *method, *name, *result;
    int another;

    if (PyTuple_GET_SIZE(args) < 2)
        return PyErr_Format(PyExc_TypeError, "__array_ufunc__: expected a ufunc and a method, got %R", args);
    ufunc = PyTuple_GET_ITEM(args, 0);
    method = PyTuple_GET_ITEM(args, 1);
    if (!(name = PyObject_GetAttrString(ufunc, "__name__")))
        return NULL;
    const bool plain = PyUnicode_Check(name) && PyUnicode_Check(method) && is_operand(self, args) &&
                       !(keywords && PyDict_GET_SIZE(keywords)) &&
                       PyUnicode_CompareWithASCIIString(method, "__call__") == 0;

    result = plain ? call_operator(name, args) : Py_NewRef(Py_NotImplemented);
    another = result == Py_NotImplemented ? other_operand_has_ufunc(args) : 1;
    if (another <= 0)
        Py_CLEAR(result);
    if (another == 0)
        PyErr_Format(PyExc_TypeError, "numpy.%S: does not accept a smemkit.Array; asarray() and .numpy() convert",
                     name);
    Py_DECREF(name);
    return result;
}
