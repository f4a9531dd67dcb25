/* Events on streams. */
#include "python/state.h"

#include <stdatomic.h>

#include "array.h"
#include "base/failure.h"
#include "device/device.h"
#include "lookup.h"
#include "python/arguments.h"
#include "python/errors.h"
#include "stream.h"

struct event *event_alloc(const struct module_state *state, struct device *device)
{
    struct event *event = (struct event *)state->event_type->tp_alloc(state->event_type, 0);

    if (event)
        event->device = device;
    return event;
}

static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", NULL};
    struct module_state *state = PyType_GetModuleState(type);
    PyObject *name = Py_None;
    struct device *device;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:Event", names, &name))
        return NULL;
    device = name == Py_None ? default_device(state) : device_named(state, name);
    return device ? (PyObject *)event_alloc(state, device) : NULL;
}

/* Called without the GIL. If two threads record at the same time, the later one counts. */
static bool record_event(struct event *event, device_stream stream, struct failure *failure)
{
    const struct device_type *type = event->device->type;
    device_event handle = atomic_load(&event->event), created = NULL;

    if (!handle) {
        if (!type->record_new_event(event->device, stream, &created, failure))
            return false;
        if (atomic_compare_exchange_strong(&event->event, &handle, created))
            return true;
        type->destroy_event(event->device, created);
    }
    return type->record_event(event->device, stream, handle, failure);
}

PyObject *event_check_recorded(const struct module_state *state, struct event *event, device_stream stream)
{
    struct failure failure = {0};
    bool ok = true;

    if (!event)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = record_event(event, stream, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(event);
        return raise_failure(state, &failure);
    }
    return (PyObject *)event;
}

PyObject *core_mark(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct device *device;
    device_stream stream = NULL;

    if (count != 1 && !read_count("mark", count, 2))
        return NULL;
    device = device_named(state, args[0]);
    if (!device || (count == 2 && !read_stream(state, args[1], device, &stream)))
        return NULL;
    return event_check_recorded(state, event_alloc(state, device), stream);
}

static PyObject *event_record(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", NULL};
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    PyObject *object = Py_None, *owner = NULL, *result;
    device_stream stream;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:record", names, &object) ||
        !read_stream_and_owner(state, object, ((struct event *)self)->device, &stream, &owner))
        return NULL;
    result = event_check_recorded(state, (struct event *)Py_NewRef(self), stream);
    Py_XDECREF(owner);
    Py_XDECREF(result);
    return result ? Py_NewRef(Py_None) : NULL;
}

static PyObject *event_synchronize(PyObject *self, PyObject *unused)
{
    struct event *event = (struct event *)self;
    device_event handle = atomic_load(&event->event);
    struct failure failure = {0};
    bool ok = true;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    ok = !handle || event->device->type->synchronize_event(event->device, handle, &failure);
    Py_END_ALLOW_THREADS
    return ok ? Py_NewRef(Py_None) : raise_failure(PyType_GetModuleState(Py_TYPE(self)), &failure);
}

static PyObject *event_done(PyObject *self, void *unused)
{
    struct event *event = (struct event *)self;
    device_event handle = atomic_load(&event->event);
    struct failure failure = {0};
    bool done = true, ok = true;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    ok = !handle || event->device->type->query_event(event->device, handle, &done, &failure);
    Py_END_ALLOW_THREADS
    return ok ? PyBool_FromLong(done) : raise_failure(PyType_GetModuleState(Py_TYPE(self)), &failure);
}

static PyObject *event_seconds_since(PyObject *self, PyObject *other)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct event *later = (struct event *)self, *earlier = (struct event *)other;
    device_event from, to = atomic_load(&later->event);
    struct failure failure = {0};
    double seconds = 0;
    bool ok = true;

    if (!Py_IS_TYPE(other, state->event_type) || earlier->device != later->device)
        return PyErr_Format(PyExc_TypeError, "earlier: expected an Event of %s, got %R", later->device->name,
                            other);
    from = atomic_load(&earlier->event);
    if (!from || !to)
        return PyErr_Format(PyExc_ValueError, "%s: expected an Event that has been recorded, got %R",
                            from ? "self" : "earlier", from ? self : other);
    Py_BEGIN_ALLOW_THREADS
    ok = later->device->type->seconds_between(later->device, from, to, &seconds, &failure);
    Py_END_ALLOW_THREADS
    return ok ? PyFloat_FromDouble(seconds) : raise_failure(state, &failure);
}

static PyObject *event_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct event *)self)->device->name);
}

static PyObject *event_repr(PyObject *self)
{
    struct event *event = (struct event *)self;

    return PyUnicode_FromFormat("<smemkit.Event device='%s'%s>", event->device->name,
                                atomic_load(&event->event) ? "" : " never recorded");
}

static void event_dealloc(PyObject *self)
{
    struct event *event = (struct event *)self;
    device_event handle = atomic_load(&event->event);
    PyTypeObject *type = Py_TYPE(self);

    if (handle) {
        Py_BEGIN_ALLOW_THREADS
        event->device->type->destroy_event(event->device, handle);
        Py_END_ALLOW_THREADS
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef event_methods[] = {
    {"record", (PyCFunction)(void (*)(void))event_record, METH_VARARGS | METH_KEYWORDS,
     "record(stream=None)\n--\n\n"
     "Records the point at which all work now on `stream` is done; the last recording counts.\n\n"
     "`stream` is anything that operations accept; the thread's current stream if None."},
    {"synchronize", event_synchronize, METH_NOARGS,
     "synchronize()\n--\n\nWaits until the event has occurred; returns at once if it was never recorded."},
    {"seconds_since", event_seconds_since, METH_O,
     "seconds_since(earlier, /)\n--\n\nWaits for this event; returns the seconds from `earlier` to it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef event_attributes[] = {
    {"device", event_device, NULL, "The device's name: 'cuda:0', 'cpu'.", NULL},
    {"done", event_done, NULL, "Whether the event has occurred; True if it was never recorded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const char event_doc[] =
    "Event(*, device=None)\n--\n\n"
    "A point in a device's stream, set by `record`; `Stream.record` returns a recorded event.\n\n"
    "Parameters\n"
    "----------\n"
    "device : str, optional\n"
    "    \"cuda:0\", \"cpu\"; the default device if None.\n\n"
    "Raises\n"
    "------\n"
    "NoDeviceError\n"
    "    `device` is not available.\n\n"
    "Examples\n"
    "--------\n"
    ">>> import smemkit\n"
    ">>> stream = smemkit.Stream(device=\"cpu\")\n"
    ">>> begin = stream.record()\n"
    ">>> _ = smemkit.sum(smemkit.zeros(1000, device=\"cpu\"), stream=stream)\n"
    ">>> stream.record().seconds_since(begin) > 0\n"
    "True\n";

static PyType_Slot event_slots[] = {
    {Py_tp_doc, (void *)event_doc},
    {Py_tp_new, event_new},
    {Py_tp_dealloc, event_dealloc},
    {Py_tp_repr, event_repr},
    {Py_tp_methods, event_methods},
    {Py_tp_getset, event_attributes},
    {0, NULL},
};

PyType_Spec event_spec = {
    .name = "smemkit.Event",
    .basicsize = sizeof(struct event),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = event_slots,
};
