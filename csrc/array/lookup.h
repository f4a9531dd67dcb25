/* Readers of the arguments `device` and `stream`. */
#ifndef SMEMKIT_ARRAY_LOOKUP_H
#define SMEMKIT_ARRAY_LOOKUP_H

#include "python/state.h"

#include "device/device.h"
#include "operand.h"

/* The device of a call: its operands', or, for NumPy operands, the device argument or the default device. */
bool read_device(const struct module_state *, PyObject *, const struct operand *operands, int count,
                 struct device **);
struct device *device_named(const struct module_state *, PyObject *name); /* NULL with an exception */
struct device *default_device(const struct module_state *);

/* The stream of a call: the `stream` argument, else the thread's current stream for the device, else the legacy
 * default stream. *owner, a new reference, is the Stream that keeps the handle alive; NULL for the default stream,
 * and for handles that nothing keeps alive, which must not be used after the call. `read_stream` returns the
 * handle only. */
bool read_stream_and_owner(const struct module_state *, PyObject *, const struct device *, device_stream *,
                           PyObject **owner);
bool read_stream(const struct module_state *, PyObject *, const struct device *, device_stream *);

/* The handle of another library's stream, or an integer; not for the CPU device. */
bool read_handle(PyObject *, const char *name, const struct device *, device_stream *);

PyObject *core_set_default_device(PyObject *module, PyObject *name);

#endif
