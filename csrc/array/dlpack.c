/* Imports arrays by DLPack's Python protocol: __dlpack__ and __dlpack_device__. */
#include "python/state.h"

#include "device/device.h"
#include "foreign.h"
#include "kernels.h"
#include "operand.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "stream.h"
#include "vendor/dlpack/dlpack.h"

/* Takes ownership of the capsule's content, valid or not: from now on we call the deleter, once. */
static PyObject *take_capsule(PyObject *capsule, const char *name)
{
    const bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *managed;
    PyObject *owner;

    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
        if (PyCapsule_CheckExact(capsule))
            PyErr_Format(PyExc_BufferError, "%s: expected an unconsumed capsule 'dltensor', got %R", name,
                         capsule);
        else
            PyErr_Format(PyExc_TypeError, "%s: expected __dlpack__ to return a capsule, got %s", name,
                         Py_TYPE(capsule)->tp_name);
        return NULL;
    }
    owner = new_owner();
    managed = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    if (!owner || PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor") < 0) {
        Py_XDECREF(owner);
        return NULL;
    }
    foreign_of(owner)->managed = managed;
    foreign_of(owner)->versioned = versioned;
    return owner;
}

bool refuse_foreign(const char *name, const char *what)
{
    PyErr_Format(PyExc_ValueError, "%s: %s", name, what);
    return false;
}

static void contiguous_strides(struct operand *operand, npy_intp step)
{
    struct layout *layout = &operand->layout;

    for (int i = layout->ndim - 1; i >= 0; i--) {
        layout->strides[i] = step;
        step *= layout->shape[i] ? layout->shape[i] : 1;
    }
}

bool check_layout(const char *name, struct operand *operand, bool strided)
{
    const npy_intp element = dtype_bytes(operand->dtype);
    struct layout *layout = &operand->layout;
    npy_intp bytes = element, low = 0, high = element, reach;
    const uintptr_t data = (uintptr_t)operand->data;
    bool fits = true;

    operand->size = 1;
    for (int i = 0; i < layout->ndim; i++) {
        const npy_intp length = layout->shape[i];

        if (length < 0 || __builtin_mul_overflow(bytes, length ? length : 1, &bytes))
            return refuse_foreign(name, "expected a shape without negative lengths and of fewer than 2**63 bytes");
        operand->size *= length;
    }
    if (!strided || operand->size == 0)
        contiguous_strides(operand, element);
    if (operand->size == 0)
        return true;
    for (int i = 0; i < layout->ndim; i++)
        fits = fits && !__builtin_mul_overflow(layout->shape[i] - 1, layout->strides[i], &reach) &&
               !__builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
    if (!data)
        return refuse_foreign(name, "expected the address of its elements, got a null pointer");
    if (!fits || __builtin_sub_overflow(high, low, &reach) || data < 0 - (uintptr_t)low ||
        data + (uintptr_t)high < data)
        return refuse_foreign(name, "expected strides and an offset that stay within the address space");
    return true;
}

static enum dtype dtype_of_dl(DLDataType dl)
{
    static const unsigned kinds[] = {
        [kDLInt] = SIGNED,      [kDLUInt] = UNSIGNED,   [kDLFloat] = FLOATING & ~BFLOAT16,
        [kDLBfloat] = BFLOAT16, [kDLComplex] = COMPLEX, [kDLBool] = BOOL};
    const unsigned kind = dl.code <= kDLBool && dl.lanes == 1 ? kinds[dl.code] : 0;

    for (int i = 0; i < DTYPES; i++)
        if (kind >> i & 1 && 8 * dtype_bytes((enum dtype)(1 << i)) == dl.bits)
            return (enum dtype)(1 << i);
    return 0;
}

/* Converts strides to bytes; the stride of a dimension of length 1 is ignored. */
static bool read_dl_layout(const DLTensor *tensor, const char *name, struct operand *operand)
{
    const npy_intp element = dtype_bytes(operand->dtype);
    struct layout *layout = &operand->layout;
    bool fits = true;
    uintptr_t data;

    layout->ndim = tensor->ndim;
    for (int i = 0; i < tensor->ndim; i++) {
        layout->shape[i] = tensor->shape[i];
        if (tensor->strides && __builtin_mul_overflow(tensor->strides[i], element, &layout->strides[i])) {
            layout->strides[i] = 0;
            fits = fits && tensor->shape[i] <= 1;
        }
    }
    if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &data) && tensor->data)
        return refuse_foreign(name, "expected strides and an offset that stay within the address space");
    operand->data = tensor->data ? (char *)data : NULL;
    if (!check_layout(name, operand, tensor->strides != NULL))
        return false;
    return fits || operand->size == 0 ||
           refuse_foreign(name, "expected strides and an offset that stay within the address space");
}

bool dl_is_cuda(int type)
{
    return type == kDLCUDA || type == kDLCUDAManaged;
}

bool dl_is_host(int type)
{
    return type == kDLCPU || type == kDLCUDAHost;
}

const DLTensor *dl_tensor_of(const struct foreign *foreign, const char *name)
{
    const DLManagedTensorVersioned *versioned = foreign->versioned ? foreign->managed : NULL;

    if (!versioned)
        return &((DLManagedTensor *)foreign->managed)->dl_tensor;
    if (versioned->version.major == DLPACK_MAJOR_VERSION)
        return &versioned->dl_tensor;
    PyErr_Format(PyExc_BufferError, "%s: expected DLPack 1, got version %u.%u", name,
                 (unsigned)versioned->version.major, (unsigned)versioned->version.minor);
    return NULL;
}

bool read_tensor(PyObject *owner, const struct device *device, const char *name, struct operand *operand)
{
    const struct foreign *foreign = foreign_of(owner);
    const DLManagedTensorVersioned *versioned = foreign->versioned ? foreign->managed : NULL;
    const DLTensor *tensor = dl_tensor_of(foreign, name);

    if (!tensor)
        return false;
    if (device ? !dl_is_cuda(tensor->device.device_type) || tensor->device.device_id != device->ordinal
               : !dl_is_host(tensor->device.device_type)) {
        PyErr_Format(PyExc_BufferError,
                     "%s: expected memory of %s, as __dlpack_device__ returned, got device (%d, %d)", name,
                     device ? device->name : "the host", (int)tensor->device.device_type,
                     (int)tensor->device.device_id);
        return false;
    }
    if (tensor->ndim < 0 || tensor->ndim > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "%s: expected 0 to %d dimensions, got %d", name, NPY_MAXDIMS,
                     (int)tensor->ndim);
        return false;
    }
    if (tensor->ndim && !tensor->shape)
        return refuse_foreign(name, "expected a shape, got a null pointer");
    operand->dtype = dtype_of_dl(tensor->dtype);
    if (!operand->dtype) {
        PyObject *list = dtype_list(EVERY);

        if (list)
            PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got DLPack's code %d with %d bits and %d lanes",
                         name, list, tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
        Py_XDECREF(list);
        return false;
    }
    operand->readonly = versioned && versioned->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    return read_dl_layout(tensor, name, operand);
}

/* object.__dlpack__(stream=…, max_version=…), or without max_version for older producers. */
static PyObject *request_capsule(PyObject *object, const struct device *device, device_stream stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *capsule = NULL;
    PyObject *version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION),
             *keywords = PyDict_New(), *no_args = PyTuple_New(0);
    PyObject *handle = PyLong_FromVoidPtr(stream ? stream : (void *)1); /* 1 is the legacy default stream */

    if (method && version && keywords && no_args && handle &&
        (!device || PyDict_SetItemString(keywords, "stream", handle) == 0) &&
        PyDict_SetItemString(keywords, "max_version", version) == 0) {
        capsule = PyObject_Call(method, no_args, keywords);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (PyDict_DelItemString(keywords, "max_version") == 0)
                capsule = PyObject_Call(method, no_args, keywords);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(version);
    Py_XDECREF(keywords);
    Py_XDECREF(no_args);
    Py_XDECREF(handle);
    return capsule;
}

bool wrap_host(struct operand *operand)
{
    struct layout *layout = &operand->layout;
    PyArrayObject *numpy;

    Py_INCREF(operand->descr);
    numpy = (PyArrayObject *)PyArray_NewFromDescr(
        &PyArray_Type, operand->descr, layout->ndim, layout->shape, operand->size ? layout->strides : NULL,
        operand->size ? operand->data : NULL, operand->readonly ? 0 : NPY_ARRAY_WRITEABLE, NULL);
    if (!numpy)
        return false;
    if (operand->size && PyArray_SetBaseObject(numpy, Py_NewRef(operand->owner)) <
                             0) { /* which steals the reference even on failure */
        Py_DECREF(numpy);
        return false;
    }
    if (operand->readonly)
        PyArray_CLEARFLAGS(numpy, NPY_ARRAY_WRITEABLE);
    Py_SETREF(operand->owner, (PyObject *)numpy);
    operand->data = PyArray_BYTES(numpy);
    for (int i = 0; i < layout->ndim; i++)
        layout->strides[i] = PyArray_STRIDE(numpy, i);
    return true;
}

bool has_other_protocol(PyObject *object, const char *method)
{
    PyObject *type, *value, *traceback;
    bool has = PyErr_ExceptionMatches(PyExc_BufferError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
               PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_RuntimeError);

    PyErr_Fetch(&type, &value, &traceback);
    has = has && PyObject_HasAttrString((PyObject *)Py_TYPE(object), method);
    PyErr_Restore(type, value, traceback);
    if (has)
        PyErr_Clear();
    return has;
}

int read_dlpack(PyObject *object, const char *name, struct device *device, device_stream stream, enum use use,
                struct operand *operand)
{
    PyObject *capsule = request_capsule(object, device, stream), *owner, *type, *value, *traceback;

    if (!capsule && !device && use == AS_OPERAND && has_other_protocol(object, "__array__"))
        return 0;
    if (!capsule) {
        add_argument_name(name);
        return -1;
    }
    owner = take_capsule(capsule, name);
    PyErr_Fetch(&type, &value, &traceback); /* the destructor may run code that requires no pending exception */
    Py_DECREF(capsule);
    PyErr_Restore(type, value, traceback);
    if (!owner || fill_operand(object, name, owner, device, use, operand) < 0)
        return -1;
    operand->owning_stream = stream; /* the producer has ordered its work before this stream */
    operand->retire = device != NULL;
    return 1;
}

struct device *cuda_device_by_ordinal(const struct module_state *state, const char *name, int ordinal)
{
    const char *why = NULL;
    int count;

    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    if (ordinal >= 0 && ordinal < count)
        return cuda_device(ordinal);
    if (count == 0)
        PyErr_Format(state->no_device_error, "%s: its memory is on a CUDA device, but none is available: %s", name,
                     why);
    else
        PyErr_Format(state->no_device_error, "%s: its memory is on CUDA device %d, but there %s %d CUDA device%s",
                     name, ordinal, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    return NULL;
}

void refuse_device(const char *name, int type, int id)
{
    PyErr_Format(PyExc_BufferError,
                 "%s: expected memory of the host or of a CUDA device, got DLPack's device (%d, %d)", name, type,
                 id);
}

int implements_dlpack(PyObject *object)
{
    PyObject *class = (PyObject *)Py_TYPE(object);
    const int has = has_attribute(class, "__dlpack__");

    return has > 0 ? has_attribute(class, "__dlpack_device__") : has;
}

int read_dl_device(PyObject *object, const char *name, int *type, int *id)
{
    PyObject *pair;
    Py_ssize_t values[2] = {0, 0};
    const int implements = implements_dlpack(object);

    if (implements <= 0)
        return implements;
    pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    if (!pair) {
        add_argument_name(name);
        return -1;
    }
    for (int i = 0; i < 2 && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 && !PyErr_Occurred(); i++)
        values[i] = PyNumber_AsSsize_t(PyTuple_GET_ITEM(pair, i), NULL); /* clamps huge values */
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) {
        Py_DECREF(pair);
        return -1;
    }
    PyErr_Clear();
    if (values[0] <= 0 || values[0] > INT32_MAX || values[1] < 0 || values[1] > INT32_MAX) {
        PyErr_Format(PyExc_TypeError, "%s: expected __dlpack_device__ to return a type and a number, got %R", name,
                     pair);
        Py_DECREF(pair);
        return -1;
    }
    *type = (int)values[0];
    *id = (int)values[1];
    Py_DECREF(pair);
    return 1;
}
