/* timed() and dry_run() call a Python function, inside which the thread's calls are timed, or only recorded. */
#include "python/state.h"

#include <stdlib.h>

#include "array/array.h"
#include "base/scope.h"
#include "call/timing.h"
#include "device/recorder.h"
#include "module.h"
#include "python/arguments.h"

PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct timing timing = {0};
    struct scope inner = *current_scope(), outer;
    struct timespec start, end;
    PyObject *result;

    (void)module;
    if (!read_count("timed", count, 3))
        return NULL;
    inner.timing = &timing;
    outer = scope_set(inner);
    clock_gettime(CLOCK_MONOTONIC, &start);
    result = PyObject_Call(args[0], args[1], args[2]);
    clock_gettime(CLOCK_MONOTONIC, &end);
    (void)scope_set(outer);
    if (!result)
        return NULL;
    return Py_BuildValue("N(dddd)", result, timing.upload, timing.kernel, timing.download,
                         (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

static PyObject *launches_list(const struct recorder *recorder)
{
    PyObject *list = PyList_New((Py_ssize_t)recorder->count);

    for (size_t i = 0; list && i < recorder->count; i++) {
        const struct recorded_launch *launch = &recorder->launches[i];
        const unsigned recorded = kernel_recorded_dtypes(launch->row->index);
        const bool right = recorded & launch->dtypes || (recorded && !launch->dtypes);
        PyObject *item = Py_BuildValue("(ssiizLO)", op_names[launch->row->op], launch->row->name, launch->size,
                                       launch->pad, launch->precision, launch->times, right ? Py_True : Py_False);

        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *run_recorded(const struct recorded_device *as, PyObject *const *call)
{
    struct recorder recorder = {.as = as};
    struct scope inner = *current_scope(), outer;
    PyObject *done, *list;

    inner.recorder = &recorder;
    outer = scope_set(inner);
    done = PyObject_Call(call[0], call[1], call[2]);
    (void)scope_set(outer);
    list = done ? launches_list(&recorder) : NULL;
    Py_XDECREF(done);
    free(recorder.launches);
    return list;
}

PyObject *core_dry_run(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return read_count("dry_run", count, 3) ? run_recorded(NULL, args) : NULL;
}
