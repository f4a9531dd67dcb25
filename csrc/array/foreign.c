/* Imports arrays of other libraries: tries the protocols in turn. */
#include "python/state.h"

#include <string.h>

#include "base/failure.h"
#include "device/device.h"
#include "executor/memory.h"
#include "foreign.h"
#include "lookup.h"
#include "operand.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "stream.h"
#include "vendor/dlpack/dlpack.h"

static void call_deleter(const struct foreign *foreign)
{
    DLManagedTensorVersioned *versioned = foreign->versioned ? foreign->managed : NULL;
    DLManagedTensor *plain = foreign->versioned ? NULL : foreign->managed;

    if (versioned && versioned->deleter)
        versioned->deleter(versioned);
    if (plain && plain->deleter)
        plain->deleter(plain);
}

static void drop_foreign(PyObject *capsule)
{
    struct foreign *foreign = PyCapsule_GetPointer(capsule, FOREIGN_OWNER);
    struct failure ignored = {0};
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (foreign->sync_device) {
        Py_BEGIN_ALLOW_THREADS
        foreign->sync_device->type->synchronize_device(foreign->sync_device, &ignored);
        Py_END_ALLOW_THREADS
    }
    memory_unregister(foreign->registration);
    call_deleter(foreign);
    Py_XDECREF(foreign->object);
    PyErr_Restore(type, value, traceback);
    PyMem_Free(foreign);
}

struct foreign *foreign_of(PyObject *owner)
{
    return PyCapsule_GetPointer(owner, FOREIGN_OWNER);
}

PyObject *new_owner(void)
{
    struct foreign *foreign = PyMem_Calloc(1, sizeof *foreign);
    PyObject *owner = foreign ? PyCapsule_New(foreign, FOREIGN_OWNER, drop_foreign) : PyErr_NoMemory();

    if (!owner)
        PyMem_Free(foreign);
    return owner;
}

int fill_operand(PyObject *object, const char *name, PyObject *owner, struct device *device, enum use use,
                 struct operand *operand)
{
    operand->owner = owner;
    if (!read_tensor(owner, device, name, operand) || !(operand->descr = dtype_descr(operand->dtype)) ||
        (!device && use == AS_OPERAND && !wrap_host(operand))) {
        Py_CLEAR(operand->owner);
        Py_CLEAR(operand->descr);
        return -1;
    }
    operand->device = device;
    operand->caller_object = Py_NewRef(object);
    return 1;
}

/* Whether the object has the CUDA Array Interface; keeps the current exception, also if the lookup fails. */
static bool has_interface(PyObject *object)
{
    PyObject *type, *value, *traceback;
    bool has;

    PyErr_Fetch(&type, &value, &traceback);
    has = PyObject_HasAttrString(object, "__cuda_array_interface__");
    PyErr_Restore(type, value, traceback);
    return has;
}

int find_foreign(const struct module_state *state, PyObject *object, const char *name, PyObject *stream_argument,
                 enum use use, struct operand *operand)
{
    int type = 0, id = 0, found, has = find_by_exchange_api(state, object, name, use, operand);
    struct device *device;
    device_stream stream = NULL;
    PyObject *interface;
    bool ok;

    if (has != TRY_DLPACK)
        return has;
    has = read_dl_device(object, name, &type, &id);
    if (has < 0)
        return -1;
    if (has && dl_is_host(type))
        return use == AS_GPU_ARRAY ? 0 : read_dlpack(object, name, NULL, NULL, use, operand);
    if (has && dl_is_cuda(type)) {
        device = cuda_device_by_ordinal(state, name, id);
        ok = device && (use != AS_OPERAND || read_stream(state, stream_argument, device, &stream));
        found = ok ? read_dlpack(object, name, device, stream, use, operand) : -1;
        /* CuPy 14 reports wrong negative strides by DLPack, and right ones by the CUDA Array Interface */
        if (found >= 0 || !PyErr_ExceptionMatches(PyExc_ValueError) || !has_interface(object))
            return found;
        PyErr_Clear();
        memset(operand, 0, sizeof *operand);
    }
    interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
    if (!interface) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            add_argument_name(name);
            return -1;
        }
        PyErr_Clear();
        if (has)
            refuse_device(name, type, id);
        return has ? -1 : 0;
    }
    ok = read_interface(state, interface, name, stream_argument, use, operand);
    Py_DECREF(interface);
    if (!ok)
        return -1;
    operand->owner = Py_NewRef(object);
    operand->caller_object = Py_NewRef(object);
    return 1;
}

int read_foreign(const struct module_state *state, PyObject *object, const char *name, PyObject *stream_argument,
                 struct operand *operand)
{
    const int found = find_foreign(state, object, name, stream_argument, AS_OPERAND, operand);

    if (found <= 0)
        memset(operand, 0, sizeof *operand);
    return found;
}
