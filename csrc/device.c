/* Memory of any device, counted: tests see that a call gives back what it takes, and can make an allocation fail.
 */
#include "smemkit.h"

#include <stdatomic.h>

/* Of the process: allocations that live, and how many from now the one is that fails; 0: none. */
static atomic_long living, failing;

bool device_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    *memory = NULL;
    if (bytes && atomic_load(&failing) > 0 && atomic_fetch_sub(&failing, 1) == 1) {
        failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes asked, as a test wants it",
                    device->name, bytes);
        return false;
    }
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
