/* Graphs for timing: a call captured many times and replayed. */
#include "python/state.h"

#include "array/array.h"
#include "array/lookup.h"
#include "array/stream.h"
#include "base/failure.h"
#include "call/call.h"
#include "device/device.h"
#include "module.h"
#include "python/errors.h"

struct graph {
    PyObject_HEAD struct device *device;
    device_stream stream;
    struct cuda_graph *graph;
    PyObject *call; /* keeps alive what the graph uses at every replay */
    int inner;
};

static bool call_repeatedly(struct graph *graph, int times)
{
    for (int i = 0; i < times; i++) {
        PyObject *result = PyObject_CallFunction(graph->call, "K", (unsigned long long)(uintptr_t)graph->stream);

        if (!result)
            return false;
        Py_DECREF(result);
    }
    return true;
}

static bool capture(struct module_state *state, struct graph *graph, size_t flush_bytes)
{
    struct failure failure = {0};
    PyObject *type, *value, *traceback;
    bool ok = true, called;

    Py_BEGIN_ALLOW_THREADS
    ok = graph->device->type->synchronize_device(graph->device, &failure) &&
         cuda_capture_begin(graph->device, graph->stream, flush_bytes, &graph->graph, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        raise_failure(state, &failure);
        return false;
    }
    called = call_repeatedly(graph, graph->inner);
    PyErr_Fetch(&type, &value, &traceback);
    Py_BEGIN_ALLOW_THREADS
    ok = cuda_capture_end(graph->graph, &failure);
    Py_END_ALLOW_THREADS
    if (!called)
        PyErr_Restore(type, value, traceback);
    else if (!ok)
        raise_failure(state, &failure);
    return called && ok;
}

static int graph_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"call", "device", "inner", "flush_bytes", "warmup", NULL};
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct graph *graph = (struct graph *)self;
    struct failure failure = {0};
    PyObject *call, *device;
    Py_ssize_t flush_bytes = 0;
    int warmup = 1;
    bool ok = true;

    if (graph->device) {
        PyErr_SetString(PyExc_RuntimeError, "a Graph can be captured only once");
        return -1;
    }
    graph->inner = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|ini:Graph", names, &call, &device, &graph->inner,
                                     &flush_bytes, &warmup))
        return -1;
    if (graph->inner < 1 || flush_bytes < 0 || warmup < 0) {
        PyErr_SetString(PyExc_ValueError,
                        "inner, flush_bytes, warmup: expected inner >= 1 and no negative number");
        return -1;
    }
    graph->device = device_named(state, device);
    if (!graph->device)
        return -1;
    if (device_is_host(graph->device)) {
        PyErr_SetString(PyExc_ValueError, "device: expected a CUDA device, the CPU device has no graphs");
        graph->device = NULL;
        return -1;
    }
    graph->call = Py_NewRef(call);
    Py_BEGIN_ALLOW_THREADS
    ok = graph->device->type->create_stream(graph->device, &graph->stream, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        raise_failure(state, &failure);
        return -1;
    }
    return call_repeatedly(graph, warmup) && capture(state, graph, (size_t)flush_bytes) ? 0 : -1;
}

static PyObject *graph_replay(PyObject *self, PyObject *unused)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct graph *graph = (struct graph *)self;
    struct failure failure = {0};
    double seconds = 0;
    bool ok = true;

    (void)unused;
    if (!graph->graph) {
        PyErr_SetString(PyExc_RuntimeError, "this Graph was never captured");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ok = cuda_graph_replay(graph->graph, &seconds, &failure);
    Py_END_ALLOW_THREADS
    return ok ? PyFloat_FromDouble(seconds / graph->inner) : raise_failure(state, &failure);
}

static int graph_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct graph *)self)->call);
    return 0;
}

static int graph_clear(PyObject *self)
{
    Py_CLEAR(((struct graph *)self)->call);
    return 0;
}

static void graph_dealloc(PyObject *self)
{
    struct graph *graph = (struct graph *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (graph->device) {
        struct failure ignored = {0};

        Py_BEGIN_ALLOW_THREADS
        if (graph->stream)
            graph->device->type->synchronize_stream(graph->device, graph->stream, &ignored);
        cuda_graph_destroy(graph->graph);
        if (graph->stream)
            graph->device->type->destroy_stream(graph->device, graph->stream);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(graph->call);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef graph_methods[] = {
    {"replay", graph_replay, METH_NOARGS,
     "replay()\n--\n\nRuns the graph once and waits; returns the seconds between its events, divided by `inner`."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_doc, "A CUDA graph of what call(stream) enqueues, `inner` times, between two events."},
    {Py_tp_init, graph_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_traverse, graph_traverse},
    {Py_tp_clear, graph_clear},
    {Py_tp_methods, graph_methods},
    {0, NULL},
};

PyType_Spec graph_spec = {
    .name = "smemkit._core.Graph",
    .basicsize = sizeof(struct graph),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = graph_slots,
};
