/* The extension module smemkit._core: its functions, its types, its exceptions. */
#include "python/state.h"

#include <string.h>

#include "array/lookup.h"
#include "array/stream.h"
#include "call/call.h"
#include "executor/executor.h"
#include "methods/methods.h"
#include "module.h"
#include "ops/ops.h"

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
    FAST(elementwise),
    FAST(convert),
    FAST(wavefronts),
    FAST(checked),
    FAST(chain_launch),
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
    {"thresholds", core_thresholds, METH_VARARGS, NULL},
    {"least_k_of_matmul", core_least_k_of_matmul, METH_O, NULL},
    {"predicted_matmul_times", core_predicted_matmul_times, METH_VARARGS, NULL},
    {"dry_run_as", core_dry_run_as, METH_VARARGS, NULL},
    {"set_tuned_thresholds", core_set_tuned_thresholds, METH_VARARGS, NULL},
    {"tuned_thresholds", core_tuned_thresholds, METH_O, NULL},
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

    if (!is_main_interpreter() || import_numpy() < 0 || add_exceptions(module, state) < 0 ||
        add_type(module, &state->array_type, &array_spec) < 0 ||
        add_type(module, &state->stream_type, &stream_spec) < 0 ||
        add_type(module, &state->event_type, &event_spec) < 0 ||
        add_type(module, &state->graph_type, &graph_spec) < 0)
        return -1;
    smemkit_interrupted = check_signals;
    cuda_wait_at_exit();
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
