/* Imports arrays by DLPack's C exchange API, which runs no Python code. */
#include "python/state.h"

#include <string.h>

#include "device/device.h"
#include "foreign.h"
#include "kernels.h"
#include "operand.h"
#include "python/arguments.h"
#include "stream.h"
#include "vendor/dlpack/dlpack.h"

/* The attribute of that name; NULL without an exception if there is none. */
static PyObject *get_attribute(PyObject *object, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name), *value = key ? PyObject_GetAttr(object, key) : NULL;

    Py_XDECREF(key);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

/* 1: the attribute is true, or a method that returns true; 0: it is false or missing; -1 with an exception */
static int is_attribute_true(PyObject *object, const char *name)
{
    PyObject *value = get_attribute(object, name);
    int truth = 0;

    if (value && PyCallable_Check(value))
        Py_SETREF(value, PyObject_CallNoArgs(value));
    if (value)
        truth = PyObject_IsTrue(value);
    else if (PyErr_Occurred())
        truth = -1;
    Py_XDECREF(value);
    if (truth < 0)
        add_argument_name(name);
    return truth;
}

/* The type's API table in this capsule, if it is complete and of our major version; otherwise NULL. */
static const DLPackExchangeAPI *find_api_table(PyObject *capsule)
{
    enum { MAX_OLDER_TABLES = 16 };
    const DLPackExchangeAPI *api;
    const DLPackExchangeAPIHeader *header = NULL;

    if (PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    for (int i = 0; header && header->version.major != DLPACK_MAJOR_VERSION && i < MAX_OLDER_TABLES; i++)
        header = header->prev_api;
    if (!header || header->version.major != DLPACK_MAJOR_VERSION)
        return NULL;
    api = (const DLPackExchangeAPI *)header;
    return api->managed_tensor_from_py_object_no_sync && api->current_work_stream ? api : NULL;
}

/* Exports the object by the table's function. NULL with an exception. */
static PyObject *export_by_api(const DLPackExchangeAPI *api, PyObject *object, const char *name)
{
    PyObject *owner = new_owner();
    DLManagedTensorVersioned *managed = NULL;

    if (!owner)
        return NULL;
    if (api->managed_tensor_from_py_object_no_sync(object, &managed) == 0 && managed) {
        foreign_of(owner)->managed = managed;
        foreign_of(owner)->versioned = true;
    }
    if (foreign_of(owner)->managed && !PyErr_Occurred())
        return owner;
    if (PyErr_Occurred())
        add_argument_name(name);
    else
        PyErr_Format(PyExc_BufferError, "%s: expected an array of the DLPack exchange API of %s, got none", name,
                     Py_TYPE(object)->tp_name);
    Py_DECREF(owner);
    return NULL;
}

/* The producer's current stream, on which it made and will use the array. */
static bool read_work_stream(const DLPackExchangeAPI *api, DLDevice dl_device, const char *name,
                             device_stream *stream)
{
    void *handle = NULL;
    const bool ok =
        api->current_work_stream(dl_device.device_type, dl_device.device_id, &handle) == 0 && !PyErr_Occurred();

    *stream = handle == (void *)1 ? NULL : handle; /* 1 is the legacy default stream */
    if (ok)
        return true;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError, "%s: expected the DLPack exchange API to return its stream, got none",
                     name);
    return add_argument_name(name);
}

/* Whether memory holds the elements' own values: torch has lazily conjugated and negated tensors, which DLPack
 * cannot describe. 1: yes. 0: they are conjugated, so the caller must try __dlpack__. -1 with an exception. */
static int is_plain(PyObject *object, const char *name, enum dtype dtype)
{
    const int conjugate = dtype & COMPLEX ? is_attribute_true(object, "is_conj") : 0;
    const int negative = conjugate ? 0 : is_attribute_true(object, "is_neg");

    if (negative > 0)
        PyErr_Format(PyExc_BufferError,
                     "%s: expected the elements in memory, got a lazily negated %s; .resolve_neg() "
                     "computes them",
                     name, Py_TYPE(object)->tp_name);
    return conjugate < 0 || negative ? -1 : !conjugate;
}

/* Fills the operand from the exchange API's tensor in owner, whose reference it steals. */
static int read_exchange_tensor(const struct module_state *state, PyObject *object, const char *name,
                                const DLPackExchangeAPI *api, PyObject *owner, enum use use,
                                struct operand *operand)
{
    const DLTensor *tensor = dl_tensor_of(foreign_of(owner), name);
    const DLDevice dl_device = tensor ? tensor->device : (DLDevice){0, 0};
    struct device *device =
        dl_is_cuda(dl_device.device_type) ? cuda_device_by_ordinal(state, name, dl_device.device_id) : NULL;
    device_stream owning_stream = NULL;
    int plain;

    if (tensor && !dl_is_cuda(dl_device.device_type) && !dl_is_host(dl_device.device_type))
        refuse_device(name, dl_device.device_type, dl_device.device_id);
    if (PyErr_Occurred() || (device && !read_work_stream(api, dl_device, name, &owning_stream))) {
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
    return plain < 0 ? -1 : TRY_DLPACK;
}

int find_by_exchange_api(const struct module_state *state, PyObject *object, const char *name, enum use use,
                         struct operand *operand)
{
    PyObject *capsule = get_attribute((PyObject *)Py_TYPE(object), "__dlpack_c_exchange_api__"), *owner;
    const DLPackExchangeAPI *api = capsule ? find_api_table(capsule) : NULL;
    int found = PyErr_Occurred() ? -1 : TRY_DLPACK, gradient;

    if (api) {
        gradient = is_attribute_true(object, "requires_grad");
        owner = gradient ? NULL : export_by_api(api, object, name);
        if (owner)
            found = read_exchange_tensor(state, object, name, api, owner, use, operand);
        else if (gradient < 0 || (!gradient && !has_other_protocol(object, "__dlpack__")))
            found = -1;
    }
    Py_XDECREF(capsule);
    return found;
}
