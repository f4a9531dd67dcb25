/* The policies for Python: their thresholds, dry runs with other ones, and those tuned on this machine. */
#include "python/state.h"

#include <stdlib.h>

#include "array/lookup.h"
#include "base/scope.h"
#include "device/recorder.h"
#include "module.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/thresholds.h"
#include "ops/transpose/transpose.h"
#include "python/arguments.h"

static const struct threshold_table *const tables[] = {&transpose_threshold_table, &reduce_threshold_table,
                                                       &matmul_threshold_table};

enum { TABLES = sizeof tables / sizeof *tables };

/* The policy's table for an op's name. NULL with an exception. */
static const struct threshold_table *read_table(PyObject *op)
{
    for (int i = 0; i < TABLES; i++)
        if (PyUnicode_Check(op) && PyUnicode_CompareWithASCIIString(op, op_names[tables[i]->op]) == 0)
            return tables[i];
    PyErr_Format(PyExc_ValueError, "op: expected 'transpose', 'reduce' or 'matmul', got %R", op);
    return NULL;
}

/* Reads as many integers as the table has rows. False with an exception. */
static bool read_values(const struct threshold_table *table, PyObject *object, int64_t *values)
{
    PyObject *items = PySequence_Tuple(object);

    if (!items)
        return add_argument_name("thresholds");
    if (PyTuple_GET_SIZE(items) != table->count)
        PyErr_Format(PyExc_ValueError, "thresholds: expected %d integers for %s, got %zd", table->count,
                     op_names[table->op], PyTuple_GET_SIZE(items));
    for (int i = 0; !PyErr_Occurred() && i < table->count; i++) {
        values[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(items, i));
        if (!PyErr_Occurred() && values[i] < 1)
            PyErr_Format(PyExc_ValueError, "thresholds: expected positive integers, got %lld for %s",
                         (long long)values[i], table->rows[i].name);
    }
    Py_DECREF(items);
    return !PyErr_Occurred();
}

/* thresholds(op, capability, multiprocessors): (name, value, unit, grows with the GPU, concerns the choice alone,
 * explanation) for each. */
PyObject *core_thresholds(PyObject *module, PyObject *args)
{
    struct device device = {.ordinal = -1};
    const struct threshold_table *table;
    int64_t values[MAX_THRESHOLDS];
    PyObject *op, *list;

    (void)module;
    if (!PyArg_ParseTuple(args, "Oii:thresholds", &op, &device.capability, &device.multiprocessors))
        return NULL;
    table = read_table(op);
    list = table ? PyList_New(table->count) : NULL;
    if (!list)
        return NULL;
    read_thresholds(table, &device, values);
    for (int i = 0; i < table->count; i++) {
        const struct threshold *row = &table->rows[i];
        PyObject *item = Py_BuildValue("(sLsNNs)", row->name, (long long)values[i], row->unit,
                                       PyBool_FromLong(row->scale == GPU), PyBool_FromLong(row->choice), row->why);

        if (!item) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* A problem (dtype, batches, m, n, k), with operands in C order. False with an exception. */
static bool read_product(PyObject *problem, enum dtype *dtype, struct matmul_size *size)
{
    PyObject *object;
    int type_num;

    *size = (struct matmul_size){.c_order = true};
    return PyTuple_Check(problem) &&
           PyArg_ParseTuple(problem, "Onnnn", &object, &size->batches, &size->m, &size->n, &size->k) &&
           read_dtype(object, EVERY, dtype, &type_num);
}

/* predicted_matmul_times(multiprocessors, thresholds, kernel, problems): the microseconds that the
 * policy expects of a kernel on a GPU of so many multiprocessors, for each problem of a list (dtype, batches, m,
 * n, k); None where it expects nothing. */
PyObject *core_predicted_matmul_times(PyObject *module, PyObject *args)
{
    struct device device = {0};
    int64_t values[MAX_THRESHOLDS];
    PyObject *thresholds, *name, *problems, *times;
    const struct kernel_row *row;

    (void)module;
    if (!PyArg_ParseTuple(args, "iOOO!:predicted_matmul_times", &device.multiprocessors, &thresholds, &name,
                          &PyList_Type, &problems) ||
        !read_values(&matmul_threshold_table, thresholds, values))
        return NULL;
    if (device.multiprocessors < 1)
        return PyErr_Format(PyExc_ValueError, "multiprocessors: expected at least 1, got %d",
                            device.multiprocessors);
    row = kernel_named(OP_matmul, name);
    times = row ? PyList_New(PyList_GET_SIZE(problems)) : NULL;
    for (Py_ssize_t i = 0; times && i < PyList_GET_SIZE(problems); i++) {
        struct matmul_size size;
        enum dtype dtype;
        PyObject *item = NULL;

        if (read_product(PyList_GET_ITEM(problems, i), &dtype, &size)) {
            const double time = predict_matmul_time(&device, values, row, dtype, size);

            item = time < 0 ? Py_NewRef(Py_None) : PyFloat_FromDouble(time);
        } else if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "problems: expected tuples (dtype, batches, m, n, k)");
        if (!item)
            Py_CLEAR(times);
        else
            PyList_SET_ITEM(times, i, item);
    }
    return times;
}

/* least_k_of_matmul(kernel): the least k for which the policy may choose it. */
PyObject *core_least_k_of_matmul(PyObject *module, PyObject *name)
{
    const struct kernel_row *row = kernel_named(OP_matmul, name);

    (void)module;
    return row ? PyLong_FromSsize_t(least_k_of_matmul(row)) : NULL;
}

/* dry_run_as(capability, multiprocessors, l2_bytes, op, thresholds, fn, args, kwargs): a dry run as on a device
 * with these attributes and, unless they are None, with these thresholds of an op. */
PyObject *core_dry_run_as(PyObject *module, PyObject *args)
{
    struct recorded_device as = {0};
    int64_t values[MAX_THRESHOLDS];
    PyObject *op, *thresholds, *call[3];
    Py_ssize_t l2_bytes;

    (void)module;
    if (!PyArg_ParseTuple(args, "iinOOOO!O!:dry_run_as", &as.capability, &as.multiprocessors, &l2_bytes, &op,
                          &thresholds, &call[0], &PyTuple_Type, &call[1], &PyDict_Type, &call[2]))
        return NULL;
    as.l2_bytes = (size_t)l2_bytes;
    if (as.multiprocessors < 1)
        return PyErr_Format(PyExc_ValueError, "multiprocessors: expected at least 1, got %d", as.multiprocessors);
    if (thresholds != Py_None) {
        const struct threshold_table *table = read_table(op);

        if (!table || !read_values(table, thresholds, values))
            return NULL;
        as.thresholds[table->op] = values;
    }
    return run_recorded(&as, call);
}

/* set_tuned_thresholds(device, thresholds): of transposes; None: the table's own. */
PyObject *core_set_tuned_thresholds(PyObject *module, PyObject *args)
{
    const struct device *device;
    int64_t values[MAX_THRESHOLDS];
    PyObject *name, *thresholds;

    if (!PyArg_ParseTuple(args, "OO:set_tuned_thresholds", &name, &thresholds))
        return NULL;
    device = device_named(state_of(module), name);
    if (!device || (thresholds != Py_None && !read_values(&transpose_threshold_table, thresholds, values)))
        return NULL;
    set_tuned_thresholds(device, thresholds == Py_None ? NULL : values);
    Py_RETURN_NONE;
}

/* tuned_thresholds(device): those in use for transposes; None if they are the table's. */
PyObject *core_tuned_thresholds(PyObject *module, PyObject *name)
{
    struct device *device = device_named(state_of(module), name);
    int64_t values[MAX_THRESHOLDS];
    PyObject *tuple;

    if (!device || !load_tuned_thresholds(device, NULL))
        return NULL;
    if (!get_tuned_thresholds(device, values))
        Py_RETURN_NONE;
    tuple = PyTuple_New(transpose_threshold_table.count);
    for (int i = 0; tuple && i < transpose_threshold_table.count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);

        if (!value)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}
