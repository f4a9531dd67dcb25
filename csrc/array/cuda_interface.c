/* Imports arrays by the CUDA Array Interface, version 3. */
#include "python/state.h"

#include "base/failure.h"
#include "device/device.h"
#include "foreign.h"
#include "kernels.h"
#include "lookup.h"
#include "operand.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "python/layout.h"
#include "stream.h"

/* Reads a tuple of at most NPY_MAXDIMS integers. Returns their number, -1 with an exception. */
static int read_lengths(PyObject *tuple, const char *name, const char *key, npy_intp *lengths)
{
    if (!tuple || !PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > NPY_MAXDIMS) {
        PyErr_Format(PyExc_TypeError, "%s: expected a tuple of up to %d integers as '%s', got %R", name,
                     NPY_MAXDIMS, key, tuple ? tuple : Py_None);
        return -1;
    }
    for (int i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        lengths[i] = PyNumber_AsSsize_t(PyTuple_GET_ITEM(tuple, i), PyExc_OverflowError);
        if (lengths[i] == -1 && PyErr_Occurred()) {
            add_argument_name(name);
            return -1;
        }
    }
    return (int)PyTuple_GET_SIZE(tuple);
}

static bool read_interface_dtype(PyObject *text, const char *name, struct operand *operand)
{
    PyArray_Descr *descr = NULL;

    if (!text || !PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a str as 'typestr', got %R", name, text ? text : Py_None);
        return false;
    }
    if (!PyArray_DescrConverter(text, &descr))
        return add_argument_name(name);
    operand->dtype = dtype_of(descr);
    if (!operand->dtype)
        refuse_dtype(name, EVERY, (PyObject *)descr);
    operand->descr = descr;
    operand->swapped = !PyArray_ISNBO(descr->byteorder);
    return operand->dtype != 0;
}

static bool read_interface_layout(PyObject *dict, const char *name, struct operand *operand)
{
    PyObject *strides = PyDict_GetItemString(dict, "strides");
    const bool strided = strides && strides != Py_None;
    struct layout *layout = &operand->layout;

    layout->ndim = read_lengths(PyDict_GetItemString(dict, "shape"), name, "shape", layout->shape);
    if (layout->ndim < 0)
        return false;
    if (strided) {
        const int count = read_lengths(strides, name, "strides", layout->strides);

        if (count < 0)
            return false;
        if (count != layout->ndim)
            return refuse_foreign(name, "expected as many 'strides' as lengths in 'shape'");
    }
    return check_layout(name, operand, strided);
}

static bool read_interface_data(PyObject *pair, const char *name, struct operand *operand)
{
    PyObject *number = NULL;
    int readonly = -1;

    if (pair && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && PyIndex_Check(PyTuple_GET_ITEM(pair, 0))) {
        number = PyNumber_Index(PyTuple_GET_ITEM(pair, 0));
        operand->data = number ? (char *)(uintptr_t)PyLong_AsUnsignedLongLong(number) : NULL;
        Py_XDECREF(number);
        if (!PyErr_Occurred())
            readonly = PyObject_IsTrue(PyTuple_GET_ITEM(pair, 1));
        operand->readonly = readonly != 0;
        return readonly >= 0 || add_argument_name(name);
    }
    PyErr_Format(PyExc_TypeError, "%s: expected an address and a bool as 'data', got %R", name,
                 pair ? pair : Py_None);
    return false;
}

/* The interface's stream; owning_stream is unchanged if it names none. */
static bool read_interface_stream(PyObject *stream, const char *name, struct operand *operand)
{
    unsigned long long handle;

    operand->retire = !stream || stream == Py_None;
    if (operand->retire)
        return true;
    handle = PyLong_Check(stream) && !PyBool_Check(stream) ? PyLong_AsUnsignedLongLong(stream) : 0;
    PyErr_Clear(); /* a negative or too large number is invalid as well */
    if (handle == 0 || handle == ULLONG_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: expected None or the handle of a stream as 'stream', got %R", name,
                     stream);
        return false;
    }
    operand->owning_stream = handle == 1 ? NULL : (device_stream)(uintptr_t)handle;
    return true;
}

/* Finds the device that owns the memory. An empty array has none, and fits any device. */
static bool find_owner(const struct module_state *state, const char *name, struct operand *operand)
{
    struct device *device = operand->size ? cuda_device_by_ordinal(state, name, 0) : default_device(state);
    struct failure failure = {0};
    bool ok = true;

    if (device && device_is_host(device))
        device = cuda_device_by_ordinal(state, name, 0);
    if (!device)
        return false;
    if (operand->size) {
        Py_BEGIN_ALLOW_THREADS
        ok = cuda_device_of_pointer(operand->data, &device, &failure);
        Py_END_ALLOW_THREADS
    }
    operand->device = device;
    if (ok)
        return true;
    if (failure.code == 0 && (failure.kind == FAILURE_NONE || failure.kind == FAILURE_CUDA))
        return refuse_foreign(name, "expected the address of CUDA device memory, got another address");
    raise_failure(state, &failure);
    return false;
}

static bool check_interface(PyObject *dict, const char *name)
{
    PyObject *version = PyDict_GetItemString(dict, "version"), *mask = PyDict_GetItemString(dict, "mask");
    const long number = version && PyLong_Check(version) ? PyLong_AsLong(version) : 0;

    PyErr_Clear(); /* a too large number is invalid as well */
    if (number < 1 || number > 3) {
        PyErr_Format(PyExc_ValueError, "%s: expected version 1, 2 or 3 of the CUDA Array Interface, got %R", name,
                     version ? version : Py_None);
        return false;
    }
    if (mask && mask != Py_None) {
        PyErr_Format(PyExc_TypeError, "%s: expected an array without a mask, got %s with one", name,
                     Py_TYPE(mask)->tp_name);
        return false;
    }
    return true;
}

bool read_interface(const struct module_state *state, PyObject *interface, const char *name,
                    PyObject *stream_argument, enum use use, struct operand *operand)
{
    PyObject *dict = PyDict_Check(interface) ? PyDict_Copy(interface) : NULL;
    bool ok;

    if (!PyDict_Check(interface))
        PyErr_Format(PyExc_TypeError, "%s: expected __cuda_array_interface__ to be a dict, got %s", name,
                     Py_TYPE(interface)->tp_name);
    ok = dict && check_interface(dict, name) &&
         read_interface_dtype(PyDict_GetItemString(dict, "typestr"), name, operand) &&
         read_interface_data(PyDict_GetItemString(dict, "data"), name, operand) &&
         read_interface_layout(dict, name, operand) && find_owner(state, name, operand) &&
         (use != AS_OPERAND || read_stream(state, stream_argument, operand->device, &operand->owning_stream)) &&
         read_interface_stream(PyDict_GetItemString(dict, "stream"), name, operand);
    Py_XDECREF(dict);
    if (!ok)
        Py_CLEAR(operand->descr);
    return ok;
}
