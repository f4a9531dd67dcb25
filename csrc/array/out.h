/* The result of a call: the caller's `out`, or a new array. */
#ifndef SMEMKIT_ARRAY_OUT_H
#define SMEMKIT_ARRAY_OUT_H

#include "python/state.h"

#include "device/device.h"
#include "operand.h"
#include "stream.h"

/* `out` must fit the result; if it is None, a result of `descr` is allocated. */
bool read_out(const struct module_state *, PyObject *, struct device *, bool host, PyArray_Descr *descr, int ndim,
              const npy_intp *shape, PyObject *stream, struct operand *);

#endif
