/* Times of the calls inside smemkit.timed(). */
#include "python/state.h"

#include "array/array.h"
#include "python/arguments.h"
#include "timing.h"

static _Thread_local struct timing *thread_timing;

struct timing *current_timing(void)
{
    return thread_timing;
}

PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct timing timing = {0}, *outer = thread_timing;
    struct timespec start, end;
    PyObject *result;

    (void)module;
    if (!read_count("timed", count, 3))
        return NULL;
    thread_timing = &timing;
    clock_gettime(CLOCK_MONOTONIC, &start);
    result = PyObject_Call(args[0], args[1], args[2]);
    clock_gettime(CLOCK_MONOTONIC, &end);
    thread_timing = outer;
    if (!result)
        return NULL;
    return Py_BuildValue("N(dddd)", result, timing.upload, timing.kernel, timing.download,
                         (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}
