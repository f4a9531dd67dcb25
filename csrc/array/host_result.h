/* New NumPy arrays for results. */
#ifndef SMEMKIT_ARRAY_HOST_RESULT_H
#define SMEMKIT_ARRAY_HOST_RESULT_H

#include "python/state.h"

#include "device/device.h"

/* An uninitialised array to which a result of the device is copied; in pinned memory if that pays. It owns its
 * memory as any other does. NULL with an exception. */
PyObject *new_host_result(struct device *, PyArray_Descr *, int ndim, const npy_intp *shape);

#endif
