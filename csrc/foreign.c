/* Imports arrays of other libraries without a copy: by DLPack, else by the CUDA Array Interface. Their metadata is
 * validated as far as possible; a host pointer has to be trusted. csrc/interchange.c exports Arrays. */
#include "smemkit.h"

#include <pthread.h>

#include <string.h>

#include "dlpack_abi.h"
#include "executor/memory.h"

/* ---- owners of the memory ---- */

static const char owner_name[] = "smemkit.foreign";

/* The content of a capsule of this name: what a DLPack capsule held, whose deleter we must call, or the object
 * that owns the memory. */
struct foreign {
    PyObject *object; /* strong reference, or NULL */
    void *managed;    /* a dl_managed, or a dl_versioned, or NULL */
    bool versioned;
    struct device *waits; /* synchronised before the deleter is called; or NULL */
    void *loan;           /* registration with the CPU device; or NULL */
};

static void call_deleter(const struct foreign *foreign)
{
    struct dl_versioned *versioned = foreign->versioned ? foreign->managed : NULL;
    struct dl_managed *plain = foreign->versioned ? NULL : foreign->managed;

    if (versioned && versioned->deleter)
        versioned->deleter(versioned);
    if (plain && plain->deleter)
        plain->deleter(plain);
}

static void drop_foreign(PyObject *capsule)
{
    struct foreign *foreign = PyCapsule_GetPointer(capsule, owner_name);
    struct failure ignored = {0};
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (foreign->waits) {
        Py_BEGIN_ALLOW_THREADS
        foreign->waits->type->synchronize_device(foreign->waits, &ignored);
        Py_END_ALLOW_THREADS
    }
    memory_unregister(foreign->loan);
    call_deleter(foreign);
    Py_XDECREF(foreign->object);
    PyErr_Restore(type, value, traceback);
    PyMem_Free(foreign);
}

static struct foreign *foreign_of(PyObject *owner)
{
    return PyCapsule_GetPointer(owner, owner_name);
}

/* An empty owner capsule. NULL with an exception. */
static PyObject *new_owner(void)
{
    struct foreign *foreign = PyMem_Calloc(1, sizeof *foreign);
    PyObject *owner = foreign ? PyCapsule_New(foreign, owner_name, drop_foreign) : PyErr_NoMemory();

    if (!owner)
        PyMem_Free(foreign);
    return owner;
}

/* ---- owners that are kept alive until their work is done ---- */

struct retired {
    struct retired *next;
    struct device *device;
    device_event done;
    int count;
    PyObject *owners[MAX_KEPT_ALIVE];
};

/* Of the process, oldest first, protected by the lock; and spare ones, whose events are reused. */
static struct retired *first_retired, **last_retired = &first_retired, *spare_retired;
static int spares;
static pthread_mutex_t retiring = PTHREAD_MUTEX_INITIALIZER;

/* A new entry with an event recorded on the stream; NULL on failure. */
static struct retired *new_retired(struct device *device, device_stream stream)
{
    struct retired *retired, **link = &spare_retired;
    struct failure ignored = {0};
    bool ok;

    pthread_mutex_lock(&retiring);
    while ((retired = *link) && retired->device != device)
        link = &retired->next;
    if (retired) {
        *link = retired->next;
        spares--;
    }
    pthread_mutex_unlock(&retiring);
    if (retired) {
        ok = device->type->record(device, stream, retired->done, &ignored);
        if (!ok)
            device->type->drop(device, retired->done);
    } else {
        retired = PyMem_RawCalloc(1, sizeof *retired);
        ok = retired && device->type->mark(device, stream, &retired->done, &ignored);
    }
    if (ok) {
        retired->next = NULL;
        retired->device = device;
        return retired;
    }
    PyMem_RawFree(retired);
    return NULL;
}

/* Releases the entry's owners, and keeps it as a spare if there are few. */
static void release_retired(struct retired *retired)
{
    enum { MOST_SPARES = 32 };
    PyObject *owners[MAX_KEPT_ALIVE];
    const int count = retired->count;
    bool kept;

    memcpy(owners, retired->owners, sizeof owners);
    pthread_mutex_lock(&retiring);
    kept = spares < MOST_SPARES;
    if (kept) {
        retired->count = 0;
        retired->next = spare_retired;
        spare_retired = retired;
        spares++;
    }
    pthread_mutex_unlock(&retiring);
    if (!kept) {
        retired->device->type->drop(retired->device, retired->done);
        PyMem_RawFree(retired);
    }
    for (int i = 0; i < count; i++) {
        if (PyCapsule_IsValid(owners[i], owner_name))
            foreign_of(owners[i])->waits = NULL;
        Py_DECREF(owners[i]);
    }
}

/* Removes the oldest entry if its work is done or its device is lost; NULL otherwise. */
static struct retired *take_retired(void)
{
    struct failure ignored = {0};
    struct retired *retired;
    bool done = true;

    pthread_mutex_lock(&retiring);
    retired = first_retired;
    if (retired && retired->device->type->event_done(retired->device, retired->done, &done, &ignored) && !done)
        retired = NULL;
    if (retired) {
        first_retired = retired->next;
        if (!first_retired)
            last_retired = &first_retired;
    }
    pthread_mutex_unlock(&retiring);
    return retired;
}

void foreign_release_finished(void)
{
    struct retired *retired;

    while ((retired = take_retired()))
        release_retired(retired);
}

void foreign_keep_alive(struct device *device, device_stream stream, PyObject *const *owners, int count)
{
    const bool captured =
        device->type->capturing(device, stream); /* the caller who replays the graph keeps the arrays alive */
    struct failure ignored = {0};
    struct retired *retired = NULL;

    foreign_release_finished();
    Py_BEGIN_ALLOW_THREADS /* the stream's queue may be full */
    if (!captured && !(retired = new_retired(device, stream)))
        device->type->wait(device, stream, &ignored);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < count && !retired; i++) {
        if (captured && PyCapsule_IsValid(owners[i], owner_name))
            foreign_of(owners[i])->waits = NULL;
        Py_DECREF(owners[i]);
    }
    if (!retired)
        return;
    retired->count = count;
    memcpy(retired->owners, owners, (size_t)count * sizeof *owners);
    pthread_mutex_lock(&retiring);
    *last_retired = retired;
    last_retired = &retired->next;
    pthread_mutex_unlock(&retiring);
}

/* Takes ownership of the capsule's content, valid or not: from now on we call the deleter, once. */
static PyObject *take_capsule(PyObject *capsule, const char *name)
{
    const bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *managed;
    PyObject *owner;

    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
        if (PyCapsule_CheckExact(capsule))
            PyErr_Format(PyExc_BufferError, "%s: expected a capsule 'dltensor' that nobody has taken yet, got %R",
                         name, capsule);
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

/* ---- metadata ---- */

static bool refuse(const char *name, const char *what)
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

/* Checks for negative lengths, overflowing sizes and invalid addresses. */
static bool check_layout(const char *name, struct operand *operand, bool strided)
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
            return refuse(name, "expected a shape without negative lengths and of fewer than 2**63 bytes");
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
        return refuse(name, "expected the address of its elements, got a null pointer");
    if (!fits || __builtin_sub_overflow(high, low, &reach) || data < 0 - (uintptr_t)low ||
        data + (uintptr_t)high < data)
        return refuse(name, "expected strides and an offset that stay within the address space");
    return true;
}

static enum dtype dtype_of_dl(struct dl_dtype dl)
{
    static const unsigned kinds[] = {
        [DL_INT] = SIGNED,      [DL_UINT] = UNSIGNED,   [DL_FLOAT] = FLOATING & ~BFLOAT16,
        [DL_BFLOAT] = BFLOAT16, [DL_COMPLEX] = COMPLEX, [DL_BOOL] = BOOL};
    const unsigned kind = dl.code <= DL_BOOL && dl.lanes == 1 ? kinds[dl.code] : 0;

    for (int i = 0; i < DTYPES; i++)
        if (kind >> i & 1 && 8 * dtype_bytes((enum dtype)(1 << i)) == dl.bits)
            return (enum dtype)(1 << i);
    return 0;
}

/* Converts strides to bytes; the stride of a dimension of length 1 is ignored. */
static bool read_dl_layout(const struct dl_tensor *tensor, const char *name, struct operand *operand)
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
        return refuse(name, "expected strides and an offset that stay within the address space");
    operand->data = tensor->data ? (char *)data : NULL;
    if (!check_layout(name, operand, tensor->strides != NULL))
        return false;
    return fits || operand->size == 0 ||
           refuse(name, "expected strides and an offset that stay within the address space");
}

static bool is_cuda(int type)
{
    return type == DL_CUDA || type == DL_CUDA_MANAGED;
}

static bool is_host(int type)
{
    return type == DL_CPU || type == DL_CUDA_HOST;
}

/* The owner's tensor; NULL with an exception if its DLPack version is not supported. */
static const struct dl_tensor *tensor_of(const struct foreign *foreign, const char *name)
{
    const struct dl_versioned *versioned = foreign->versioned ? foreign->managed : NULL;

    if (!versioned)
        return &((struct dl_managed *)foreign->managed)->tensor;
    if (versioned->major == DL_MAJOR)
        return &versioned->tensor;
    PyErr_Format(PyExc_BufferError, "%s: expected DLPack 1, got version %u.%u", name, (unsigned)versioned->major,
                 (unsigned)versioned->minor);
    return NULL;
}

/* Reads the tensor, which must be on `device`; NULL is the host. */
static bool read_tensor(PyObject *owner, const struct device *device, const char *name, struct operand *operand)
{
    const struct foreign *foreign = foreign_of(owner);
    const struct dl_versioned *versioned = foreign->versioned ? foreign->managed : NULL;
    const struct dl_tensor *tensor = tensor_of(foreign, name);

    if (!tensor)
        return false;
    if (device ? !is_cuda(tensor->device.type) || tensor->device.id != device->ordinal
               : !is_host(tensor->device.type)) {
        PyErr_Format(PyExc_BufferError,
                     "%s: expected memory of %s, as __dlpack_device__ has it, got that of (%d, %d)", name,
                     device ? device->name : "the host", (int)tensor->device.type, (int)tensor->device.id);
        return false;
    }
    if (tensor->ndim < 0 || tensor->ndim > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "%s: expected 0 to %d dimensions, got %d", name, NPY_MAXDIMS,
                     (int)tensor->ndim);
        return false;
    }
    if (tensor->ndim && !tensor->shape)
        return refuse(name, "expected a shape, got a null pointer");
    operand->dtype = dtype_of_dl(tensor->dtype);
    if (!operand->dtype) {
        PyObject *list = dtype_list(EVERY);

        if (list)
            PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got DLPack's code %d with %d bits and %d lanes",
                         name, list, tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes);
        Py_XDECREF(list);
        return false;
    }
    operand->readonly = versioned && versioned->flags & DL_READ_ONLY;
    return read_dl_layout(tensor, name, operand);
}

/* ---- DLPack ---- */

enum use {
    AS_OPERAND,  /* of one call, on its stream; a NumPy array if on the host */
    AS_ARRAY,    /* an Array on the default stream; of the CPU device if on the host */
    AS_GPU_ARRAY /* the same, but not for host arrays */
};

/* object.__dlpack__(stream=…, max_version=…), or without max_version for older producers. */
static PyObject *ask_capsule(PyObject *object, const struct device *device, device_stream stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *capsule = NULL;
    PyObject *version = Py_BuildValue("(ii)", DL_MAJOR, DL_MINOR), *keywords = PyDict_New(),
             *nothing = PyTuple_New(0);
    PyObject *handle = PyLong_FromVoidPtr(stream ? stream : (void *)1); /* 1 is the legacy default stream */

    if (method && version && keywords && nothing && handle &&
        (!device || PyDict_SetItemString(keywords, "stream", handle) == 0) &&
        PyDict_SetItemString(keywords, "max_version", version) == 0) {
        capsule = PyObject_Call(method, nothing, keywords);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (PyDict_DelItemString(keywords, "max_version") == 0)
                capsule = PyObject_Call(method, nothing, keywords);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(version);
    Py_XDECREF(keywords);
    Py_XDECREF(nothing);
    Py_XDECREF(handle);
    return capsule;
}

/* Wraps the operand's host memory as a NumPy array. */
static bool wrap_host(struct operand *operand)
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

/* Whether the object has the other protocol as well, given by its method; clears the current exception if so. */
static bool has_another_way(PyObject *object, const char *method)
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

/* Fills the operand from the owner, whose reference it steals. 1, or -1 with an exception. */
static int fill_operand(PyObject *object, const char *name, PyObject *owner, struct device *device, enum use use,
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
    operand->given = Py_NewRef(object);
    return 1;
}

/* find_foreign for an object with DLPack on a known device; NULL is the host. */
static int read_dlpack(PyObject *object, const char *name, struct device *device, device_stream stream,
                       enum use use, struct operand *operand)
{
    PyObject *capsule = ask_capsule(object, device, stream), *owner, *type, *value, *traceback;

    if (!capsule && !device && use == AS_OPERAND && has_another_way(object, "__array__"))
        return 0;
    if (!capsule) {
        blame(name);
        return -1;
    }
    owner = take_capsule(capsule, name);
    PyErr_Fetch(&type, &value, &traceback); /* the destructor may run code that requires no pending exception */
    Py_DECREF(capsule);
    PyErr_Restore(type, value, traceback);
    if (!owner || fill_operand(object, name, owner, device, use, operand) < 0)
        return -1;
    operand->owning_stream = stream; /* the producer has synchronised this stream */
    operand->retire = device != NULL;
    return 1;
}

/* The CUDA device with this ordinal. NULL with an exception. */
static struct device *cuda_numbered(const struct module_state *state, const char *name, int ordinal)
{
    const char *why = NULL;
    int count;

    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    if (ordinal >= 0 && ordinal < count)
        return cuda_device(ordinal);
    if (count == 0)
        PyErr_Format(state->no_device_error, "%s: its memory is on a CUDA device, and none is here: %s", name,
                     why);
    else
        PyErr_Format(state->no_device_error, "%s: its memory is on CUDA device %d, there %s %d CUDA device%s here",
                     name, ordinal, count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    return NULL;
}

static void refuse_device(const char *name, int type, int id)
{
    PyErr_Format(PyExc_BufferError,
                 "%s: expected memory of the host or of a CUDA device, got DLPack's device (%d, %d)", name, type,
                 id);
}

/* ---- DLPack's C exchange API, which runs no Python code ---- */

enum { ASK_DLPACK = 2 }; /* a result of find_foreign: try __dlpack__ */

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
    const struct dl_tensor *tensor = tensor_of(foreign_of(owner), name);
    const struct dl_device place = tensor ? tensor->device : (struct dl_device){0, 0};
    struct device *device = is_cuda(place.type) ? cuda_numbered(state, name, place.id) : NULL;
    device_stream owning_stream = NULL;
    int plain;

    if (tensor && !is_cuda(place.type) && !is_host(place.type))
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

/* find_foreign for an object whose type has the exchange API. If that refuses, __dlpack__ is tried, which reports
 * the reason. */
static int find_exchanged(const struct module_state *state, PyObject *object, const char *name, enum use use,
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

/* 1: it has DLPack, on that device; 0: it has not; -1 with an exception */
static int read_dl_device(PyObject *object, const char *name, int *type, int *id)
{
    PyObject *class = (PyObject *)Py_TYPE(object), *pair;
    Py_ssize_t values[2] = {0, 0};

    if (!PyObject_HasAttrString(class, "__dlpack__") || !PyObject_HasAttrString(class, "__dlpack_device__"))
        return 0;
    pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    if (!pair) {
        blame(name);
        return -1;
    }
    for (int i = 0; i < 2 && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2; i++)
        values[i] = PyNumber_AsSsize_t(PyTuple_GET_ITEM(pair, i), NULL); /* clamps huge values */
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

/* ---- the CUDA Array Interface ---- */

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
            blame(name);
            return -1;
        }
    }
    return (int)PyTuple_GET_SIZE(tuple);
}

static bool read_interface_dtype(PyObject *text, const char *name, struct operand *operand)
{
    PyArray_Descr *descr = NULL;

    if (!text || !PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a text as 'typestr', got %R", name, text ? text : Py_None);
        return false;
    }
    if (!PyArray_DescrConverter(text, &descr))
        return blame(name);
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
            return refuse(name, "expected 'strides' to be as many as the lengths of 'shape'");
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
        return readonly >= 0 || blame(name);
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
    struct device *device = operand->size ? cuda_numbered(state, name, 0) : default_device(state);
    struct failure failure = {0};
    bool ok = true;

    if (device && device->ordinal < 0)
        device = cuda_numbered(state, name, 0);
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
        return refuse(name, "expected memory of a CUDA device, got an address that is none");
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

/* Reads a copy of the dict, because its values may run code that changes the original. */
static bool read_interface(const struct module_state *state, PyObject *interface, const char *name,
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

/* ---- all protocols ---- */

/* 1: it is one, and is the operand now; 0: it is none; -1 with an exception */
/* Whether the object has the CUDA Array Interface; keeps the current exception. */
static bool has_interface(PyObject *object)
{
    PyObject *type, *value, *traceback;
    bool has;

    PyErr_Fetch(&type, &value, &traceback);
    has = PyObject_HasAttrString(object, "__cuda_array_interface__");
    PyErr_Restore(type, value, traceback);
    return has;
}

static int find_foreign(const struct module_state *state, PyObject *object, const char *name,
                        PyObject *stream_argument, enum use use, struct operand *operand)
{
    int type = 0, id = 0, found, has = find_exchanged(state, object, name, use, operand);
    struct device *device;
    device_stream stream = NULL;
    PyObject *interface;
    bool ok;

    if (has != ASK_DLPACK)
        return has;
    has = read_dl_device(object, name, &type, &id);
    if (has < 0)
        return -1;
    if (has && is_host(type))
        return use == AS_GPU_ARRAY ? 0 : read_dlpack(object, name, NULL, NULL, use, operand);
    if (has && is_cuda(type)) {
        device = cuda_numbered(state, name, id);
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
            blame(name);
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
    operand->given = Py_NewRef(object);
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

/* ---- Arrays that share another library's memory ---- */

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
static bool own(struct operand *operand)
{
    npy_intp low, high;
    PyObject *owner;

    if (!PyCapsule_IsValid(operand->owner, owner_name)) {
        owner = new_owner();
        if (!owner)
            return false;
        foreign_of(owner)->object = operand->owner;
        operand->owner = owner;
    }
    if (operand->device) {
        foreign_of(operand->owner)->waits = operand->device;
        return true;
    }
    operand->device = cpu_device();
    if (operand->size == 0)
        return true;
    layout_byte_range(&operand->layout, dtype_bytes(operand->dtype), &low, &high);
    if (memory_register(operand->data + low, (size_t)(high - low), &foreign_of(operand->owner)->loan))
        return true;
    PyErr_NoMemory();
    return false;
}

/* An Array that shares the operand's memory, which must be native. NULL with an exception. */
static PyObject *array_over(const struct module_state *state, struct operand *operand)
{
    const size_t dims = (size_t)operand->layout.ndim * sizeof(npy_intp);
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    if (!own(operand))
        return NULL;
    if (operand->owning_stream) {
        Py_BEGIN_ALLOW_THREADS
        ok = operand->device->type->follow(operand->device, NULL, operand->owning_stream, &failure);
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
    PyObject *args[] = {object, Py_None, Py_None, Py_None, Py_None}, *result = NULL;
    struct operand operand = {0};

    if (find_foreign(state, object, name, Py_None, AS_GPU_ARRAY, &operand) <= 0)
        return NULL;
    if (is_native(&operand))
        result = array_over(state, &operand);
    else if (copy == Py_False)
        refuse("copy", "False is impossible here, the elements must be moved or converted");
    else
        result = core_convert(PyType_GetModule(state->array_type), args, 5);
    drop_operand(&operand);
    return result;
}

PyObject *core_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    PyObject *class, *forwarded[] = {NULL, Py_None, NULL, NULL}, *result = NULL;
    struct operand operand = {0};

    if (!read_count("from_dlpack", count, 3))
        return NULL;
    class = (PyObject *)Py_TYPE(args[0]);
    if (Py_IS_TYPE(args[0], state->array_type)) {
        forwarded[0] = Py_NewRef(args[0]);
    } else if (!PyObject_HasAttrString(class, "__dlpack__") ||
               !PyObject_HasAttrString(class, "__dlpack_device__")) {
        PyErr_Format(PyExc_TypeError, "x: expected an object with __dlpack__ and __dlpack_device__, got %s",
                     Py_TYPE(args[0])->tp_name);
    } else if (find_foreign(state, args[0], "x", Py_None, AS_ARRAY, &operand) > 0) {
        if (is_native(&operand))
            forwarded[0] = array_over(state, &operand);
        else
            refuse("x", "expected each element at a multiple of its length; asarray() copies it to such a place");
    }
    drop_operand(&operand);
    if (!forwarded[0])
        return NULL;
    forwarded[2] = args[1];
    forwarded[3] = args[2];
    result = core_asarray(module, forwarded, 4);
    Py_DECREF(forwarded[0]);
    return result;
}
