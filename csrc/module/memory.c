/* Memory statistics; and for tests, allocations and launches that fail. */
#include "python/state.h"

#include <stdatomic.h>

#include "array/lookup.h"
#include "device/allocation.h"
#include "executor/executor.h"
#include "array/retirement.h"
#include "base/failure.h"
#include "device/device.h"
#include "module.h"
#include "python/errors.h"

PyObject *core_allocations(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(device_live_allocations());
}

PyObject *core_fail_allocation(PyObject *module, PyObject *countdown)
{
    const long n = PyLong_AsLong(countdown);

    (void)module;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(device_fail_allocation(n));
}

PyObject *core_fail_launch(PyObject *module, PyObject *args)
{
    long countdown;
    int signal = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "l|i:fail_launch", &countdown, &signal))
        return NULL;
    return PyLong_FromLong(smemkit_fail_launch(countdown, signal));
}

static struct device *read_device_name(PyObject *module, PyObject *name)
{
    return name == Py_None ? default_device(state_of(module)) : device_named(state_of(module), name);
}

PyObject *core_memory_stats(PyObject *module, PyObject *name)
{
    struct device *device = read_device_name(module, name);
    struct memory_stats stats = {0};
    struct failure failure = {0};
    bool ok;

    if (!device)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device->type->memory_stats(device, &stats, &failure);
    Py_END_ALLOW_THREADS
    return ok ? Py_BuildValue("(nnn)", (Py_ssize_t)stats.used, (Py_ssize_t)stats.peak, (Py_ssize_t)stats.reserved)
              : raise_failure(state_of(module), &failure);
}

PyObject *core_empty_cache(PyObject *module, PyObject *name)
{
    struct device *device = read_device_name(module, name);
    struct failure failure = {0};
    bool ok = true;

    if (!device)
        return NULL;
    foreign_release_finished();
    Py_BEGIN_ALLOW_THREADS
    ok = device->type->empty_cache(device, &failure);
    Py_END_ALLOW_THREADS
    return ok ? Py_NewRef(Py_None) : raise_failure(state_of(module), &failure);
}

PyObject *core_pinned_copy_seconds(PyObject *module, PyObject *args)
{
    struct failure failure = {0};
    struct device *device;
    PyObject *name;
    Py_ssize_t bytes;
    int to_device;
    double seconds = 0;
    bool ok = true;

    if (!PyArg_ParseTuple(args, "Onp:pinned_copy_seconds", &name, &bytes, &to_device))
        return NULL;
    device = read_device_name(module, name);
    if (!device)
        return NULL;
    if (device_is_host(device) || bytes < 1) {
        PyErr_SetString(PyExc_ValueError, "device, nbytes: expected a CUDA device and at least one byte");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ok = cuda_pinned_copy(device, (size_t)bytes, to_device, &seconds, &failure);
    Py_END_ALLOW_THREADS
    return ok ? PyFloat_FromDouble(seconds) : raise_failure(state_of(module), &failure);
}

/* Called by atexit. */
PyObject *core_close(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    cuda_close_copy_pools();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
