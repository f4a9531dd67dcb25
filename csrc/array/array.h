/* The type Array: an array in device memory. */
#ifndef SMEMKIT_ARRAY_ARRAY_H
#define SMEMKIT_ARRAY_ARRAY_H

#include "python/state.h"

#include <stdatomic.h>

#include "device/device.h"
#include "kernels.h"
#include "python/layout.h"

/* The state of an array that is a single number in memory that kernels write and the host can read directly.
 */
enum result {
    NO_RESULT_SLOT,
    RESULT_PENDING,    /* written by one kernel, which may not have finished */
    RESULT_READY,      /* written by that kernel, which has finished */
    RESULT_NEEDS_SYNC, /* possibly written by others: a reader synchronises the stream */
};

/* An array in device memory, in native byte order. It owns its memory, or is a view of its base's. */
struct array {
    PyObject_VAR_HEAD struct device *device;
    char *data;                     /* element 0, …, 0 */
    void *memory;                   /* owned; NULL for a view */
    PyObject *base;                 /* owner of a view's memory: an Array, or another library's object */
    device_stream owning_stream;    /* orders the use and the release of the memory */
    PyObject *owning_stream_object; /* keeps that stream alive; NULL for the default stream */
    PyObject *weakrefs;
    PyArray_Descr *descr;
    enum dtype dtype;
    bool readonly;
    _Atomic(enum result) result; /* atomic: threads may read and write the array at the same time */
    int ndim;
    npy_intp size;   /* elements */
    size_t bytes;    /* of all elements */
    npy_intp dims[]; /* the shape, then the strides in bytes */
};

static inline npy_intp *array_shape(struct array *array)
{
    return array->dims;
}

static inline npy_intp *array_strides(struct array *array)
{
    return array->dims + array->ndim;
}

/* A new uninitialised array, whose memory belongs to the stream that `owner` keeps alive, or to the default stream
 * if that is NULL. NULL with an exception. */
struct array *array_new(const struct module_state *, struct device *, device_stream, PyObject *owner,
                        PyArray_Descr *descr, int ndim, const npy_intp *shape);

/* A view of another array, whose element 0, …, 0 is `offset` bytes after the other's. */
struct array *array_view(struct array *, npy_intp offset, const struct layout *);
struct layout array_layout(struct array *);
bool array_is_contiguous(struct array *); /* in C order; true for empty arrays */

/* From now on other kernels may write the array. */
static inline void array_require_sync(struct array *array)
{
    if (array->result != NO_RESULT_SLOT) /* which never changes */
        array->result = RESULT_NEEDS_SYNC;
}

/* A new array for a kernel's single number, in memory that the host can read directly if possible. */
struct array *array_new_in_result_slot(const struct module_state *, struct device *, PyArray_Descr *descr,
                                       int ndim, const npy_intp *shape);
bool array_check(PyObject *); /* whether the object is an Array */

void array_dealloc(PyObject *self);

#endif
