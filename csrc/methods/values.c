/* Reads an Array's elements on the host: NumPy arrays, buffers, Python numbers, text, pickles. CPU device memory
 * is host memory, which NumPy can view; from a GPU elements are copied. */
#include "python/state.h"

#include <stdatomic.h>
#include <string.h>

#include "array/array.h"
#include "array/host_result.h"
#include "array/operand.h"
#include "array/out.h"
#include "array/stream.h"
#include "base/failure.h"
#include "call/call.h"
#include "device/allocation.h"
#include "kernels.h"
#include "methods.h"
#include "python/arguments.h"
#include "python/errors.h"

enum { MAX_ELEMENT = 16 }; /* bytes */

static struct module_state *state_for(PyObject *self)
{
    return PyType_GetModuleState(Py_TYPE(self));
}

static bool on_cpu(const struct array *array)
{
    return device_is_host(array->device);
}

/* ---- NumPy ---- */

/* A NumPy view of an Array on the CPU device. */
static PyObject *numpy_view(struct array *array)
{
    void *data = array->data ? (void *)array->data : array->dims; /* an empty array: any address but NULL */
    const int flags = array->readonly ? 0 : NPY_ARRAY_WRITEABLE;
    PyObject *view;

    Py_INCREF(array->descr);
    view = PyArray_NewFromDescr(&PyArray_Type, array->descr, array->ndim, array_shape(array), array_strides(array),
                                data, flags, NULL);
    if (view && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)array)) < 0)
        Py_CLEAR(view);
    return view;
}

static PyObject *copied_on_cpu(struct array *array)
{
    PyObject *view = numpy_view(array), *copy = view ? PyArray_NewCopy((PyArrayObject *)view, NPY_CORDER) : NULL;

    Py_XDECREF(view);
    return copy;
}

/* A synchronous copy to the host, in the order of the array's owning stream. */
static bool copy_to_host(struct array *array, const char *from, size_t bytes, void *to)
{
    const struct module_state *state = state_for((PyObject *)array);
    struct failure failure = {0};
    bool ok = true;

    if (!refuse_capture(state, array->device, array->owning_stream, "no element can be copied to the host"))
        return false;
    enum result result = array->result;

    Py_BEGIN_ALLOW_THREADS
    if (result == NO_RESULT_SLOT)
        ok = device_read(array->device, to, from, bytes, array->owning_stream, &failure);
    else
        ok = array->device->type->read_result_slot(array->device, from, bytes, result != RESULT_NEEDS_SYNC, to,
                                                   &failure);
    Py_END_ALLOW_THREADS
    if (!ok)
        raise_failure(state, &failure);
    else if (result == RESULT_PENDING)
        (void)atomic_compare_exchange_strong(&array->result, &result, RESULT_READY);
    return ok;
}

static PyObject *copied_contiguous(struct array *array)
{
    PyObject *result = new_host_result(array->device, array->descr, array->ndim, array_shape(array));

    if (result && array->bytes &&
        !copy_to_host(array, array->data, array->bytes, PyArray_DATA((PyArrayObject *)result)))
        Py_CLEAR(result);
    return result;
}

/* A copy of a non-contiguous GPU array, which is made contiguous on the GPU first. */
static PyObject *copied_strided(struct array *array)
{
    const struct module_state *state = state_for((PyObject *)array);
    struct call call = {.device = array->device, .stream = array->owning_stream, .inputs = 1};

    if (!read_operand(state, (PyObject *)array, "self", Py_None, &call.in[0]) ||
        !read_out(state, Py_None, call.device, true, array->descr, array->ndim, array_shape(array), Py_None,
                  &call.out))
        return call_fail(&call);
    call.in_view[0] = call.in[0].layout;
    call.result = call.in[0].dtype;
    return call_run_convert(state, &call, false);
}

PyObject *array_numpy(PyObject *self, PyObject *unused)
{
    struct array *array = (struct array *)self;

    (void)unused;
    if (on_cpu(array))
        return copied_on_cpu(array);
    if (array_is_contiguous(array))
        return copied_contiguous(array);
    return copied_strided(array);
}

/* Converts a NumPy array to another dtype, if requested. Steals the reference. */
static PyObject *as_dtype(PyObject *numpy, PyArray_Descr *descr, PyObject *copy)
{
    PyObject *cast;

    if (!numpy || !descr || PyArray_EquivTypes(PyArray_DESCR((PyArrayObject *)numpy), descr))
        return numpy;
    if (copy == Py_False) {
        PyErr_Format(PyExc_ValueError, "copy: False is impossible, the elements must be converted to %S", descr);
        cast = NULL;
    } else {
        cast = PyObject_CallMethod(numpy, "astype", "O", descr);
    }
    Py_DECREF(numpy);
    return cast;
}

PyObject *array_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    const bool shared = on_cpu((struct array *)self);
    PyArray_Descr *descr = NULL;
    PyObject *copy = Py_None, *result;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O&O:__array__", names, PyArray_DescrConverter2, &descr,
                                     &copy)) {
        Py_XDECREF(descr);
        return NULL;
    }
    if (copy == Py_False && !shared) {
        Py_XDECREF(descr);
        return PyErr_Format(PyExc_ValueError,
                            "copy: False is impossible, a GPU's memory must be copied to the host");
    }
    result = shared && copy != Py_True ? numpy_view((struct array *)self) : array_numpy(self, NULL);
    result = as_dtype(result, descr, copy);
    Py_XDECREF(descr);
    return result;
}

/* Delegates to the buffer protocol of NumPy's view. */
int array_buffer(PyObject *self, Py_buffer *buffer, int flags)
{
    struct array *array = (struct array *)self;
    PyObject *view;
    int error;

    buffer->obj = NULL;
    if (!on_cpu(array)) {
        PyErr_Format(PyExc_BufferError, "the host cannot read the memory of %s; .numpy() copies it",
                     array->device->name);
        return -1;
    }
    if (!(view = numpy_view(array)))
        return -1;
    error = PyObject_GetBuffer(view, buffer, flags);
    Py_DECREF(view);
    return error;
}

/* ---- numbers ---- */

static PyObject *from_module(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;

    Py_XDECREF(module);
    return function;
}

/* Reads the bytes of one element. */
static bool array_scalar(struct array *array, const char *element, void *buffer)
{
    const size_t bytes = (size_t)PyDataType_ELSIZE(array->descr);

    if (!on_cpu(array))
        return copy_to_host(array, element, bytes, buffer);
    memcpy(buffer, element, bytes);
    return true;
}

static PyObject *number_at(struct array *array, const char *element)
{
    _Alignas(MAX_ELEMENT) char buffer[MAX_ELEMENT];

    return array_scalar(array, element, buffer) ? PyDataType_GetArrFuncs(array->descr)->getitem(buffer, NULL)
                                                : NULL;
}

static PyObject *only_number(PyObject *self)
{
    struct array *array = (struct array *)self;

    if (array->size == 1)
        return number_at(array, array->data);
    return PyErr_Format(PyExc_ValueError, "item: expected an array of one element, got %zd",
                        (Py_ssize_t)array->size);
}

/* A normalised index; -1 with an exception. */
static npy_intp normalised_index(PyObject *object, npy_intp length, const char *what)
{
    Py_ssize_t index = PyNumber_AsSsize_t(object, PyExc_IndexError);

    if (index == -1 && PyErr_Occurred()) {
        add_argument_name("item");
        return -1;
    }
    if (index >= -length && index < length)
        return index < 0 ? index + length : index;
    PyErr_Format(PyExc_IndexError, "item: index %zd is out of bounds for %s of %zd", index, what,
                 (Py_ssize_t)length);
    return -1;
}

static const char *element_at(struct array *array, PyObject *const *indices, Py_ssize_t count)
{
    const npy_intp *shape = array_shape(array), *strides = array_strides(array);
    npy_intp offset = 0, index;

    if (count == 1 && array->ndim != 1) { /* a flat index */
        index = normalised_index(indices[0], array->size, "a size");
        for (int d = array->ndim - 1; index >= 0 && d >= 0; d--) {
            offset += index % shape[d] * strides[d];
            index /= shape[d];
        }
        return index < 0 ? NULL : array->data + offset;
    }
    if (count != array->ndim) {
        PyErr_Format(PyExc_ValueError, "item: expected no index, one, or one for each of %d dimensions, got %zd",
                     array->ndim, count);
        return NULL;
    }
    for (int d = 0; d < array->ndim; d++) {
        index = normalised_index(indices[d], shape[d], "a length");
        if (index < 0)
            return NULL;
        offset += index * strides[d];
    }
    return array->data + offset;
}

PyObject *array_item(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *tuple = count == 1 && PyTuple_Check(args[0]) ? args[0] : NULL;
    const char *element;

    if (count == 0)
        return only_number(self);
    element = tuple ? element_at((struct array *)self, &PyTuple_GET_ITEM(tuple, 0), PyTuple_GET_SIZE(tuple))
                    : element_at((struct array *)self, args, count);
    return element ? number_at((struct array *)self, element) : NULL;
}

static PyObject *converted(PyObject *self, PyObject *(*number)(PyObject *))
{
    PyObject *item = only_number(self), *result = item ? number(item) : NULL;

    Py_XDECREF(item);
    return result;
}

PyObject *array_float(PyObject *self)
{
    return converted(self, PyNumber_Float);
}

PyObject *array_int(PyObject *self)
{
    return converted(self, PyNumber_Long);
}

static PyObject *complex_of(PyObject *number)
{
    return PyObject_CallOneArg((PyObject *)&PyComplex_Type, number);
}

PyObject *array_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    return converted(self, complex_of);
}

PyObject *array_tolist(PyObject *self, PyObject *unused)
{
    PyObject *numpy = array_numpy(self, NULL), *list = numpy ? PyArray_ToList((PyArrayObject *)numpy) : NULL;

    (void)unused;
    Py_XDECREF(numpy);
    return list;
}

/* round() of the number. */
PyObject *array_round(PyObject *self, PyObject *args)
{
    PyObject *digits = NULL, *item = NULL, *function = NULL, *result = NULL;

    if (PyArg_ParseTuple(args, "|O:__round__", &digits) && (item = only_number(self)) &&
        (function = from_module("builtins", "round")))
        result = PyObject_CallFunctionObjArgs(function, item, digits, NULL);
    Py_XDECREF(function);
    Py_XDECREF(item);
    return result;
}

/* An empty specification means str(), as for every object. */
PyObject *array_format(PyObject *self, PyObject *specification)
{
    PyObject *item, *result;

    if (PyUnicode_Check(specification) && PyUnicode_GET_LENGTH(specification) == 0)
        return PyObject_Str(self);
    if (((struct array *)self)->size != 1)
        return PyErr_Format(
            PyExc_TypeError,
            "format: expected an array of one element for %R, got %zd; .numpy() or .tolist() converts",
            specification, (Py_ssize_t)((struct array *)self)->size);
    item = only_number(self);
    result = item ? PyObject_Format(item, specification) : NULL;
    Py_XDECREF(item);
    return result;
}

/* As in NumPy: only an integer without dimensions can be an index. */
PyObject *array_index(PyObject *self)
{
    const struct array *array = (struct array *)self;

    if (array->ndim == 0 && array->dtype & (SIGNED | UNSIGNED))
        return only_number(self);
    return PyErr_Format(PyExc_TypeError,
                        "only an array of integers without dimensions can be an index, got dtype %S and %d "
                        "dimensions",
                        array->descr, array->ndim);
}

/* As in NumPy, only an array of one element has a truth value. */
int array_bool(PyObject *self)
{
    PyObject *item = only_number(self);
    int truth = item ? PyObject_IsTrue(item) : -1;

    Py_XDECREF(item);
    return truth;
}

/* ---- what Python does: text and pickles (smemkit/arrays.py), functions of NumPy (smemkit/array_functions.py),
 * and the array API's namespace (smemkit/array_api.py) ---- */

static PyObject *from_arrays(const char *name)
{
    return from_module("smemkit.arrays", name);
}

PyObject *array_function(PyObject *self, PyObject *args)
{
    PyObject *call = from_module("smemkit.array_functions", "call");
    PyObject *result = call ? PyObject_CallObject(call, args) : NULL;

    (void)self;
    Py_XDECREF(call);
    return result;
}

PyObject *array_namespace(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *namespace = from_module("smemkit.array_api", "_namespace");
    PyObject *result = namespace ? PyObject_Call(namespace, args, kwargs) : NULL;

    (void)self;
    Py_XDECREF(namespace);
    return result;
}

static PyObject *text(PyObject *self, const char *name)
{
    PyObject *function = from_arrays(name), *result = function ? PyObject_CallOneArg(function, self) : NULL;

    Py_XDECREF(function);
    return result;
}

PyObject *array_repr(PyObject *self)
{
    return text(self, "_repr");
}

PyObject *array_str(PyObject *self)
{
    return text(self, "_str");
}

PyObject *array_reduce(PyObject *self, PyObject *unused)
{
    PyObject *rebuild = from_arrays("_rebuild"), *values = rebuild ? array_numpy(self, NULL) : NULL;

    (void)unused;
    if (!values) {
        Py_XDECREF(rebuild);
        return NULL;
    }
    return Py_BuildValue("N(Ns)", rebuild, values, ((struct array *)self)->device->name);
}
