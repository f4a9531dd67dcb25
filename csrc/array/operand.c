/* Reads operands. */
#include "python/state.h"

#include <string.h>

#include "array.h"
#include "foreign.h"
#include "kernels.h"
#include "operand.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "stream.h"

void fill_from_array(struct operand *operand, struct array *array)
{
    operand->owner = Py_NewRef((PyObject *)array);
    operand->device = array->device;
    operand->owning_stream = array->owning_stream;
    operand->data = array->data;
    operand->descr = array->descr;
    operand->readonly = array->readonly;
    operand->size = array->size;
    operand->layout.ndim = array->ndim;
    memcpy(operand->layout.shape, array_shape(array), (size_t)array->ndim * sizeof(npy_intp));
    memcpy(operand->layout.strides, array_strides(array), (size_t)array->ndim * sizeof(npy_intp));
}

void fill_from_numpy(struct operand *operand, PyArrayObject *numpy)
{
    operand->owner = (PyObject *)numpy;
    operand->data = PyArray_BYTES(numpy);
    operand->descr = PyArray_DESCR(numpy);
    operand->readonly = !PyArray_ISWRITEABLE(numpy);
    operand->size = PyArray_SIZE(numpy);
    operand->layout.ndim = PyArray_NDIM(numpy);
    for (int i = 0; i < operand->layout.ndim; i++) {
        operand->layout.shape[i] = PyArray_DIM(numpy, i);
        operand->layout.strides[i] = PyArray_STRIDE(numpy, i);
    }
}

void fill_dtype(struct operand *operand)
{
    Py_INCREF(operand->descr); /* the array's descr may be replaced later */
    operand->dtype = dtype_of(operand->descr);
    operand->swapped = !PyArray_ISNBO(operand->descr->byteorder);
}

bool operand_pin(struct operand *operand)
{
    operand->pin = PyWeakref_NewRef(operand->owner, NULL);
    return operand->pin != NULL;
}

PyObject *optional_attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);

    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

int has_attribute(PyObject *object, const char *name)
{
    PyObject *value = optional_attribute(object, name);

    Py_XDECREF(value);
    return value ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Refuses masked arrays, whose masked elements would be used. */
static bool check_mask(PyArrayObject *numpy, const char *name)
{
    PyObject *mask = PyArray_CheckExact(numpy) ? NULL : optional_attribute((PyObject *)numpy, "mask");
    bool masked;

    masked = mask && PyArray_Check(mask); /* numpy.ma.nomask is a scalar */
    Py_XDECREF(mask);
    if (masked)
        PyErr_Format(PyExc_TypeError, "%s: expected an array without a mask, got %s; .filled() makes one", name,
                     Py_TYPE(numpy)->tp_name);
    return !masked && !PyErr_Occurred();
}

/* Anything that is neither an Array nor another library's array is read by NumPy. */
static bool read_any(PyObject *object, const char *name, struct operand *operand)
{
    PyArrayObject *numpy = (PyArrayObject *)PyArray_FromAny(object, NULL, 0, 0, 0, NULL);

    if (!numpy)
        return add_argument_name(name);
    fill_from_numpy(operand, numpy);
    fill_dtype(operand);
    if (!check_mask(numpy, name) || ((PyObject *)numpy == object && !operand_pin(operand))) {
        drop_operand(operand);
        return false;
    }
    return true;
}

bool is_read_by_numpy(PyObject *object)
{
    return PyArray_Check(object) || PyArray_IsScalar(object, Generic) || PyFloat_CheckExact(object) ||
           PyLong_CheckExact(object) || PyBool_Check(object) || PyComplex_CheckExact(object) ||
           PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyUnicode_CheckExact(object);
}

bool read_operand(const struct module_state *state, PyObject *object, const char *name, PyObject *stream,
                  struct operand *operand)
{
    int foreign = 0;

    memset(operand, 0, sizeof *operand);
    if (Py_IS_TYPE(object, state->array_type)) {
        array_require_sync((struct array *)object); /* pending work may read it after it is overwritten */
        fill_from_array(operand, (struct array *)object);
        fill_dtype(operand);
        return true;
    }
    if (!is_read_by_numpy(object))
        foreign = read_foreign(state, object, name, stream, operand);
    if (foreign)
        return foreign > 0;
    if (!read_any(object, name, operand))
        return false;
    if (!operand->dtype)
        refuse_dtype(name, EVERY, (PyObject *)operand->descr);
    return operand->dtype != 0;
}

bool operand_unchanged(const struct operand *operand)
{
    PyArrayObject *numpy = (PyArrayObject *)operand->owner;
    const struct layout *layout = &operand->layout;
    bool same = operand->device || (PyArray_BYTES(numpy) == operand->data &&
                                    PyArray_DESCR(numpy) == operand->descr && PyArray_NDIM(numpy) == layout->ndim);

    for (int i = 0; same && !operand->device && i < layout->ndim; i++)
        same = PyArray_DIM(numpy, i) == layout->shape[i] && PyArray_STRIDE(numpy, i) == layout->strides[i];
    if (!same)
        PyErr_SetString(PyExc_RuntimeError, "the shape, dtype or memory of an array changed while the other "
                                            "arguments were read");
    return same;
}

void drop_operand(struct operand *operand)
{
    Py_CLEAR(operand->pin);
    if (operand->owner)
        Py_DECREF(operand->descr);
    Py_CLEAR(operand->owner);
    Py_CLEAR(operand->caller_object);
}
