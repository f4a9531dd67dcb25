/* Arrays: creation, views and destruction. */
#include "python/state.h"

#include <string.h>

#include "array.h"
#include "base/failure.h"
#include "device/allocation.h"
#include "device/device.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "python/layout.h"
#include "retirement.h"
#include "stream.h"

static void refuse_shape(int ndim, const npy_intp *shape)
{
    PyObject *actual = shape_tuple(ndim, shape);

    if (actual)
        PyErr_Format(PyExc_ValueError, "shape: expected no negative length and fewer than 2**63 bytes, got %R",
                     actual);
    Py_XDECREF(actual);
}

/* An Array whose shape, strides and memory are not set. NULL with an exception. */
static struct array *array_blank(PyTypeObject *type, struct device *device, PyArray_Descr *descr, int ndim)
{
    struct array *array = (struct array *)type->tp_alloc(type, 2 * (Py_ssize_t)ndim);

    if (!array)
        return NULL;
    array->device = device;
    Py_INCREF(descr);
    array->descr = descr;
    array->dtype = dtype_of(descr);
    array->ndim = ndim;
    array->size = 1;
    return array;
}

/* An array without memory, C-contiguous. NULL with an exception. */
static struct array *array_alloc(const struct module_state *state, struct device *device, PyArray_Descr *descr,
                                 int ndim, const npy_intp *shape)
{
    struct array *array = array_blank(state->array_type, device, descr, ndim);
    npy_intp step;

    if (!array)
        return NULL;
    array->bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) { /* a length of 0 counts as 1, so that strides are defined */
        array_shape(array)[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(array->bytes, shape[i] ? (size_t)shape[i] : 1, &array->bytes) ||
            array->bytes > PY_SSIZE_T_MAX) {
            refuse_shape(ndim, shape);
            Py_DECREF(array);
            return NULL;
        }
        array->size *= shape[i]; /* cannot overflow: not larger than the bytes */
    }
    step = PyDataType_ELSIZE(descr);
    for (int i = ndim - 1; i >= 0; i--) {
        array_strides(array)[i] = step;
        step *= shape[i] ? shape[i] : 1;
    }
    if (array->size == 0)
        array->bytes = 0;
    return array;
}

/* An array without memory. NULL with an exception, also during graph capture. */
static struct array *alloc_unless_capturing(const struct module_state *state, struct device *device,
                                            device_stream stream, PyArray_Descr *descr, int ndim,
                                            const npy_intp *shape)
{
    return refuse_capture(state, device, stream, "no array can be allocated; pass out= to the operation")
               ? array_alloc(state, device, descr, ndim, shape)
               : NULL;
}

struct array *array_new(const struct module_state *state, struct device *device, device_stream stream,
                        PyObject *owner, PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    array = alloc_unless_capturing(state, device, stream, descr, ndim, shape);
    if (!array)
        return NULL;
    array->owning_stream = owner ? stream : NULL;
    array->owning_stream_object = Py_XNewRef(owner);
    Py_BEGIN_ALLOW_THREADS
    ok = device_allocate(device, array->bytes, array->owning_stream, &array->memory, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        raise_failure(state, &failure);
        return NULL;
    }
    array->data = array->memory;
    return array;
}

struct array *array_new_in_result_slot(const struct module_state *state, struct device *device,
                                       PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    struct failure failure = {0};
    struct array *array;
    bool ok;

    array = alloc_unless_capturing(state, device, NULL, descr, ndim, shape);
    if (!array)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device_allocate_result_slot(device, &array->memory, &failure);
    Py_END_ALLOW_THREADS
    if (ok) {
        array->result = RESULT_PENDING;
        array->data = array->memory;
        return array;
    }
    Py_DECREF(array);
    return failure.kind == FAILURE_NONE ? array_new(state, device, NULL, NULL, descr, ndim, shape)
                                        : (struct array *)raise_failure(state, &failure);
}

struct array *array_view(struct array *source, npy_intp offset, const struct layout *layout)
{
    struct array *array = array_blank(Py_TYPE(source), source->device, source->descr, layout->ndim);

    if (!array)
        return NULL;
    memcpy(array_shape(array), layout->shape, (size_t)layout->ndim * sizeof(npy_intp));
    memcpy(array_strides(array), layout->strides, (size_t)layout->ndim * sizeof(npy_intp));
    array->size = layout_size(layout);
    array->bytes = (size_t)array->size * (size_t)PyDataType_ELSIZE(source->descr);
    array->data = array->size ? source->data + offset : source->data;
    array->base = Py_NewRef(source->base && array_check(source->base) ? source->base : (PyObject *)source);
    array->owning_stream = source->owning_stream;
    array->owning_stream_object = Py_XNewRef(source->owning_stream_object);
    array->readonly = source->readonly;
    array_require_sync((struct array *)array->base);
    array->result = ((struct array *)array->base)->result;
    return array;
}

bool array_is_contiguous(struct array *array)
{
    npy_intp step = PyDataType_ELSIZE(array->descr);

    for (int d = array->ndim - 1; d >= 0 && array->size; d--) {
        if (array_shape(array)[d] != 1 && array_strides(array)[d] != step)
            return false;
        step *= array_shape(array)[d];
    }
    return true;
}

struct layout array_layout(struct array *array)
{
    struct layout layout = {.ndim = array->ndim};

    memcpy(layout.shape, array_shape(array), (size_t)array->ndim * sizeof(npy_intp));
    memcpy(layout.strides, array_strides(array), (size_t)array->ndim * sizeof(npy_intp));
    return layout;
}

void array_dealloc(PyObject *self)
{
    struct array *array = (struct array *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (array->weakrefs)
        PyObject_ClearWeakRefs(self);
    if (array->memory) {
        Py_BEGIN_ALLOW_THREADS
        if (array->result != NO_RESULT_SLOT)
            device_release_result_slot(array->device, array->memory, array->result == RESULT_READY);
        else
            device_release(array->device, array->memory, array->owning_stream);
        Py_END_ALLOW_THREADS
    }
    if (array->base && !device_is_host(array->device) && PyCapsule_CheckExact(array->base)) {
        foreign_keep_alive(array->device, array->owning_stream, &array->base, 1);
        array->base = NULL;
    }
    Py_XDECREF(array->owning_stream_object);
    Py_XDECREF(array->base);
    Py_XDECREF(array->descr);
    type->tp_free(self);
    Py_DECREF(type);
}

bool array_check(PyObject *object)
{
    return Py_TYPE(object)->tp_dealloc == array_dealloc; /* the type has no subtypes */
}
