/* The kernel table for Python. */
#include "python/state.h"

#include "base/table.h"
#include "device/launches.h"
#include "kernels.h"
#include "module.h"
#include "python/dtypes.h"

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

static PyObject *dtype_names(unsigned set)
{
    const char *names[DTYPES];
    bool holds[DTYPES];

    for (int i = 0; i < DTYPES; i++) {
        names[i] = dtype_name((enum dtype)(1 << i));
        holds[i] = set & (1u << i);
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
    static const char *const roles[] = {[RUNG] = "rung", [PRODUCTION] = "production", [CEILING] = "ceiling"};
    char file[128];

    if (row->role == PRODUCTION)
        PyOS_snprintf(file, sizeof file, "%s/production/%s.cu", op_names[row->op], row->name);
    else
        PyOS_snprintf(file, sizeof file, "%s/ladder/%02d_%s.%s", op_names[row->op], row->order, row->name,
                      row->needs == HOST ? "c" : "cu");
    return Py_BuildValue("{s:s,s:s,s:i,s:s,s:N,s:N,s:N,s:N,s:s,s:s,s:O,s:N,s:s,s:s}", "op", op_names[row->op],
                         "name", row->name, "order", row->order, "needs", needs_name(row->needs), "devices",
                         row_devices(row), "dtypes", dtype_names(row->dtypes), "sizes", tuple_of_ints(row->sizes),
                         "pads", tuple_of_ints(row->pads), "precision", row->traits & TF32 ? "high" : "highest",
                         "role", roles[row->role], "default", row->traits & DEFAULT ? Py_True : Py_False,
                         "recorded_dtypes", dtype_names(kernel_recorded_dtypes(row->index)), "summary",
                         row->summary, "file", file);
}

PyObject *core_kernel_rows(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module;
    (void)unused;
    for (int i = 0; list && i < ROW_COUNT; i++) {
        PyObject *row = row_dict(&kernel_rows[i]);

        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

PyObject *core_renamed_kernels(PyObject *module, PyObject *unused)
{
    PyObject *names = PyDict_New();

    (void)module;
    (void)unused;
    for (const struct kernel_rename *rename = kernel_renames; names && rename->old_name; rename++) {
        PyObject *old = Py_BuildValue("(ss)", op_names[rename->op], rename->old_name);
        PyObject *name = PyUnicode_FromString(kernel_rows[rename->row].name);

        if (!old || !name || PyDict_SetItem(names, old, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(old);
        Py_XDECREF(name);
    }
    return names;
}

PyObject *core_launches(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(launch_count());
}
