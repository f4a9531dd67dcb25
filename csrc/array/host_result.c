/* New NumPy arrays for results, whose memory NumPy frees through functions of ours (NumPy's NEP 49), because it
 * may be pinned. */
#include "host_result.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_BYTES = 64 << 10 }; /* whose download takes longer than the search for pinned memory */

static _Thread_local void *pinned; /* for the next allocation; NULL: none */

static void *allocate(void *context, size_t bytes)
{
    void *memory = pinned;

    (void)context;
    pinned = NULL;
    return memory ? memory : malloc(bytes);
}

static void *allocate_zeroed(void *context, size_t count, size_t bytes)
{
    (void)context;
    return calloc(count, bytes);
}

static void release(void *context, void *memory, size_t bytes)
{
    (void)context;
    if (memory && !cuda_release_pinned(memory, bytes))
        free(memory);
}

/* For ndarray.resize(). */
static void *reallocate(void *context, void *memory, size_t bytes)
{
    const size_t before = cuda_pinned_bytes(memory);
    void *moved;

    if (!before)
        return realloc(memory, bytes);
    moved = malloc(bytes);
    if (moved) {
        memcpy(moved, memory, before < bytes ? before : bytes);
        release(context, memory, before);
    }
    return moved;
}

/* NumPy's capsule of these functions, made once per process. A borrowed reference; NULL with an exception. */
static PyObject *find_handler(void)
{
    static PyDataMem_Handler handler = {"smemkit", 1, {NULL, allocate, allocate_zeroed, reallocate, release}};
    static _Atomic(PyObject *) made;
    PyObject *capsule = atomic_load(&made), *none = NULL;

    if (!capsule && (capsule = PyCapsule_New(&handler, "mem_handler", NULL)) &&
        !atomic_compare_exchange_strong(&made, &none, capsule)) {
        Py_DECREF(capsule);
        capsule = none;
    }
    return capsule;
}

static PyObject *new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    Py_INCREF(descr);
    return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, NULL, NULL, 0, NULL);
}

PyObject *new_host_result(struct device *device, PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    const npy_intp size = PyArray_OverflowMultiplyList(shape, ndim), itemsize = PyDataType_ELSIZE(descr);
    PyObject *handler, *before, *after, *result;
    void *memory;

    if (device_is_host(device) || size < LEAST_BYTES / itemsize || size > PY_SSIZE_T_MAX / itemsize)
        return new_array(descr, ndim, shape);
    if (!(handler = find_handler()) || !(before = PyDataMem_SetHandler(handler)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS /* it may wait for GPUs, whose host functions may wait for the GIL */
    memory = cuda_allocate_pinned(device, (size_t)(size * itemsize));
    Py_END_ALLOW_THREADS
    pinned = memory;
    result = new_array(descr, ndim, shape);
    if (pinned) /* there is no array */
        release(NULL, pinned, 0);
    pinned = NULL;
    if ((after = PyDataMem_SetHandler(before)))
        Py_DECREF(after);
    else
        Py_CLEAR(result);
    Py_DECREF(before);
    return result;
}
