/* Functions and methods that make arrays. */
#include "python/state.h"

#include "array/array.h"
#include "array/lookup.h"
#include "array/operand.h"
#include "array/out.h"
#include "array/retirement.h"
#include "array/stream.h"
#include "base/failure.h"
#include "call/call.h"
#include "device/device.h"
#include "kernels.h"
#include "methods.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"

PyObject *array_from(const struct module_state *state, struct device *device, PyObject *object, enum dtype dtype,
                     int type_num)
{
    struct call call = {.device = device, .inputs = 1};
    PyObject *stream_owner = NULL, *out = NULL, *result = NULL;
    PyArray_Descr *descr = NULL;

    if (!read_stream_and_owner(state, Py_None, device, &call.stream, &stream_owner) ||
        !read_operand(state, object, "obj", Py_None, &call.in[0]))
        goto done;
    call.in_view[0] = call.in[0].layout;
    call.result = dtype ? dtype : call.in[0].dtype;
    call.type_num = dtype ? type_num : call.in[0].descr->type_num;
    descr = warn_complex(call.in[0].dtype, call.result) ? dtype_descr_as(call.result, call.type_num) : NULL;
    out = descr ? (PyObject *)array_new(state, device, call.stream, stream_owner, descr, call.in_view[0].ndim,
                                        call.in_view[0].shape)
                : NULL;
    if (out && read_out(state, out, device, false, descr, call.in_view[0].ndim, call.in_view[0].shape, Py_None,
                        &call.out))
        result = call_run_copy(state, &call, false);

done:
    if (!result)
        call_fail(&call);
    Py_XDECREF(out);
    Py_XDECREF(descr);
    Py_XDECREF(stream_owner);
    return result;
}

PyObject *array_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return array_from(PyType_GetModuleState(Py_TYPE(self)), ((struct array *)self)->device, self, 0, 0);
}

PyObject *array_deepcopy(PyObject *self, PyObject *memo)
{
    (void)memo;
    return array_copy(self, NULL);
}

/* Whether it has a dtype; 0 is its own, whichever that is. */
static bool has_type(const struct array *array, enum dtype dtype, int type_num)
{
    return !dtype || (dtype == array->dtype && type_num == array->descr->type_num);
}

PyObject *array_astype(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    struct array *array = (struct array *)self;
    PyObject *requested_dtype = NULL;
    enum dtype dtype = 0;
    int copy = true, type_num = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p:astype", names, &requested_dtype, &copy) ||
        !read_dtype(requested_dtype, EVERY, &dtype, &type_num))
        return NULL;
    if (!copy && has_type(array, dtype, type_num))
        return Py_NewRef(self);
    return array_from(PyType_GetModuleState(Py_TYPE(self)), array->device, self, dtype, type_num);
}

/* Copies a C-contiguous array between the memories of two GPUs. */
static PyObject *copy_between(const struct module_state *state, struct array *from, struct device *device)
{
    struct failure failure = {0};
    device_stream stream;
    PyObject *owner = NULL;
    struct array *to = NULL;
    bool ok = false;

    if (read_stream_and_owner(state, Py_None, device, &stream, &owner) &&
        refuse_capture(state, device, stream, "no array can be copied to another device") &&
        refuse_capture(state, from->device, from->owning_stream, "no array can be copied to another device"))
        to = array_new(state, device, stream, owner, from->descr, from->ndim, array_shape(from));
    if (to) {
        const bool wait = stream_is_synchronous(state, device, stream);

        Py_BEGIN_ALLOW_THREADS
        ok = cuda_copy_between(&(struct device_span){device, to->data, to->owning_stream},
                               &(struct device_span){from->device, from->data, from->owning_stream}, from->bytes,
                               wait, &failure);
        Py_END_ALLOW_THREADS
        if (!ok) {
            raise_failure(state, &failure);
            Py_CLEAR(to);
        }
    }
    Py_XDECREF(owner);
    return (PyObject *)to;
}

/* Whether it can be copied there from GPU to GPU; a single number that the host reads directly cannot. */
static bool is_between_gpus(const struct array *array, const struct device *device)
{
    return !device_is_host(device) && !device_is_host(array->device) && array->result == NO_RESULT_SLOT;
}

/* A copy of an array on another device, of a dtype or, if that is 0, its own. */
static PyObject *copy_to(const struct module_state *state, struct array *array, struct device *device,
                         enum dtype dtype, int type_num)
{
    PyObject *source, *result;

    if (!is_between_gpus(array, device)) {
        source = array_numpy((PyObject *)array, NULL);
        result = source ? array_from(state, device, source, dtype, type_num) : NULL;
    } else if (!has_type(array, dtype, type_num) || !array_is_contiguous(array)) {
        source = array_from(state, array->device, (PyObject *)array, dtype, type_num);
        result = source ? copy_between(state, (struct array *)source, device) : NULL;
    } else {
        return copy_between(state, array, device);
    }
    Py_XDECREF(source);
    return result;
}

PyObject *array_to(PyObject *self, PyObject *name)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct array *array = (struct array *)self;
    struct device *device = device_named(state, name);

    if (!device)
        return NULL;
    return device == array->device ? Py_NewRef(self) : copy_to(state, array, device, 0, 0);
}

PyObject *array_to_device(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "stream", NULL};
    PyObject *device, *stream = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$O:to_device", names, &device, &stream))
        return NULL;
    if (stream != Py_None)
        return PyErr_Format(PyExc_ValueError, "stream: expected None, got %R; `with Stream():` sets the stream",
                            stream);
    return array_to(self, device);
}

/* Returns an Array itself, or an Array that shares another library's GPU memory: a new reference. NULL for
 * anything else, with or without an exception. */
static struct array *read_array(const struct module_state *state, PyObject *object, PyObject *copy)
{
    if (array_check(object))
        return (struct array *)Py_NewRef(object);
    return PyArray_Check(object) ? NULL : (struct array *)array_from_foreign(state, object, "obj", copy);
}

/* Converts `object` to an Array on the requested device and dtype; `array` is its device array, or NULL. */
static PyObject *convert_to_array(const struct module_state *state, PyObject *object, struct array *array,
                                  struct device *device, enum dtype dtype, int type_num, PyObject *copy)
{
    if (array && has_type(array, dtype, type_num) && array->device == device && copy != Py_True)
        return Py_NewRef((PyObject *)array);
    if (copy == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "copy: False is impossible here, the elements must be moved or converted");
        return NULL;
    }
    return array && array->device != device
               ? copy_to(state, array, device, dtype, type_num)
               : array_from(state, device, array ? (PyObject *)array : object, dtype, type_num);
}

PyObject *as_array(const struct module_state *state, PyObject *object, PyObject *dtype_object,
                   PyObject *device_object, PyObject *copy)
{
    struct array *array = NULL;
    struct device *device = NULL;
    PyObject *result = NULL;
    enum dtype dtype = 0;
    int type_num = 0;

    if (!read_dtype(dtype_object, EVERY, &dtype, &type_num))
        return NULL;
    if (copy != Py_None && !PyBool_Check(copy))
        return PyErr_Format(PyExc_TypeError, "copy: expected True, False or None, got %R", copy);
    if (device_object != Py_None && !(device = device_named(state, device_object)))
        return NULL;
    array = read_array(state, object, copy);
    if (!array && PyErr_Occurred())
        return NULL;
    if (!device)
        device = array ? array->device : default_device(state);
    if (device)
        result = convert_to_array(state, object, array, device, dtype, type_num, copy);
    Py_XDECREF(array);
    return result;
}

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return read_count("asarray", count, 4) ? as_array(state_of(module), args[0], args[1], args[2], args[3]) : NULL;
}

/* A new array on the thread's current stream. */
static struct array *new_on_current_stream(struct module_state *state, struct device *device, PyArray_Descr *descr,
                                           const PyArray_Dims *shape)
{
    device_stream stream;
    PyObject *owner = NULL;
    struct array *result = NULL;

    if (read_stream_and_owner(state, Py_None, device, &stream, &owner))
        result = array_new(state, device, stream, owner, descr, shape->len, shape->ptr);
    Py_XDECREF(owner);
    return result;
}

static struct array *read_new(struct module_state *state, PyObject *const *args)
{
    PyArray_Descr *descr = NULL;
    PyArray_Dims shape = {NULL, 0};
    struct device *device;
    struct array *result = NULL;
    enum dtype dtype = FLOAT32;
    int type_num = 0;

    if (PyArray_IntpConverter(args[0], &shape) && read_dtype(args[1], EVERY, &dtype, &type_num) &&
        (descr = dtype_descr_as(dtype, type_num))) {
        device = args[2] == Py_None ? default_device(state) : device_named(state, args[2]);
        if (device)
            result = new_on_current_stream(state, device, descr, &shape);
    }
    PyDimMem_FREE(shape.ptr);
    Py_XDECREF(descr);
    return result;
}

PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return read_count("empty", count, 3) ? (PyObject *)read_new(state_of(module), args) : NULL;
}

PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    if (!read_count("zeros", count, 3) || !(array = read_new(state, args)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = array->device->type->fill(array->device, array->memory, 0, array->bytes, array->owning_stream, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        return raise_failure(state, &failure);
    }
    return (PyObject *)array;
}
