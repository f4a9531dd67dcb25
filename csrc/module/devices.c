/* The devices for Python: names, properties, threads of the executor. */
#include "python/state.h"

#include "array/lookup.h"
#include "array/retirement.h"
#include "array/stream.h"
#include "base/failure.h"
#include "device/device.h"
#include "module.h"
#include "python/errors.h"
#include "executor/executor.h"
#include "executor/fiber.h"

PyObject *core_device_names(PyObject *module, PyObject *unused)
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

PyObject *core_cuda_unavailable(PyObject *module, PyObject *unused)
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

PyObject *core_device_properties(PyObject *module, PyObject *name)
{
    struct module_state *state = state_of(module);
    struct device *device = device_named(state, name);
    struct device_properties p = {0};
    struct failure failure = {0};
    bool ok = true;

    if (!device)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device->type->properties(device, &p, &failure);
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

PyObject *core_default_device(PyObject *module, PyObject *unused)
{
    struct device *device = default_device(state_of(module));

    (void)unused;
    return device ? PyUnicode_FromString(device->name) : NULL;
}

PyObject *core_synchronize(PyObject *module, PyObject *name)
{
    struct module_state *state = state_of(module);
    struct device *device = name == Py_None ? default_device(state) : device_named(state, name);
    struct failure failure = {0};
    bool ok = true;

    if (!device || !refuse_capture(state, device, NULL, "the device cannot be synchronised"))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device->type->synchronize_device(device, &failure);
    Py_END_ALLOW_THREADS
    foreign_release_finished();
    return ok ? Py_NewRef(Py_None) : raise_failure(state, &failure);
}

PyObject *core_set_num_threads(PyObject *module, PyObject *number)
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

PyObject *core_get_num_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(smemkit_workers());
}

PyObject *core_build_info(PyObject *module, PyObject *unused)
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
