/* The types Stream and Event, and the current stream of each thread. */
#ifndef SMEMKIT_ARRAY_STREAM_H
#define SMEMKIT_ARRAY_STREAM_H

#include "python/state.h"

#include <stdatomic.h>

#include "device/device.h"

struct event {
    PyObject_HEAD struct device *device;
    _Atomic(device_event) event; /* NULL until first recorded; never changes afterwards */
};

/* False with an exception if the stream, or the thread's current one, is being captured into a graph; `what`
 * completes the message. */
bool refuse_capture(const struct module_state *, const struct device *, device_stream, const char *what);

enum { LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 }; /* CUDA's handles; NULL is the legacy one too */

struct stream {
    PyObject_HEAD struct device *device;
    device_stream handle;
    PyObject *source;        /* the wrapped object; NULL for a stream of our own */
    bool owns_handle;        /* the handle is destroyed with this object */
    bool keeps_handle_valid; /* the handle is valid as long as this object, and in every thread */
    bool synchronous;        /* operations wait for their work on it while it is current */
};

extern PyType_Spec stream_spec, event_spec;
bool stream_is_entered(void); /* whether the thread may have a current stream */

/* This thread's current stream for the device: a new reference, or NULL without an exception. */
struct stream *thread_stream(const struct module_state *, const struct device *);
/* Whether an operation of this thread on the device's stream waits for its work; never during capture. */
bool stream_is_synchronous(const struct module_state *, struct device *, device_stream);
PyObject *core_current_stream(PyObject *module, PyObject *name);
PyObject *core_mark(PyObject *module, PyObject *const *args, Py_ssize_t count);

struct event *event_alloc(const struct module_state *state, struct device *device);

/* Records `event` and returns it. Steals the reference. */
PyObject *event_check_recorded(const struct module_state *state, struct event *event, device_stream stream);

#endif
