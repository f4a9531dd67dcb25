/* Arrays that share another library's memory: from_dlpack and asarray. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/foreign.h"
#include "array/operand.h"
#include "array/retirement.h"
#include "base/failure.h"
#include "device/device.h"
#include "executor/memory.h"
#include "methods.h"
#include "ops/ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "python/layout.h"

/* Whether an Array can share the memory: native byte order, aligned elements. */
static bool is_native(const struct operand *operand)
{
    const npy_intp element = dtype_bytes(operand->dtype);
    bool aligned = (uintptr_t)operand->data % (uintptr_t)element == 0 || operand->size == 0;

    for (int i = 0; i < operand->layout.ndim; i++)
        aligned = aligned && (operand->layout.shape[i] < 2 || operand->layout.strides[i] % element == 0);
    return aligned && !operand->swapped;
}

/* Wraps the owner in a capsule that releases the memory once the device's work on it is done. */
static bool wrap_owner(struct operand *operand)
{
    npy_intp low, high;
    PyObject *owner;

    if (!PyCapsule_IsValid(operand->owner, FOREIGN_OWNER)) {
        owner = new_owner();
        if (!owner)
            return false;
        foreign_of(owner)->object = operand->owner;
        operand->owner = owner;
    }
    if (operand->device) {
        foreign_of(operand->owner)->sync_device = operand->device;
        return true;
    }
    operand->device = cpu_device();
    if (operand->size == 0)
        return true;
    layout_byte_range(&operand->layout, dtype_bytes(operand->dtype), &low, &high);
    if (memory_register(operand->data + low, (size_t)(high - low), &foreign_of(operand->owner)->registration))
        return true;
    PyErr_NoMemory();
    return false;
}

/* An Array that shares the operand's memory, which must be native. NULL with an exception. */
static PyObject *array_sharing_memory(const struct module_state *state, struct operand *operand)
{
    const size_t dims = (size_t)operand->layout.ndim * sizeof(npy_intp);
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    if (!wrap_owner(operand))
        return NULL;
    if (operand->owning_stream) {
        Py_BEGIN_ALLOW_THREADS
        ok = operand->device->type->stream_wait_stream(operand->device, NULL, operand->owning_stream, &failure);
        Py_END_ALLOW_THREADS
    }
    if (!ok)
        return raise_failure(state, &failure);
    array = (struct array *)state->array_type->tp_alloc(state->array_type, 2 * (Py_ssize_t)operand->layout.ndim);
    if (!array)
        return NULL;
    array->device = operand->device;
    array->data = operand->data;
    array->base = Py_NewRef(operand->owner);
    array->descr = (PyArray_Descr *)Py_NewRef((PyObject *)operand->descr);
    array->dtype = operand->dtype;
    array->readonly = operand->readonly;
    array->ndim = operand->layout.ndim;
    array->size = operand->size;
    array->bytes = (size_t)operand->size * (size_t)dtype_bytes(operand->dtype);
    memcpy(array_shape(array), operand->layout.shape, dims);
    memcpy(array_strides(array), operand->layout.strides, dims);
    return (PyObject *)array;
}

PyObject *array_from_foreign(const struct module_state *state, PyObject *object, const char *name, PyObject *copy)
{
    PyObject *result = NULL;
    struct operand operand = {0};

    if (find_foreign(state, object, name, Py_None, AS_GPU_ARRAY, &operand) <= 0)
        return NULL;
    if (is_native(&operand))
        result = array_sharing_memory(state, &operand);
    else if (copy == Py_False)
        refuse_foreign("copy", "False is impossible here, the elements must be moved or converted");
    else
        result = convert_to_native(state, object);
    drop_operand(&operand);
    return result;
}

PyObject *core_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    PyObject *array = NULL, *result;
    struct operand operand = {0};
    int implements;

    if (!read_count("from_dlpack", count, 3))
        return NULL;
    implements = implements_dlpack(args[0]);
    if (implements < 0)
        return NULL;
    if (Py_IS_TYPE(args[0], state->array_type)) {
        array = Py_NewRef(args[0]);
    } else if (!implements) {
        PyErr_Format(PyExc_TypeError, "x: expected an object with __dlpack__ and __dlpack_device__, got %s",
                     Py_TYPE(args[0])->tp_name);
    } else if (find_foreign(state, args[0], "x", Py_None, AS_ARRAY, &operand) > 0) {
        if (is_native(&operand))
            array = array_sharing_memory(state, &operand);
        else
            refuse_foreign(
                "x", "expected aligned elements, at multiples of their size; asarray() makes an aligned copy");
    }
    drop_operand(&operand);
    if (!array)
        return NULL;
    result = as_array(state, array, Py_None, args[1], args[2]);
    Py_DECREF(array);
    return result;
}
