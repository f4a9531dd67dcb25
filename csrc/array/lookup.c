/* The device and the stream of a call, from its arguments, its operands, and the thread's defaults. */
#include "python/state.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "lookup.h"
#include "operand.h"
#include "python/arguments.h"
#include "stream.h"

/* This thread's default device, set by `with smemkit.Device(…)`. */
static _Thread_local struct device *thread_device;

/* The N of "cuda:N", 0 for "cuda", -1 for anything else */
static int cuda_ordinal(const char *name)
{
    char *end = NULL;
    long ordinal;

    if (strcmp(name, "cuda") == 0)
        return 0;
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9' || (name[5] == '0' && name[6]))
        return -1;
    ordinal = strtol(name + 5, &end, 10);
    return *end == '\0' && ordinal < 10000 ? (int)ordinal : -1;
}

/* `source` names the origin in messages: the argument `device`, or the environment variable. */
static struct device *find_device(const struct module_state *state, PyObject *object, const char *source)
{
    PyObject *name = PyUnicode_Check(object) ? Py_NewRef(object) : optional_attribute(object, "name");
    Py_ssize_t length = 0;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL, *why = NULL;
    const bool whole = text && (size_t)length == strlen(text); /* no embedded NUL */
    const int ordinal = whole ? cuda_ordinal(text) : -1;
    struct device *device = NULL;
    int count;

    if (PyErr_Occurred()) {
        Py_XDECREF(name);
        return NULL;
    }
    if (whole && strcmp(text, "cpu") == 0) {
        device = cpu_device();
    } else if (ordinal >= 0) {
        Py_BEGIN_ALLOW_THREADS
        count = cuda_devices(&why);
        Py_END_ALLOW_THREADS
        if (count == 0)
            PyErr_Format(state->no_device_error, "%s: %R is not available: %s", source, name, why);
        else if (ordinal >= count)
            PyErr_Format(state->no_device_error, "%s: %R is not available: there %s %d CUDA device%s", source,
                         name, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
        else
            device = cuda_device(ordinal);
    } else if (text) {
        PyErr_Format(PyExc_ValueError, "%s: expected 'cpu', 'cuda' or 'cuda:N', got %R", source, object);
    } else {
        PyErr_Format(PyExc_TypeError, "%s: expected a name such as 'cuda:0' or a Device, got %s", source,
                     Py_TYPE(object)->tp_name);
    }
    Py_XDECREF(name);
    return device;
}

struct device *device_named(const struct module_state *state, PyObject *object)
{
    return find_device(state, object, "device");
}

struct device *default_device(const struct module_state *state)
{
    const char *name = getenv("SMEMKIT_DEVICE"), *why;
    struct device *device = NULL;
    PyObject *text;
    int count;

    if (thread_device)
        return thread_device;
    if (name && *name) {
        text = PyUnicode_FromString(name);
        device = text ? find_device(state, text, "SMEMKIT_DEVICE") : NULL;
        Py_XDECREF(text);
        return device;
    }
    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    return count > 0 ? cuda_device(0) : cpu_device();
}

PyObject *core_set_default_device(PyObject *module, PyObject *name)
{
    struct device *device = name == Py_None ? NULL : device_named(state_of(module), name);
    PyObject *before;

    if (name != Py_None && !device)
        return NULL;
    before = thread_device ? PyUnicode_FromString(thread_device->name) : Py_NewRef(Py_None);
    if (before)
        thread_device = device;
    return before;
}

/* The type name of what the caller passed, if still known. */
static const char *type_name(const struct operand *operand)
{
    return Py_TYPE(operand->caller_object ? operand->caller_object : operand->owner)->tp_name;
}

bool read_device(const struct module_state *state, PyObject *object, const struct operand *operands, int count,
                 struct device **device)
{
    struct device *requested = object == Py_None ? NULL : device_named(state, object);
    struct device *first = operands[0].device;

    if (object != Py_None && !requested)
        return false;
    for (int i = 1; i < count; i++) {
        const struct device *other = operands[i].device;

        if (!first != !other) {
            const struct operand *on_host = &operands[first ? i : 0], *on_device = &operands[first ? 0 : i];

            PyErr_Format(PyExc_TypeError,
                         "operands: expected all NumPy arrays or all arrays on one device, got %s and %s on %s; "
                         "asarray() and .numpy() convert",
                         type_name(on_host), type_name(on_device), on_device->device->name);
            return false;
        }
        if (first != other) {
            PyErr_Format(PyExc_ValueError, "operands: expected arrays on one device, got %s and %s; .to() moves",
                         first->name, other->name);
            return false;
        }
    }
    if (first && requested && requested != first) {
        PyErr_Format(PyExc_ValueError, "device: the operands are on %s, got %s; .to() moves them", first->name,
                     requested->name);
        return false;
    }
    *device = first ? first : requested ? requested : default_device(state);
    return *device != NULL;
}

/* An integer, also as a ctypes object or a class with __int__: a new reference; None means 0. */
static PyObject *number_of(PyObject *object)
{
    PyObject *value, *number;

    if (object == Py_None)
        return PyLong_FromLong(0);
    if (PyIndex_Check(object))
        return PyNumber_Index(object);
    value = optional_attribute(object, "value");
    if (value && PyIndex_Check(value))
        number = PyNumber_Index(value);
    else
        number = value == Py_None ? PyLong_FromLong(0) : PyErr_Occurred() ? NULL : PyNumber_Long(object);
    Py_XDECREF(value);
    return number;
}

/* The handle in `__cuda_stream__`, (0, handle): a method, in older versions a property. */
static PyObject *number_in_interface(PyObject *interface)
{
    PyObject *pair = PyCallable_Check(interface) ? PyObject_CallNoArgs(interface) : Py_NewRef(interface);
    PyObject *tuple = pair ? PySequence_Tuple(pair) : NULL, *number = NULL;

    if (tuple && (PyTuple_GET_SIZE(tuple) != 2 || !PyLong_Check(PyTuple_GET_ITEM(tuple, 0)) ||
                  PyLong_AsLong(PyTuple_GET_ITEM(tuple, 0)) != 0)) {
        PyErr_Clear(); /* an overflow of the version */
        PyErr_Format(PyExc_ValueError, "expected (0, handle) of __cuda_stream__, got %R", pair);
    } else if (tuple) {
        number = number_of(PyTuple_GET_ITEM(tuple, 1));
    }
    Py_XDECREF(tuple);
    Py_XDECREF(pair);
    return number;
}

/* A stream's handle as a Python integer: the object itself, or an attribute, as in CuPy, torch and Numba. */
static PyObject *find_handle(PyObject *object, const char *name)
{
    static const char *const names[] = {"__cuda_stream__", "ptr", "cuda_stream", "handle"};
    PyObject *found = NULL, *number = NULL;

    if (PyIndex_Check(object) && !PyBool_Check(object))
        return PyNumber_Index(object);
    for (int i = 0; i < 4 && !found && !PyErr_Occurred() && !PyBool_Check(object); i++) {
        found = optional_attribute(object, names[i]);
        if (found)
            number = i == 0 ? number_in_interface(found) : number_of(found);
    }
    Py_XDECREF(found);
    if (found || PyErr_Occurred()) {
        if (!number)
            add_argument_name(name);
        return number;
    }
    return PyErr_Format(PyExc_TypeError, "%s: expected an integer or an object with __cuda_stream__, got %s", name,
                        Py_TYPE(object)->tp_name);
}

bool read_handle(PyObject *object, const char *name, const struct device *device, device_stream *stream)
{
    PyObject *number = NULL;

    *stream = NULL;
    if (device_is_host(device)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: the CPU device has no streams, expected None or a Stream of its own, got %s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    number = find_handle(object, name);
    if (!number)
        return false;
    *stream = (device_stream)(uintptr_t)PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s: expected a handle from 0 to 2**64 - 1, got %S", name, number);
        *stream = NULL;
    }
    if ((uintptr_t)*stream == LEGACY_STREAM)
        *stream = NULL;
    Py_DECREF(number);
    return !PyErr_Occurred();
}

bool read_stream_and_owner(const struct module_state *state, PyObject *object, const struct device *device,
                           device_stream *stream, PyObject **owner)
{
    struct stream *smemkit_stream = NULL;

    *stream = NULL;
    *owner = NULL;
    if (object == Py_None)
        smemkit_stream = thread_stream(state, device);
    else if (Py_IS_TYPE(object, state->stream_type))
        smemkit_stream = (struct stream *)Py_NewRef(object);
    else
        return read_handle(object, "stream", device, stream);
    if (!smemkit_stream)
        return true;
    if (smemkit_stream->device != device) {
        PyErr_Format(PyExc_ValueError, "stream: expected a stream of %s, got one of %s", device->name,
                     smemkit_stream->device->name);
        Py_DECREF(smemkit_stream);
        return false;
    }
    *stream = smemkit_stream->handle;
    if (smemkit_stream->keeps_handle_valid)
        *owner = (PyObject *)smemkit_stream;
    else
        Py_DECREF(smemkit_stream);
    return true;
}

bool read_stream(const struct module_state *state, PyObject *object, const struct device *device,
                 device_stream *stream)
{
    PyObject *owner;
    const bool ok = read_stream_and_owner(state, object, device, stream, &owner);

    Py_XDECREF(owner);
    return ok;
}
