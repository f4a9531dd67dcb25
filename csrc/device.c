/* Allocation on any device, with counters: tests check that calls release what they allocate, and can make an
 * allocation or a launch fail.
 */
#include "smemkit.h"

#include <stdatomic.h>

#include "executor/executor.h"

/* Of the process: live allocations, and the countdown to the allocation that fails (0: none). */
static atomic_long living, failing;

/* Whether this allocation has to fail, for a test. */
static bool must_fail(const struct device *device, size_t bytes, struct failure *failure)
{
    if (!bytes || atomic_load(&failing) <= 0 || atomic_fetch_sub(&failing, 1) != 1)
        return false;
    failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes asked, as a test wants it", device->name,
                bytes);
    return true;
}

bool device_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    *memory = NULL;
    if (must_fail(device, bytes, failure))
        return false;
    if (!device->type->allocate(device, bytes, stream, memory, failure))
        return false;
    if (*memory)
        atomic_fetch_add(&living, 1);
    return true;
}

void device_release(struct device *device, void *memory, device_stream stream)
{
    if (memory)
        atomic_fetch_sub(&living, 1);
    device->type->release(device, memory, stream);
}

bool device_allocate_result_slot(struct device *device, void **memory, struct failure *failure)
{
    *memory = NULL;
    if (must_fail(device, MAX_RESULT_BYTES, failure))
        return false;
    if (device->type->allocate_result_slot)
        *memory = device->type->allocate_result_slot(device);
    if (*memory)
        atomic_fetch_add(&living, 1);
    return *memory != NULL;
}

void device_release_result_slot(struct device *device, void *memory, bool unused)
{
    atomic_fetch_sub(&living, 1);
    device->type->release_result_slot(device, memory, unused);
}

bool device_read(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                 struct failure *failure)
{
    const struct segments segments = {.data = to, .segment_bytes = bytes};
    struct transfer *download;

    return device->type->download_begin(device, &segments, from, stream, &download, failure) &&
           device->type->download_end(device, download, NULL, failure);
}

PyObject *core_allocations(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLong(atomic_load(&living));
}

PyObject *core_fail_allocation(PyObject *module, PyObject *countdown)
{
    const long n = PyLong_AsLong(countdown);
    long before;

    (void)module;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    before = atomic_exchange(&failing, n);
    return PyLong_FromLong(before > 0 ? before : 0);
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

/* ---- memory statistics ---- */

static struct device *read_device_name(PyObject *module, PyObject *name)
{
    return name == Py_None ? default_device(state_of(module)) : device_named(state_of(module), name);
}

PyObject *core_memory_stats(PyObject *module, PyObject *name)
{
    struct device *device = read_device_name(module, name);
    struct memory_stats stats = {0};
    struct failure failure = {0};
    bool ok = true;

    if (!device)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (device->ordinal < 0)
        cpu_memory_stats(&stats);
    else
        ok = cuda_memory_stats(device, &stats, &failure);
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
    ok = device->ordinal < 0 || cuda_empty_cache(device, &failure);
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
    if (device->ordinal < 0 || bytes < 1) {
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
