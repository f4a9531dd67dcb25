/* Exports Arrays to other libraries, by DLPack and the CUDA Array Interface. */
#include "python/state.h"

#include "array/array.h"
#include "array/stream.h"
#include "base/failure.h"
#include "device/device.h"
#include "kernels.h"
#include "methods.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "vendor/dlpack/dlpack.h"

/* ---- DLPack ---- */

/* The content of an exported capsule: one of the two tensors, then shape and strides in elements. */
struct exported {
    union {
        DLManagedTensor plain;
        DLManagedTensorVersioned versioned;
    } as;
    struct array *array;      /* strong reference */
    bool sync_before_release; /* the consumer's stream is not ordered before the memory's release */
    int64_t dims[];
};

static bool is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

/* Called from any thread, with or without the GIL. After interpreter shutdown the array is leaked. */
static void release_exported(struct exported *exported)
{
    struct device *device = exported->array->device;
    struct failure ignored = {0};
    PyObject *type, *value, *traceback;
    PyGILState_STATE gil;

    if (!Py_IsInitialized() || is_finalizing())
        return;
    gil = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &traceback);
    if (exported->sync_before_release) {
        Py_BEGIN_ALLOW_THREADS
        device->type->synchronize_device(device, &ignored);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF((PyObject *)exported->array);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(gil);
    PyMem_RawFree(exported);
}

static void release_plain(DLManagedTensor *managed)
{
    release_exported(managed->manager_ctx);
}

static void release_versioned(DLManagedTensorVersioned *managed)
{
    release_exported(managed->manager_ctx);
}

/* A capsule's destructor: if it still has its original name, its content was not consumed. */
static void drop_capsule(PyObject *capsule)
{
    const bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");

    if (versioned)
        release_exported(
            ((DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->manager_ctx);
    else if (PyCapsule_IsValid(capsule, "dltensor"))
        release_exported(((DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor"))->manager_ctx);
}

static DLDevice dl_device_of(const struct array *array)
{
    return device_is_host(array->device) ? (DLDevice){kDLCPU, 0} : (DLDevice){kDLCUDA, array->device->ordinal};
}

static DLDataType dl_dtype_of(enum dtype dtype)
{
    const uint8_t code = dtype & BOOL       ? kDLBool
                         : dtype & SIGNED   ? kDLInt
                         : dtype & UNSIGNED ? kDLUInt
                         : dtype & COMPLEX  ? kDLComplex
                         : dtype & BFLOAT16 ? kDLBfloat
                                            : kDLFloat;

    return (DLDataType){code, (uint8_t)(8 * dtype_bytes(dtype)), 1};
}

/* The newest version 1.x that a consumer of `max_version` understands; -1: none, it expects an unversioned
 * capsule. */
static int version_for(const int max_version[2])
{
    const int newest = DLPACK_MINOR_VERSION;

    if (max_version[0] != DLPACK_MAJOR_VERSION)
        return max_version[0] < DLPACK_MAJOR_VERSION ? -1 : newest;
    return max_version[1] < newest ? max_version[1] : newest;
}

/* `minor`: of the version 1.x, or -1. */
static PyObject *new_capsule(struct array *array, int minor, bool copied, bool sync_before_release)
{
    const bool versioned = minor >= 0;
    const int ndim = array->ndim;
    struct exported *exported = PyMem_RawCalloc(1, sizeof *exported + 2 * (size_t)ndim * sizeof *exported->dims);
    DLTensor *tensor;
    PyObject *capsule;

    if (!exported)
        return PyErr_NoMemory();
    tensor = versioned ? &exported->as.versioned.dl_tensor : &exported->as.plain.dl_tensor;
    *tensor = (DLTensor){.data = array->data,
                         .device = dl_device_of(array),
                         .ndim = ndim,
                         .dtype = dl_dtype_of(array->dtype),
                         .shape = exported->dims,
                         .strides = exported->dims + ndim};
    for (int i = 0; i < ndim; i++) {
        exported->dims[i] = array_shape(array)[i];
        exported->dims[ndim + i] = array_strides(array)[i] / (npy_intp)PyDataType_ELSIZE(array->descr);
    }
    exported->array = array;
    exported->sync_before_release = sync_before_release;
    if (versioned) {
        exported->as.versioned.version.major = DLPACK_MAJOR_VERSION;
        exported->as.versioned.version.minor = (uint32_t)minor;
        exported->as.versioned.manager_ctx = exported;
        exported->as.versioned.deleter = release_versioned;
        exported->as.versioned.flags =
            (array->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) | (copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0);
    } else {
        exported->as.plain.manager_ctx = exported;
        exported->as.plain.deleter = release_plain;
    }
    capsule = PyCapsule_New(&exported->as, versioned ? "dltensor_versioned" : "dltensor", drop_capsule);
    if (!capsule) {
        PyMem_RawFree(exported);
        return NULL;
    }
    Py_INCREF((PyObject *)array);
    return capsule;
}

/* The consumer's stream, in the array API's encoding. *unknown: -1, the consumer does not say. */
static bool read_consumer(PyObject *object, const struct array *array, device_stream *stream, bool *unknown)
{
    long long handle = 1; /* the legacy default stream */

    *unknown = false;
    *stream = NULL;
    if (object == Py_None)
        return true;
    if (device_is_host(array->device)) {
        PyErr_Format(PyExc_ValueError, "stream: the CPU device has no streams, expected None, got %R", object);
        return false;
    }
    if (PyLong_Check(object) && !PyBool_Check(object)) {
        handle = PyLong_AsLongLong(object);
        if (handle == -1 && PyErr_Occurred())
            return false;
    }
    if (!PyLong_Check(object) || PyBool_Check(object) || handle == 0 || handle < -1) {
        PyErr_Format(PyLong_Check(object) && !PyBool_Check(object) ? PyExc_ValueError : PyExc_TypeError,
                     "stream: expected None, -1, 1, 2 or the handle of a stream, got %R", object);
        return false;
    }
    *unknown = handle == -1;
    if (handle > 1)
        *stream = (device_stream)(intptr_t)handle;
    return true;
}

/* None, or a pair of integers. */
static bool read_pair(PyObject *object, const char *name, int pair[2], bool *given)
{
    *given = object != Py_None;
    if (!*given)
        return true;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2) {
        PyErr_Format(PyExc_TypeError, "%s: expected None or two integers, got %R", name, object);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const Py_ssize_t value = PyNumber_AsSsize_t(PyTuple_GET_ITEM(object, i), PyExc_OverflowError);

        if (value == -1 && PyErr_Occurred())
            return add_argument_name(name);
        pair[i] = value < INT32_MIN || value > INT32_MAX ? -1 : (int)value;
    }
    return true;
}

/* The array to export: the array itself, or a copy, on the host if requested. */
static struct array *array_to_export(struct array *array, PyObject *target, PyObject *copy)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE((PyObject *)array));
    const DLDevice own_device = dl_device_of(array);
    PyObject *name, *result;
    int target_pair[2];
    bool given, to_host;

    if (copy != Py_None && !PyBool_Check(copy)) {
        PyErr_Format(PyExc_TypeError, "copy: expected True, False or None, got %R", copy);
        return NULL;
    }
    if (!read_pair(target, "dl_device", target_pair, &given))
        return NULL;
    to_host = given && own_device.device_type != kDLCPU && target_pair[0] == kDLCPU && target_pair[1] == 0;
    if (given && !to_host &&
        (target_pair[0] != (int)own_device.device_type || target_pair[1] != own_device.device_id)) {
        PyErr_Format(PyExc_BufferError, "dl_device: an array on %s can be exported there%s, got %R",
                     array->device->name, own_device.device_type == kDLCPU ? "" : " and to the host, (1, 0)",
                     target);
        return NULL;
    }
    if (to_host && copy == Py_False) {
        PyErr_Format(PyExc_BufferError, "copy: False is impossible, the host has no access to memory of %s",
                     array->device->name);
        return NULL;
    }
    if (!to_host && copy != Py_True)
        return (struct array *)Py_NewRef((PyObject *)array);
    name = PyUnicode_FromString(to_host ? "cpu" : array->device->name);
    result = name ? as_array(state, (PyObject *)array, Py_None, name, Py_True) : NULL;
    Py_XDECREF(name);
    return (struct array *)result;
}

PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *stream = Py_None, *version = Py_None, *target = Py_None, *copy = Py_None, *capsule;
    struct failure failure = {0};
    struct array *array;
    device_stream consumer;
    int max_version[2] = {0, 0};
    bool given, unknown, ok = true;

    array_require_sync((struct array *)self);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &target,
                                     &copy) ||
        !read_pair(version, "max_version", max_version, &given) ||
        !read_consumer(stream, (struct array *)self, &consumer, &unknown))
        return NULL;
    array = array_to_export((struct array *)self, target, copy);
    if (!array)
        return NULL;
    if (array->readonly && max_version[0] < 1) {
        PyErr_SetString(PyExc_BufferError,
                        "this array is read-only, which DLPack can express from version 1.0 on; expected "
                        "max_version=(1, 0) or newer");
        ok = false;
    } else if (!device_is_host(array->device) && !unknown) {
        Py_BEGIN_ALLOW_THREADS
        ok = array->device->type->stream_wait_stream(array->device, consumer, array->owning_stream, &failure);
        Py_END_ALLOW_THREADS
        if (!ok)
            raise_failure(state, &failure);
    }
    capsule = ok ? new_capsule(array, version_for(max_version), (PyObject *)array != self,
                               !device_is_host(array->device) && (unknown || consumer != array->owning_stream) &&
                                   !array->device->type->is_capturing(array->device, consumer))
                 : NULL;
    Py_DECREF((PyObject *)array);
    return capsule;
}

PyObject *array_dlpack_device(PyObject *self, PyObject *unused)
{
    const DLDevice device = dl_device_of((struct array *)self);

    (void)unused;
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

/* ---- the CUDA Array Interface, version 3 ---- */

PyObject *array_interface(PyObject *self, void *unused)
{
    struct array *array = (struct array *)self;
    const uintptr_t stream =
        array->owning_stream ? (uintptr_t)array->owning_stream : 1; /* 1 is the legacy default stream */
    PyObject *type, *shape, *strides;

    (void)unused;
    array_require_sync(array);
    if (device_is_host(array->device))
        return PyErr_Format(PyExc_AttributeError,
                            "__cuda_array_interface__: this array is on the CPU device; .to('cuda:0') moves it");
    if (array->dtype == BFLOAT16)
        return PyErr_Format(
            PyExc_AttributeError,
            "__cuda_array_interface__: the protocol has no name for bfloat16; asarray(…, dtype='float32') "
            "converts");
    type = PyObject_GetAttrString((PyObject *)array->descr, "str");
    shape = shape_tuple(array->ndim, array_shape(array));
    strides = array_is_contiguous(array) ? Py_NewRef(Py_None) : shape_tuple(array->ndim, array_strides(array));
    if (!type || !shape || !strides) {
        Py_XDECREF(type);
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:N,s:(KO),s:N,s:i,s:K}", "shape", shape, "typestr", type, "data",
                         array->size ? (unsigned long long)(uintptr_t)array->data : 0ULL,
                         array->readonly ? Py_True : Py_False, "strides", strides, "version", 3, "stream",
                         (unsigned long long)stream);
}
