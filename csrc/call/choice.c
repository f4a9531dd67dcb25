/* Reads the arguments that select a kernel. */
#include "python/state.h"

#include <string.h>

#include "choice.h"
#include "device/device.h"
#include "kernels.h"
#include "python/arguments.h"
#include "python/dtypes.h"

static PyObject *kernel_list(enum op op)
{
    PyObject *text = NULL;

    for (int i = 0; i < ROW_COUNT; i++) {
        if (kernel_rows[i].op != op)
            continue;
        PyObject *longer = text ? PyUnicode_FromFormat("%U, '%s'", text, kernel_rows[i].name)
                                : PyUnicode_FromFormat("'%s'", kernel_rows[i].name);
        Py_XDECREF(text);
        text = longer;
        if (!text)
            return NULL;
    }
    return text;
}

/* NULL without an exception if the op has no such kernel. */
static const struct kernel_row *find_row(enum op op, PyObject *name)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (kernel_rows[i].op == op && PyUnicode_CompareWithASCIIString(name, kernel_rows[i].name) == 0)
            return &kernel_rows[i];
    return NULL;
}

const struct kernel_row *kernel_named(enum op op, PyObject *name)
{
    const struct kernel_row *row;
    PyObject *list;

    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "kernel: expected the name of a kernel or None, got %s",
                     Py_TYPE(name)->tp_name);
        return NULL;
    }
    if ((row = find_row(op, name)))
        return row;
    for (const struct kernel_rename *rename = kernel_renames; rename->old_name; rename++)
        if (rename->op == op && PyUnicode_CompareWithASCIIString(name, rename->old_name) == 0) {
            if (PyErr_WarnFormat(PyExc_DeprecationWarning, 1, "kernel: '%s' is now called '%s'", rename->old_name,
                                 kernel_rows[rename->row].name) < 0)
                return NULL;
            return &kernel_rows[rename->row];
        }
    list = kernel_list(op);
    if (list)
        PyErr_Format(PyExc_ValueError, "kernel: expected one of %U for %s, got %R", list, op_names[op], name);
    Py_XDECREF(list);
    return NULL;
}

static const struct kernel_row *default_row(enum op op)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (kernel_rows[i].op == op && kernel_rows[i].traits & DEFAULT)
            return &kernel_rows[i];
    Py_UNREACHABLE(); /* a test checks that each op with a `kernel` argument has one */
}

/* One of a row's values; the first if the argument is None. */
static bool read_value(const struct kernel_row *row, const char *name, const int *values, PyObject *object,
                       int *value)
{
    PyObject *list, *number;
    long asked;

    *value = values[0] < 0 ? 0 : values[0];
    if (object == Py_None)
        return true;
    if (values[0] < 0) {
        PyErr_Format(PyExc_ValueError, "%s: kernel '%s' has none, expected None, got %R", name, row->name, object);
        return false;
    }
    if (PyBool_Check(object) || !PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected an integer or None, got %s", name, Py_TYPE(object)->tp_name);
        return false;
    }
    number = PyNumber_Index(object);
    if (!number)
        return add_argument_name(name);
    asked = PyLong_AsLong(number);
    Py_DECREF(number);
    PyErr_Clear(); /* a number that is too large is none of them */
    list = PyList_New(0);
    for (const int *v = values; list && *v >= 0; v++) {
        PyObject *item = PyLong_FromLong(*v);

        if (asked == *v)
            *value = *v;
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (list && *value != asked && PyList_Sort(list) == 0)
        PyErr_Format(PyExc_ValueError, "%s: expected one of %R for kernel '%s', got %R", name, list, row->name,
                     object);
    Py_XDECREF(list);
    return !PyErr_Occurred();
}

/* The rung that is selected by `tile`, `block_size` or `pad` without `kernel`. */
static const struct kernel_row *row_with_sizes(enum op op)
{
    return &kernel_rows[op == OP_matmul   ? ROW_matmul_tiled
                        : op == OP_reduce ? ROW_reduce_tree
                                          : ROW_transpose_padded];
}

bool read_kernel(enum op op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **device, struct kernel_choice *choice)
{
    const bool by_size = kernel == Py_None && (size != Py_None || pad != Py_None);

    choice->automatic = kernel == Py_None && !by_size;
    choice->row = choice->automatic ? default_row(op) : by_size ? row_with_sizes(op) : kernel_named(op, kernel);
    if (!choice->row || !read_value(choice->row, size_name, choice->row->sizes, size, &choice->size) ||
        !read_value(choice->row, "pad", choice->row->pads, pad, &choice->pad))
        return false;
    if (choice->row->needs == HOST && !device_is_host(*device)) {
        if (!host || device_argument != Py_None) {
            PyErr_Format(PyExc_ValueError, "kernel: '%s' runs on the host, not on %s; expected device='cpu'",
                         choice->row->name, (*device)->name);
            return false;
        }
        *device = cpu_device();
    }
    return true;
}

bool check_kernel_dtype(const struct kernel_choice *choice, const char *name, enum dtype dtype)
{
    PyObject *list;

    if (choice->row->dtypes & dtype)
        return true;
    list = dtype_list(choice->row->dtypes);
    if (list && choice->automatic)
        PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got %s", name, list, dtype_name(dtype));
    else if (list)
        PyErr_Format(PyExc_ValueError,
                     "%s: expected dtype %U for kernel '%s', got %s; kernel=None accepts more dtypes", name, list,
                     choice->row->name, dtype_name(dtype));
    Py_XDECREF(list);
    return false;
}

/* Whether this build has the kernel for GPUs. A build without CUDA only plans, as if it had all. */
static bool build_has_kernel(enum kernel_index kernel)
{
#ifdef SMEMKIT_CUDA
    return cuda_launchers[kernel] != NULL;
#else
    (void)kernel;
    return true;
#endif
}

/* Code for sm_90a runs on no other GPU. */
static bool gpu_runs_kernel(const struct device *device, const struct kernel_row *row)
{
    return row->needs == SM_90A ? device->capability == SM_90A : device->capability >= (int)row->needs;
}

bool kernel_may_be_chosen(const struct device *device, enum kernel_index kernel, unsigned dtypes)
{
    return device_is_host(device) || (gpu_runs_kernel(device, &kernel_rows[kernel]) && build_has_kernel(kernel) &&
                                      kernel_is_eligible(kernel, dtypes));
}

bool read_precision(PyObject *object, const struct kernel_choice *choice, enum dtype dtype,
                    enum precision *precision)
{
    static const char *const names[] = {[HIGHEST] = "highest", [HIGH] = "high", [MEDIUM] = "medium"};
    const enum precision own = choice->row->traits & TF32 ? HIGH : HIGHEST;
    int asked = HIGHEST;

    *precision = choice->automatic ? HIGHEST : own;
    if (!object || object == Py_None)
        return true;
    while (asked <= MEDIUM &&
           (!PyUnicode_Check(object) || PyUnicode_CompareWithASCIIString(object, names[asked]) != 0))
        asked++;
    if (asked > MEDIUM) {
        PyErr_Format(PyExc_ValueError, "precision: expected 'highest', 'high', 'medium' or None, got %R", object);
        return false;
    }
    if (choice->automatic || asked == (int)own || dtype != FLOAT32) {
        *precision = (enum precision)asked;
        return true;
    }
    PyErr_Format(PyExc_ValueError, "precision: kernel '%s' has its own, expected '%s', got %R", choice->row->name,
                 names[own], object);
    return false;
}
