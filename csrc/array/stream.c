/* Streams: those that smemkit creates, those of other libraries that it wraps, and the thread's current one. */
#include "python/state.h"

#include <stdatomic.h>

#include "array.h"
#include "base/failure.h"
#include "device/device.h"
#include "lookup.h"
#include "python/errors.h"
#include "stream.h"

/* How many streams this thread has entered. Only an optimisation: if it is not 0, the list is looked up. */
static _Thread_local int entered;

/* A borrowed reference; NULL if there is none, with an exception only if `may_create`. */
static PyObject *entered_streams(const struct module_state *state, bool may_create)
{
    PyObject *thread_dict = PyThreadState_GetDict(), *key = (PyObject *)state->stream_type, *list;

    if (!thread_dict)
        return may_create ? PyErr_NoMemory() : NULL;
    list = PyDict_GetItemWithError(thread_dict, key);
    if (list || !may_create || PyErr_Occurred())
        return list;
    list = PyList_New(0);
    if (list && PyDict_SetItem(thread_dict, key, list) < 0)
        Py_CLEAR(list);
    Py_XDECREF(list); /* owned by the dictionary */
    return list;
}

bool stream_is_entered(void)
{
    return entered != 0;
}

struct stream *thread_stream(const struct module_state *state, const struct device *device)
{
    PyObject *list = entered ? entered_streams(state, false) : NULL;
    Py_ssize_t count = list ? PyList_GET_SIZE(list) : 0;

    if (count == 0)
        entered = 0; /* the streams belonged to an earlier Python thread on this system thread */
    while (count > 0) {
        struct stream *stream = (struct stream *)PyList_GET_ITEM(list, --count);

        if (stream->device == device)
            return (struct stream *)Py_NewRef((PyObject *)stream);
    }
    return NULL;
}

bool stream_is_synchronous(const struct module_state *state, struct device *device, device_stream handle)
{
    struct stream *stream = thread_stream(state, device);
    const bool synchronous = stream && stream->synchronous && stream->handle == handle;

    Py_XDECREF(stream);
    return synchronous && !device->type->is_capturing(device, handle);
}

PyObject *core_current_stream(PyObject *module, PyObject *name)
{
    struct module_state *state = state_of(module);
    struct device *device = name == Py_None ? default_device(state) : device_named(state, name);
    PyObject *stream = device ? (PyObject *)thread_stream(state, device) : NULL;

    return stream || !device ? stream : Py_NewRef(Py_None);
}

static PyObject *stream_enter(PyObject *self, PyObject *unused)
{
    PyObject *list = entered_streams(PyType_GetModuleState(Py_TYPE(self)), true);

    (void)unused;
    if (!list || PyList_Append(list, self) < 0)
        return NULL;
    entered++;
    return Py_NewRef(self);
}

/* Removes the stream from the list before it raises an exception, because the `with` block has ended. */
static PyObject *stream_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *list = entered_streams(PyType_GetModuleState(Py_TYPE(self)), false);
    const Py_ssize_t last = list ? PyList_GET_SIZE(list) - 1 : -1;
    Py_ssize_t position = last;

    (void)args;
    (void)count;
    while (position >= 0 && PyList_GET_ITEM(list, position) != self)
        position--;
    if (position < 0)
        return PyErr_Format(PyExc_RuntimeError, "%R exits in a thread that has not entered it", self);
    if (PyList_SetSlice(list, position, position + 1, NULL) < 0)
        return NULL;
    entered--;
    if (position != last)
        return PyErr_Format(PyExc_RuntimeError, "%R exits before a stream that was entered after it", self);
    Py_RETURN_NONE;
}

/* The device of a stream that wraps `source`: the CPU only if requested explicitly. */
static struct device *device_of_source(const struct module_state *state)
{
    struct device *device = default_device(state);
    PyObject *name;

    if (!device || !device_is_host(device))
        return device;
    name = PyUnicode_FromString("cuda");
    device = name ? device_named(state, name) : NULL;
    Py_XDECREF(name);
    return device;
}

/* Takes the source's handle and keeps the source alive; an integer keeps nothing alive. */
static bool wrap(const struct module_state *state, struct stream *stream, PyObject *source)
{
    const struct stream *smemkit_stream = Py_IS_TYPE(source, state->stream_type) ? (struct stream *)source : NULL;

    if (!smemkit_stream && !read_handle(source, "source", stream->device, &stream->handle))
        return false;
    if (smemkit_stream && smemkit_stream->device != stream->device) {
        PyErr_Format(PyExc_ValueError, "source: expected a stream of %s, got one of %s", stream->device->name,
                     smemkit_stream->device->name);
        return false;
    }
    if (smemkit_stream)
        stream->handle = smemkit_stream->handle;
    stream->keeps_handle_valid = smemkit_stream
                                     ? smemkit_stream->keeps_handle_valid
                                     : (uintptr_t)stream->handle > PER_THREAD_STREAM && !PyIndex_Check(source);
    stream->source = Py_NewRef(source);
    return true;
}

static bool create(const struct module_state *state, struct stream *stream)
{
    struct device *device = stream->device;
    struct failure failure = {0};
    bool ok;

    Py_BEGIN_ALLOW_THREADS
    ok = device->type->create_stream(device, &stream->handle, &failure);
    Py_END_ALLOW_THREADS
    if (!ok)
        raise_failure(state, &failure);
    stream->owns_handle = stream->keeps_handle_valid = stream->handle != NULL;
    return ok;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "device", "synchronous", NULL};
    struct module_state *state = PyType_GetModuleState(type);
    PyObject *source = Py_None, *name = Py_None;
    struct device *device;
    struct stream *stream;
    int synchronous = false;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$Op:Stream", names, &source, &name, &synchronous))
        return NULL;
    if (name != Py_None)
        device = device_named(state, name);
    else if (Py_IS_TYPE(source, state->stream_type))
        device = ((struct stream *)source)->device;
    else
        device = source == Py_None ? default_device(state) : device_of_source(state);
    stream = device ? (struct stream *)type->tp_alloc(type, 0) : NULL;
    if (!stream)
        return NULL;
    stream->device = device;
    stream->synchronous = synchronous;
    if (source == Py_None ? !create(state, stream) : !wrap(state, stream, source))
        Py_CLEAR(stream);
    return (PyObject *)stream;
}

/* No tp_clear: the handle belongs to the source, and is used until the Stream is destroyed. */
static int stream_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct stream *)self)->source);
    return 0;
}

/* Work that is enqueued on a stream of our own still runs; CUDA destroys the stream afterwards. */
static void stream_dealloc(PyObject *self)
{
    struct stream *stream = (struct stream *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (stream->owns_handle) {
        Py_BEGIN_ALLOW_THREADS
        stream->device->type->destroy_stream(stream->device, stream->handle);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(stream->source);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *stream_synchronize(PyObject *self, PyObject *unused)
{
    struct stream *stream = (struct stream *)self;
    struct failure failure = {0};
    bool ok = true;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    ok = stream->device->type->synchronize_stream(stream->device, stream->handle, &failure);
    Py_END_ALLOW_THREADS
    return ok ? Py_NewRef(Py_None) : raise_failure(PyType_GetModuleState(Py_TYPE(self)), &failure);
}

static PyObject *stream_done(PyObject *self, void *unused)
{
    struct stream *stream = (struct stream *)self;
    struct failure failure = {0};
    bool done = true, ok = true;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    ok = stream->device->type->query_stream(stream->device, stream->handle, &done, &failure);
    Py_END_ALLOW_THREADS
    return ok ? PyBool_FromLong(done) : raise_failure(PyType_GetModuleState(Py_TYPE(self)), &failure);
}

static PyObject *stream_record(PyObject *self, PyObject *unused)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct stream *stream = (struct stream *)self;

    (void)unused;
    return event_check_recorded(state, event_alloc(state, stream->device), stream->handle);
}

/* Called without the GIL. The event may belong to another device. On the CPU only the host can wait. */
static bool wait_for(struct stream *stream, struct device *device, device_event event, struct failure *failure)
{
    if (!event || device_is_host(device))
        return true;
    if (device_is_host(stream->device))
        return device->type->synchronize_event(device, event, failure);
    return stream->device->type->stream_wait_event(stream->device, stream->handle, event, failure);
}

static bool wait_for_stream(struct stream *stream, struct device *device, device_stream earlier,
                            struct failure *failure)
{
    device_event event = NULL;
    bool ok;

    if (device == stream->device && earlier == stream->handle)
        return true;
    ok = device->type->record_new_event(device, earlier, &event, failure) &&
         wait_for(stream, device, event, failure);
    device->type->destroy_event(device, event);
    return ok;
}

static PyObject *stream_wait(PyObject *self, PyObject *other)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct stream *stream = (struct stream *)self;
    struct event *event = Py_IS_TYPE(other, state->event_type) ? (struct event *)other : NULL;
    struct device *device = stream->device;
    device_stream earlier = NULL;
    struct failure failure = {0};
    bool ok = true;

    if (Py_IS_TYPE(other, state->stream_type)) {
        device = ((struct stream *)other)->device;
        earlier = ((struct stream *)other)->handle;
    } else if (!event && !read_handle(other, "other", device, &earlier)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ok = event ? wait_for(stream, event->device, atomic_load(&event->event), &failure)
               : wait_for_stream(stream, device, earlier, &failure);
    Py_END_ALLOW_THREADS
    return ok ? Py_NewRef(Py_None) : raise_failure(state, &failure);
}

static PyObject *stream_interface(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(iN)", 0, PyLong_FromVoidPtr(((struct stream *)self)->handle));
}

static PyObject *stream_handle(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct stream *)self)->handle);
}

static PyObject *stream_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct stream *)self)->device->name);
}

static PyObject *stream_synchronous(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct stream *)self)->synchronous);
}

static PyObject *stream_repr(PyObject *self)
{
    struct stream *stream = (struct stream *)self;
    PyObject *handle = PyLong_FromVoidPtr(stream->handle), *text = handle ? PyNumber_ToBase(handle, 16) : NULL;
    PyObject *result = NULL;

    if (text)
        result = PyUnicode_FromFormat("<smemkit.Stream device='%s' handle=%U>", stream->device->name, text);
    Py_XDECREF(text);
    Py_XDECREF(handle);
    return result;
}

static PyObject *stream_compare(PyObject *self, PyObject *other, int comparison)
{
    const struct stream *a = (struct stream *)self, *b = (struct stream *)other;

    if (Py_TYPE(self) != Py_TYPE(other) || (comparison != Py_EQ && comparison != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((a->device == b->device && a->handle == b->handle) == (comparison == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *self)
{
    const struct stream *stream = (struct stream *)self;
    const Py_hash_t hash = (Py_hash_t)((uintptr_t)stream->handle >> 4 ^ (uintptr_t)stream->device);

    return hash == -1 ? -2 : hash;
}

static PyMethodDef stream_methods[] = {
    {"synchronize", stream_synchronize, METH_NOARGS,
     "synchronize()\n--\n\nWaits until all work on the stream is done."},
    {"record", stream_record, METH_NOARGS,
     "record()\n--\n\nAn `Event` that occurs when all work now on the stream is done."},
    {"wait", stream_wait, METH_O,
     "wait(other, /)\n--\n\n"
     "Makes later work on this stream wait for `other`: an `Event`, or all work now on another stream.\n\n"
     "The host does not wait, unless this is a stream of the CPU device."},
    {"__cuda_stream__", stream_interface, METH_NOARGS,
     "__cuda_stream__()\n--\n\n(0, handle): the stream protocol for other libraries."},
    {"__enter__", stream_enter, METH_NOARGS,
     "__enter__()\n--\n\nMakes it this thread's current stream for its device."},
    {"__exit__", (PyCFunction)(void (*)(void))stream_exit, METH_FASTCALL,
     "__exit__(*exception)\n--\n\nRestores the previous current stream."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_attributes[] = {
    {"device", stream_device, NULL, "The device's name: 'cuda:0', 'cpu'.", NULL},
    {"handle", stream_handle, NULL,
     "CUDA's handle as an integer: 0 for the legacy default stream, and on the CPU device.", NULL},
    {"synchronous", stream_synchronous, NULL, "Whether operations wait for their work while it is current.", NULL},
    {"done", stream_done, NULL, "Whether all work on the stream is done.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const char stream_doc[] =
    "Stream(source=None, *, device=None, synchronous=False)\n--\n\n"
    "A stream: its work is done in order, concurrently with other streams.\n\n"
    "It can be passed as ``stream=``. As a context manager it becomes this thread's current\n"
    "stream, which calls on its device use by default. Arrays that are used on several streams are\n"
    "synchronised automatically. On the CPU device a call is complete when it returns, and a stream does "
    "nothing.\n\n"
    "Parameters\n"
    "----------\n"
    "source : optional\n"
    "    None: a new stream. Or the stream of another library, which is kept\n"
    "    alive: an object with ``__cuda_stream__``, or a stream of CuPy, torch or Numba. Or CUDA's handle as an\n"
    "    integer, which the caller keeps valid: 0 and 1 are the legacy default stream, 2 the per-thread one.\n"
    "device : str, optional\n"
    "    \"cuda:0\", \"cpu\"; if None, the default device, for a source the default CUDA device.\n"
    "synchronous : bool, optional\n"
    "    True: while it is the current stream, operations and copies on it return when their work is done, "
    "except\n"
    "    `zeros`, kernels of `Kernel`, and what is captured into a graph. Later work on the streams that own the\n"
    "    operands then need not wait for it. Threads that share a GPU wait less for each other that way.\n\n"
    "Raises\n"
    "------\n"
    "TypeError, ValueError\n"
    "    `source` is not a stream, or not of `device`.\n"
    "NoDeviceError\n"
    "    `device` is not available.\n\n"
    "Examples\n"
    "--------\n"
    ">>> import smemkit\n"
    ">>> stream = smemkit.Stream(device=\"cpu\")\n"
    ">>> with stream:\n"
    "...     x = smemkit.add_one(smemkit.zeros(3, device=\"cpu\"))\n"
    ">>> stream.synchronize()\n"
    ">>> stream.done\n"
    "True\n";

static PyType_Slot stream_slots[] = {
    {Py_tp_doc, (void *)stream_doc},   {Py_tp_new, stream_new},
    {Py_tp_dealloc, stream_dealloc},   {Py_tp_traverse, stream_traverse},
    {Py_tp_repr, stream_repr},         {Py_tp_richcompare, stream_compare},
    {Py_tp_hash, stream_hash},         {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_attributes}, {0, NULL},
};

PyType_Spec stream_spec = {
    .name = "smemkit.Stream",
    .basicsize = sizeof(struct stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = stream_slots,
};

bool refuse_capture(const struct module_state *state, const struct device *device, device_stream stream,
                    const char *what)
{
    struct device *gpu = (struct device *)device;
    struct stream *current;
    bool captured;

    captured = device->type->is_capturing(gpu, stream);
    current = captured ? NULL : thread_stream(state, device);
    if (current && current->handle != stream)
        captured = device->type->is_capturing(gpu, current->handle);
    Py_XDECREF(current);
    if (captured)
        PyErr_Format(state->error, "under graph capture %s", what);
    return !captured;
}
