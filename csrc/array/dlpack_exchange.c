/* Imports arrays by DLPack's C exchange API, which runs no Python code. */
#include "python/state.h"

#include <string.h>

#include "device/device.h"
#include "foreign.h"
#include "kernels.h"
#include "operand.h"
#include "python/arguments.h"
#include "stream.h"
#include "dlpack_abi.h"

/* The attribute of that name; NULL without an exception if there is none. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name), *value = key ? PyObject_GetAttr(object, key) : NULL;

    Py_XDECREF(key);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

/* 1: the attribute is true, or a method that returns true; 0: not; -1 with an exception */
static int says(PyObject *object, const char *name)
{
    PyObject *value = attribute(object, name);
    int truth = 0;

    if (value && PyCallable_Check(value))
        Py_SETREF(value, PyObject_CallNoArgs(value));
    if (value)
        truth = PyObject_IsTrue(value);
    else if (PyErr_Occurred())
        truth = -1;
    Py_XDECREF(value);
    if (truth < 0)
        blame(name);
    return truth;
}

/* The type's API table in this capsule, if it is complete and of our major version; otherwise NULL. */
static const struct dl_exchange_api *table_in(PyObject *capsule)
{
    enum { MOST_OLDER = 16 };
    const struct dl_exchange_api *api;
    const struct dl_api_header *header = NULL;

    if (PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    for (int i = 0; header && header->major != DL_MAJOR && i < MOST_OLDER; i++)
        header = header->older;
    if (!header || header->major != DL_MAJOR)
        return NULL;
    api = (const struct dl_exchange_api *)header;
    return api->from_object && api->work_stream ? api : NULL;
}

/* Exports the object by the table's function. NULL with an exception. */
static PyObject *take_exchanged(const struct dl_exchange_api *api, PyObject *object, const char *name)
{
    PyObject *owner = new_owner();
    struct dl_versioned *managed = NULL;

    if (!owner)
        return NULL;
    if (api->from_object(object, &managed) == 0 && managed) {
        foreign_of(owner)->managed = managed;
        foreign_of(owner)->versioned = true;
    }
    if (foreign_of(owner)->managed && !PyErr_Occurred())
        return owner;
    if (PyErr_Occurred())
        blame(name);
    else
        PyErr_Format(PyExc_BufferError, "%s: expected an array of the DLPack exchange API of %s, got none", name,
                     Py_TYPE(object)->tp_name);
    Py_DECREF(owner);
    return NULL;
}

/* The producer's current stream, on which it made and will use the array. */
static bool read_work_stream(const struct dl_exchange_api *api, struct dl_device place, const char *name,
                             device_stream *stream)
{
    void *handle = NULL;
    const bool ok = api->work_stream(place.type, place.id, &handle) == 0 && !PyErr_Occurred();

    *stream = handle == (void *)1 ? NULL : handle; /* 1 is the legacy default stream */
    if (ok)
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError, "%s: expected the DLPack exchange API to tell its stream, got none", name);
    return blame(name);
}

/* Whether memory holds the elements themselves: torch has lazily conjugated and negated tensors, which DLPack
 */
static int is_plain(PyObject *object, const char *name, enum dtype dtype)
{
    const int conjugate = dtype & COMPLEX ? says(object, "is_conj") : 0;
    const int negative = conjugate ? 0 : says(object, "is_neg");

    if (negative > 0)
        PyErr_Format(PyExc_BufferError,
                     "%s: expected the elements themselves in memory, got a %s of their negatives; .resolve_neg() "
                     "makes them",
                     name, Py_TYPE(object)->tp_name);
    return conjugate < 0 || negative ? -1 : !conjugate;
}

/* Fills the operand from the exchange API's tensor in owner, whose reference it steals. */
static int read_exchanged(const struct module_state *state, PyObject *object, const char *name,
                          const struct dl_exchange_api *api, PyObject *owner, enum use use,
                          struct operand *operand)
{
    const struct dl_tensor *tensor = dl_tensor_of(foreign_of(owner), name);
    const struct dl_device place = tensor ? tensor->device : (struct dl_device){0, 0};
    struct device *device = dl_is_cuda(place.type) ? cuda_numbered(state, name, place.id) : NULL;
    device_stream owning_stream = NULL;
    int plain;

    if (tensor && !dl_is_cuda(place.type) && !dl_is_host(place.type))
        refuse_device(name, place.type, place.id);
    if (PyErr_Occurred() || (device && !read_work_stream(api, place, name, &owning_stream))) {
        Py_DECREF(owner);
        return -1;
    }
    if (!device && use == AS_GPU_ARRAY) {
        Py_DECREF(owner);
        return 0;
    }
    if (fill_operand(object, name, owner, device, use, operand) < 0)
        return -1;
    operand->owning_stream = owning_stream; /* on which its memory is released, after our use */
    plain = is_plain(object, name, operand->dtype);
    if (plain > 0)
        return 1;
    drop_operand(operand);
    memset(operand, 0, sizeof *operand);
    return plain < 0 ? -1 : ASK_DLPACK;
}

int find_exchanged(const struct module_state *state, PyObject *object, const char *name, enum use use,
                   struct operand *operand)
{
    PyObject *capsule = attribute((PyObject *)Py_TYPE(object), "__dlpack_c_exchange_api__"), *owner;
    const struct dl_exchange_api *api = capsule ? table_in(capsule) : NULL;
    int found = PyErr_Occurred() ? -1 : ASK_DLPACK, gradient;

    if (api) {
        gradient = says(object, "requires_grad");
        owner = gradient ? NULL : take_exchanged(api, object, name);
        if (owner)
            found = read_exchanged(state, object, name, api, owner, use, operand);
        else if (gradient < 0 || (!gradient && !has_another_way(object, "__dlpack__")))
            found = -1;
    }
    Py_XDECREF(capsule);
    return found;
}
