/* The extension module smemkit._core: its functions, its types, its exceptions. */
#define SMEMKIT_IMPORTS_NUMPY
#include "smemkit.h"

#include "executor/executor.h"
#include "executor/fiber.h"

struct module_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

/* ---- the table ---- */

static PyObject *tuple_of_ints(const int *values)
{
    PyObject *list = PyList_New(0), *tuple;

    for (; list && *values >= 0; values++) {
        PyObject *item = PyLong_FromLong(*values);

        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* The names whose condition holds, in order. */
static PyObject *tuple_of_names(const char *const *names, const bool *holds, int count)
{
    PyObject *list = PyList_New(0), *tuple;

    for (int i = 0; list && i < count; i++) {
        PyObject *item = holds[i] ? PyUnicode_FromString(names[i]) : NULL;

        if (holds[i] && (!item || PyList_Append(list, item) < 0))
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *row_devices(const struct kernel_row *row)
{
    static const char *const names[] = {"cuda", "cpu"};
    bool holds[] = {false, cpu_launchers[row->index] != NULL};

#ifdef SMEMKIT_CUDA
    holds[0] = cuda_launchers[row->index] != NULL;
#endif
    return tuple_of_names(names, holds, 2);
}

static PyObject *row_dtypes(const struct kernel_row *row)
{
    const char *names[DTYPES];
    bool holds[DTYPES];

    for (int i = 0; i < DTYPES; i++) {
        names[i] = dtype_name((enum dtype)(1 << i));
        holds[i] = row->dtypes & (1u << i);
    }
    return tuple_of_names(names, holds, DTYPES);
}

static const char *needs_name(enum needs needs)
{
    switch (needs) {
    case HOST:
        return "host";
    case SM_80:
        return "sm_80";
    case SM_90A:
        return "sm_90a";
    default:
        return "any";
    }
}

static PyObject *row_dict(const struct kernel_row *row)
{
    char file[128];

    PyOS_snprintf(file, sizeof file, "%s/%02d_%s.%s", op_names[row->op], row->order, row->name,
                  row->needs == HOST ? "c" : "cu");
    return Py_BuildValue("{s:s,s:s,s:i,s:s,s:N,s:N,s:N,s:N,s:O,s:O,s:s,s:s}", "op", op_names[row->op], "name",
                         row->name, "order", row->order, "needs", needs_name(row->needs), "devices",
                         row_devices(row), "dtypes", row_dtypes(row), "sizes", tuple_of_ints(row->sizes), "pads",
                         tuple_of_ints(row->pads), "ceiling", row->ceiling ? Py_True : Py_False, "choice",
                         row->choice ? Py_True : Py_False, "summary", row->summary, "file", file);
}

static PyObject *core_kernel_rows(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module;
    (void)unused;
    for (int i = 0; list && i < kernel_row_count; i++) {
        PyObject *row = row_dict(&kernel_rows[i]);

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* {(op, old name): name} */
static PyObject *core_renamed_kernels(PyObject *module, PyObject *unused)
{
    PyObject *names = PyDict_New();

    (void)module;
    (void)unused;
    for (const struct kernel_rename *rename = kernel_renames; names && rename->name; rename++) {
        PyObject *old = Py_BuildValue("(ss)", op_names[rename->op], rename->old_name);
        PyObject *name = PyUnicode_FromString(rename->name);

        if (!old || !name || PyDict_SetItem(names, old, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(old);
        Py_XDECREF(name);
    }
    return names;
}

static PyObject *core_launches(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(launch_count());
}

/* ---- devices ---- */

static PyObject *core_device_names(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);
    const char *why;
    int count;

    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    for (int i = 0; list && i <= count; i++) {
        PyObject *name = PyUnicode_FromString((i < count ? cuda_device(i) : cpu_device())->name);

        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *core_cuda_unavailable(PyObject *module, PyObject *unused)
{
    const char *why = NULL;
    int count;

    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    return count > 0 ? Py_NewRef(Py_None) : PyUnicode_FromString(why);
}

static PyObject *core_device_properties(PyObject *module, PyObject *name)
{
    struct module_state *state = state_of(module);
    struct device *device = device_named(state, name);
    struct device_properties p = {0};
    struct failure failure = {0};
    bool ok = true;

    if (!device)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device->ordinal < 0 ? cpu_properties(&p, &failure) : cuda_properties(device, &p, &failure);
    Py_END_ALLOW_THREADS
    if (!ok)
        return raise_failure(state, &failure);
    return Py_BuildValue(
        "{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:n,s:n,s:n,s:i,s:i,s:n,s:n,s:n,s:n,s:i,s:i,s:i,s:i,s:i}", "description",
        p.description, "capability_major", p.capability_major, "capability_minor", p.capability_minor,
        "multiprocessors", p.multiprocessors, "max_threads_per_block", p.max_threads_per_block,
        "max_threads_per_multiprocessor", p.max_threads_per_multiprocessor, "warp_size", p.warp_size,
        "shared_per_block", (Py_ssize_t)p.shared_per_block, "shared_per_block_optin",
        (Py_ssize_t)p.shared_per_block_optin, "shared_per_multiprocessor", (Py_ssize_t)p.shared_per_multiprocessor,
        "registers_per_multiprocessor", p.registers_per_multiprocessor, "max_blocks_per_multiprocessor",
        p.max_blocks_per_multiprocessor, "shared_reserved_per_block", (Py_ssize_t)p.shared_reserved_per_block,
        "l2_bytes", (Py_ssize_t)p.l2_bytes, "memory_bytes", (Py_ssize_t)p.memory_bytes, "free_bytes",
        (Py_ssize_t)p.free_bytes, "driver_version", p.driver_version, "runtime_version", p.runtime_version,
        "clock_khz", p.clock_khz, "memory_clock_khz", p.memory_clock_khz, "memory_bus_bits", p.memory_bus_bits);
}

static PyObject *core_default_device(PyObject *module, PyObject *unused)
{
    struct device *device = default_device(state_of(module));

    (void)unused;
    return device ? PyUnicode_FromString(device->name) : NULL;
}

static PyObject *core_synchronize(PyObject *module, PyObject *name)
{
    struct module_state *state = state_of(module);
    struct device *device = name == Py_None ? default_device(state) : device_named(state, name);
    struct failure failure = {0};
    bool ok = true;

    if (!device || !refuse_capture(state, device, NULL, "nobody can wait for the device"))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device->type->synchronize_device(device, &failure);
    Py_END_ALLOW_THREADS
    foreign_release_finished();
    return ok ? Py_NewRef(Py_None) : raise_failure(state, &failure);
}

static PyObject *core_set_num_threads(PyObject *module, PyObject *number)
{
    const bool is_integer = PyLong_Check(number) && !PyBool_Check(number);
    long n = is_integer ? PyLong_AsLong(number) : 0;

    (void)module;
    PyErr_Clear(); /* a too large number is out of range */
    if (!is_integer) {
        PyErr_Format(PyExc_TypeError, "n: expected an integer, got %s", Py_TYPE(number)->tp_name);
        return NULL;
    }
    if (n < 1 || n > 256) {
        PyErr_Format(PyExc_ValueError, "n: expected 1 ... 256 threads, got %R", number);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    smemkit_set_workers((int)n);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *core_get_num_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(smemkit_workers());
}

static PyObject *core_build_info(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
#ifdef SMEMKIT_CUDA
    return Py_BuildValue("{s:s,s:s,s:s,s:s}", "compiler", __VERSION__, "cuda", SMEMKIT_BUILD_CUDA, "archs",
                         SMEMKIT_BUILD_ARCHS, "fibers", fiber_kind);
#else
    return Py_BuildValue("{s:s,s:O,s:s,s:s}", "compiler", __VERSION__, "cuda", Py_None, "archs", "", "fibers",
                         fiber_kind);
#endif
}

/* ---- the module ---- */

#define FAST(name)                                                           \
    {                                                                        \
#name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, NULL \
    }
static PyMethodDef methods[] = {
    FAST(asarray),
    FAST(empty),
    FAST(zeros),
    FAST(from_dlpack),
    FAST(matmul),
    FAST(reduce),
    FAST(transpose),
    FAST(reverse),
    FAST(add_one),
    FAST(add),
    FAST(equal),
    FAST(not_equal),
    FAST(convert),
    FAST(wavefronts),
    FAST(checked),
    FAST(timed),
    FAST(dry_run),
    FAST(mark),
    FAST(ceiling),
    {"load_checked", core_load_checked, METH_O, NULL},
    {"kernel_rows", core_kernel_rows, METH_NOARGS, NULL},
    {"renamed_kernels", core_renamed_kernels, METH_NOARGS, NULL},
    {"launches", core_launches, METH_NOARGS, NULL},
    {"allocations", core_allocations, METH_NOARGS, NULL},
    {"memory_stats", core_memory_stats, METH_O, NULL},
    {"empty_cache", core_empty_cache, METH_O, NULL},
    {"pinned_copy_seconds", core_pinned_copy_seconds, METH_VARARGS, NULL},
    {"close", core_close, METH_NOARGS, NULL},
    {"set_part_bytes", core_set_part_bytes, METH_O, NULL},
    {"fail_allocation", core_fail_allocation, METH_O, NULL},
    {"fail_launch", core_fail_launch, METH_VARARGS, NULL},
    {"device_names", core_device_names, METH_NOARGS, NULL},
    {"device_properties", core_device_properties, METH_O, NULL},
    {"cuda_unavailable", core_cuda_unavailable, METH_NOARGS, NULL},
    {"build_info", core_build_info, METH_NOARGS, NULL},
    {"default_device", core_default_device, METH_NOARGS, NULL},
    {"set_default_device", core_set_default_device, METH_O, NULL},
    {"synchronize", core_synchronize, METH_O, NULL},
    {"current_stream", core_current_stream, METH_O, NULL},
    {"set_num_threads", core_set_num_threads, METH_O, NULL},
    {"get_num_threads", core_get_num_threads, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* Called by the executor during a launch. If it returns true, the exception stays set. */
static int check_signals(void)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    int interrupted = PyErr_CheckSignals();

    PyGILState_Release(gil);
    return interrupted;
}

static int add_exception(PyObject *module, PyObject **slot, const char *name, const char *doc, PyObject *bases)
{
    const char *short_name = strrchr(name, '.') + 1;

    *slot = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, NULL) : NULL;
    return *slot ? PyModule_AddObjectRef(module, short_name, *slot) : -1;
}

static int add_exceptions(PyObject *module, struct module_state *state)
{
    PyObject *both = NULL;
    int error = add_exception(module, &state->error, "smemkit.Error", "What smemkit raises when a launch fails.",
                              PyExc_RuntimeError);

    if (error)
        return -1;
    both = PyTuple_Pack(2, state->error, PyExc_MemoryError);
    error = add_exception(module, &state->cuda_error, "smemkit.CudaError",
                          "A CUDA call failed: `code` and `name` are those of its cudaError_t.", state->error) ||
            add_exception(module, &state->fatal_cuda_error, "smemkit.FatalCudaError",
                          "The CUDA context is lost: no later call on this device can succeed in this process.",
                          state->cuda_error) ||
            add_exception(module, &state->no_device_error, "smemkit.NoDeviceError",
                          "The requested device is not available.", state->error) ||
            add_exception(module, &state->compile_error, "smemkit.CompileError", "A kernel does not compile.",
                          state->error) ||
            add_exception(module, &state->out_of_memory_error, "smemkit.OutOfMemoryError",
                          "A device has not enough memory.", both);
    Py_XDECREF(both);
    return error ? -1 : 0;
}

static int add_type(PyObject *module, PyTypeObject **slot, PyType_Spec *spec)
{
    *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *slot ? PyModule_AddType(module, *slot) : -1;
}

/* smemkit and NumPy keep per-process state, which belongs to the main interpreter. Checked before NumPy is
 * imported, because importing it in another interpreter would prevent its use in the main one. */
static bool is_main_interpreter(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        return true;
    PyErr_SetString(PyExc_ImportError, "smemkit: expected the main interpreter, got a subinterpreter");
    return false;
}

static int module_exec(PyObject *module)
{
    struct module_state *state = state_of(module);

    if (!is_main_interpreter() || PyArray_ImportNumPyAPI() < 0 || add_exceptions(module, state) < 0 ||
        add_type(module, &state->array_type, &array_spec) < 0 ||
        add_type(module, &state->stream_type, &stream_spec) < 0 ||
        add_type(module, &state->event_type, &event_spec) < 0 ||
        add_type(module, &state->graph_type, &graph_spec) < 0)
        return -1;
    smemkit_interrupted = check_signals;
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = state_of(module);

    Py_VISIT(state->error);
    Py_VISIT(state->cuda_error);
    Py_VISIT(state->fatal_cuda_error);
    Py_VISIT(state->no_device_error);
    Py_VISIT(state->compile_error);
    Py_VISIT(state->out_of_memory_error);
    Py_VISIT(state->array_type);
    Py_VISIT(state->stream_type);
    Py_VISIT(state->event_type);
    Py_VISIT(state->graph_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = state_of(module);

    Py_CLEAR(state->error);
    Py_CLEAR(state->cuda_error);
    Py_CLEAR(state->fatal_cuda_error);
    Py_CLEAR(state->no_device_error);
    Py_CLEAR(state->compile_error);
    Py_CLEAR(state->out_of_memory_error);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->stream_type);
    Py_CLEAR(state->event_type);
    Py_CLEAR(state->graph_type);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "smemkit._core",
    .m_doc = "The C extension: what smemkit is made of. Use the names that smemkit exports.",
    .m_size = sizeof(struct module_state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
