/* The reading of arguments, and the only place that refuses them. A message names the argument, what was required
 * and what came; nothing has been launched or written when it is raised. */
#include "smemkit.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    enum dtype dtype;
    int numpy;
    const char *name;
    size_t bytes;
} dtypes[] = {
    {FLOAT32, NPY_FLOAT32, "float32", 4},
    {FLOAT64, NPY_FLOAT64, "float64", 8},
    {INT32, NPY_INT32, "int32", 4},
    {INT64, NPY_INT64, "int64", 8},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0], OPERANDS = FLOAT32 | INT32 };

static int dtype_index(enum dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return i;
    return 0;
}

size_t dtype_bytes(enum dtype dtype)
{
    return dtypes[dtype_index(dtype)].bytes;
}

int dtype_numpy(enum dtype dtype)
{
    return dtypes[dtype_index(dtype)].numpy;
}

const char *dtype_name(enum dtype dtype)
{
    return dtypes[dtype_index(dtype)].name;
}

/* "float32 or int32" */
static PyObject *dtype_list(unsigned set)
{
    PyObject *text = NULL, *longer;

    for (int i = 0; i < DTYPES; i++) {
        if (!(set & dtypes[i].dtype))
            continue;
        longer =
            text ? PyUnicode_FromFormat("%U or %s", text, dtypes[i].name) : PyUnicode_FromString(dtypes[i].name);
        Py_XDECREF(text);
        text = longer;
        if (!text)
            return NULL;
    }
    return text;
}

/* 0 where it is none that smemkit knows */
static enum dtype dtype_of(const PyArray_Descr *descr)
{
    if (!PyArray_ISNBO(descr->byteorder))
        return 0;
    for (int i = 0; i < DTYPES; i++)
        if (PyArray_EquivTypenums(dtypes[i].numpy, descr->type_num))
            return dtypes[i].dtype;
    return 0;
}

PyObject *shape_tuple(int ndim, const npy_intp *shape)
{
    PyObject *tuple = PyTuple_New(ndim);

    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *length = PyLong_FromSsize_t(shape[i]);

        if (!length)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, length);
    }
    return tuple;
}

bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected)
{
    if (count == expected)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: expected %zd arguments, got %zd", function, expected, count);
    return false;
}

/* ---- operands ---- */

static void refuse_dtype(const char *name, unsigned allowed, PyObject *came)
{
    PyObject *list = dtype_list(allowed);

    if (list)
        PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got %S", name, list, came);
    Py_XDECREF(list);
}

static void fill_from_array(struct operand *operand, struct array *array)
{
    operand->owner = Py_NewRef((PyObject *)array);
    operand->array = array;
    operand->data = array->memory;
    operand->descr = array->descr;
    operand->ndim = array->ndim;
    for (int i = 0; i < operand->ndim; i++)
        operand->shape[i] = array->shape[i];
    operand->size = array->size;
    operand->bytes = array->bytes;
}

/* Takes over the reference. */
static void fill_from_numpy(struct operand *operand, PyArrayObject *numpy)
{
    operand->owner = (PyObject *)numpy;
    operand->data = PyArray_DATA(numpy);
    operand->descr = PyArray_DESCR(numpy);
    operand->ndim = PyArray_NDIM(numpy);
    for (int i = 0; i < operand->ndim; i++)
        operand->shape[i] = PyArray_DIM(numpy, i);
    operand->size = PyArray_SIZE(numpy);
    operand->bytes = (size_t)PyArray_NBYTES(numpy);
}

/* C-contiguous and aligned, or an exception */
static bool check_layout(PyArrayObject *numpy, const char *name)
{
    PyObject *strides;

    if (!PyArray_ISALIGNED(numpy)) {
        PyErr_Format(PyExc_ValueError,
                     "%s: expected an aligned array, got one whose elements are not; numpy.array "
                     "makes a copy that is",
                     name);
        return false;
    }
    if (PyArray_IS_C_CONTIGUOUS(numpy))
        return true;
    strides = shape_tuple(PyArray_NDIM(numpy), PyArray_STRIDES(numpy));
    if (strides)
        PyErr_Format(PyExc_ValueError,
                     "%s: expected a C-contiguous array, got strides %R; "
                     "numpy.ascontiguousarray makes one",
                     name, strides);
    Py_XDECREF(strides);
    return false;
}

/* Puts the name of the argument before what NumPy or Python has said of it. */
static void blame(const char *name)
{
    PyObject *type, *value, *traceback;

    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyErr_Format(type, "%s: %S", name, value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

bool read_operand(const struct module_state *state, PyObject *object, const char *name, struct operand *operand)
{
    memset(operand, 0, sizeof *operand);
    if (Py_IS_TYPE(object, state->array_type)) {
        fill_from_array(operand, (struct array *)object);
    } else {
        PyArrayObject *numpy = (PyArrayObject *)PyArray_FromAny(object, NULL, 0, 0, 0, NULL);

        if (!numpy) {
            blame(name);
            return false;
        }
        fill_from_numpy(operand, numpy);
    }
    operand->dtype = dtype_of(operand->descr);
    if (!(operand->dtype & OPERANDS)) {
        refuse_dtype(name, OPERANDS, (PyObject *)operand->descr);
        return false;
    }
    return operand->array || check_layout((PyArrayObject *)operand->owner, name);
}

void drop_operand(struct operand *operand)
{
    Py_CLEAR(operand->owner);
}

static bool same_shape(const struct operand *operand, int ndim, const npy_intp *shape)
{
    return operand->ndim == ndim &&
           (ndim == 0 || memcmp(operand->shape, shape, (size_t)ndim * sizeof *shape) == 0);
}

static bool check_out(const struct operand *out, enum dtype dtype, int ndim, const npy_intp *shape)
{
    if (dtype_of(out->descr) != dtype) {
        PyErr_Format(PyExc_TypeError, "out: expected dtype %s, got %S", dtype_name(dtype), out->descr);
        return false;
    }
    if (!same_shape(out, ndim, shape)) {
        PyObject *expected = shape_tuple(ndim, shape), *came = shape_tuple(out->ndim, out->shape);

        if (expected && came)
            PyErr_Format(PyExc_ValueError, "out: expected shape %R, got %R", expected, came);
        Py_XDECREF(expected);
        Py_XDECREF(came);
        return false;
    }
    if (out->array)
        return true;
    if (!PyArray_ISWRITEABLE((PyArrayObject *)out->owner)) {
        PyErr_SetString(PyExc_ValueError, "out: expected a writeable array, got one that is read-only");
        return false;
    }
    return check_layout((PyArrayObject *)out->owner, "out");
}

bool read_out(const struct module_state *state, PyObject *object, struct device *device, bool host,
              enum dtype dtype, int ndim, const npy_intp *shape, struct operand *out)
{
    memset(out, 0, sizeof *out);
    if (object == Py_None && host) {
        PyArrayObject *numpy = (PyArrayObject *)PyArray_SimpleNew(ndim, shape, dtype_numpy(dtype));

        if (!numpy)
            return false;
        fill_from_numpy(out, numpy);
    } else if (object == Py_None) {
        PyArray_Descr *descr = PyArray_DescrFromType(dtype_numpy(dtype));
        struct array *array = descr ? array_new(state, device, descr, ndim, shape) : NULL;

        Py_XDECREF(descr);
        if (!array)
            return false;
        fill_from_array(out, array);
        Py_DECREF(array);
    } else if (host && PyArray_Check(object)) {
        fill_from_numpy(out, (PyArrayObject *)Py_NewRef(object));
    } else if (!host && Py_IS_TYPE(object, state->array_type)) {
        fill_from_array(out, (struct array *)object);
        if (out->array->device != device) {
            PyErr_Format(PyExc_ValueError, "out: expected an Array on %s, got one on %s", device->name,
                         out->array->device->name);
            return false;
        }
    } else {
        PyErr_Format(PyExc_TypeError, "out: expected %s like the operands, got %s; asarray() and .numpy() convert",
                     host ? "a numpy.ndarray" : "a smemkit.Array", Py_TYPE(object)->tp_name);
        return false;
    }
    out->dtype = dtype;
    return object == Py_None || check_out(out, dtype, ndim, shape);
}

/* ---- devices and streams ---- */

/* Each thread may have a default of its own: `with smemkit.Device(…)`. */
static _Thread_local struct device *thread_device;

/* The N of "cuda:N", 0 for "cuda", -1 for anything else */
static int cuda_ordinal(const char *name)
{
    char *end = NULL;
    long ordinal;

    if (strcmp(name, "cuda") == 0)
        return 0;
    if (strncmp(name, "cuda:", 5) != 0 || name[5] < '0' || name[5] > '9' || (name[5] == '0' && name[6]))
        return -1;
    ordinal = strtol(name + 5, &end, 10);
    return *end == '\0' && ordinal < 10000 ? (int)ordinal : -1;
}

/* `source` is what a message blames: the argument `device`, or the environment. */
static struct device *find_device(const struct module_state *state, PyObject *object, const char *source)
{
    PyObject *name = PyUnicode_Check(object) ? Py_NewRef(object) : PyObject_GetAttrString(object, "name");
    Py_ssize_t length = 0;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL, *why = NULL;
    const bool whole = text && (size_t)length == strlen(text); /* no zero in the middle */
    const int ordinal = whole ? cuda_ordinal(text) : -1;
    struct device *device = NULL;
    int count;

    PyErr_Clear();
    if (whole && strcmp(text, "cpu") == 0) {
        device = cpu_device();
    } else if (ordinal >= 0) {
        Py_BEGIN_ALLOW_THREADS
        count = cuda_devices(&why);
        Py_END_ALLOW_THREADS
        if (count == 0)
            PyErr_Format(state->no_device_error, "%s: %R is not here: %s", source, name, why);
        else if (ordinal >= count)
            PyErr_Format(state->no_device_error, "%s: %R is not here: there %s %d CUDA device%s", source, name,
                         count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
        else
            device = cuda_device(ordinal);
    } else if (text) {
        PyErr_Format(PyExc_ValueError, "%s: expected 'cpu', 'cuda' or 'cuda:N', got %R", source, object);
    } else {
        PyErr_Format(PyExc_TypeError, "%s: expected a name such as 'cuda:0' or a Device, got %s", source,
                     Py_TYPE(object)->tp_name);
    }
    Py_XDECREF(name);
    return device;
}

struct device *device_named(const struct module_state *state, PyObject *object)
{
    return find_device(state, object, "device");
}

struct device *default_device(const struct module_state *state)
{
    const char *name = getenv("SMEMKIT_DEVICE"), *why;
    struct device *device = NULL;
    PyObject *text;
    int count;

    if (thread_device)
        return thread_device;
    if (name && *name) {
        text = PyUnicode_FromString(name);
        device = text ? find_device(state, text, "SMEMKIT_DEVICE") : NULL;
        Py_XDECREF(text);
        return device;
    }
    Py_BEGIN_ALLOW_THREADS
    count = cuda_devices(&why);
    Py_END_ALLOW_THREADS
    return count > 0 ? cuda_device(0) : cpu_device();
}

PyObject *core_set_default_device(PyObject *module, PyObject *name)
{
    struct device *device = name == Py_None ? NULL : device_named(state_of(module), name);
    PyObject *before;

    if (name != Py_None && !device)
        return NULL;
    before = thread_device ? PyUnicode_FromString(thread_device->name) : Py_NewRef(Py_None);
    if (before)
        thread_device = device;
    return before;
}

bool read_device(const struct module_state *state, PyObject *object, const struct operand *operands, int count,
                 struct device **device)
{
    struct device *asked = object == Py_None ? NULL : device_named(state, object);
    const struct array *first = operands[0].array;

    if (object != Py_None && !asked)
        return false;
    for (int i = 1; i < count; i++) {
        const struct array *other = operands[i].array;

        if (!first != !other) {
            PyErr_SetString(PyExc_TypeError,
                            "operands: expected all NumPy arrays or all smemkit Arrays, got both; "
                            "asarray() and .numpy() convert");
            return false;
        }
        if (first && first->device != other->device) {
            PyErr_Format(PyExc_ValueError, "operands: expected arrays on one device, got %s and %s; .to() moves",
                         first->device->name, other->device->name);
            return false;
        }
    }
    if (first && asked && asked != first->device) {
        PyErr_Format(PyExc_ValueError, "device: the operands are on %s, got %s; .to() moves them",
                     first->device->name, asked->name);
        return false;
    }
    *device = first ? first->device : asked ? asked : default_device(state);
    return *device != NULL;
}

bool read_stream(PyObject *object, const struct device *device, device_stream *stream)
{
    PyObject *pair = NULL, *handle = NULL;

    *stream = NULL;
    if (object == Py_None)
        return true;
    if (device->ordinal < 0) {
        PyErr_SetString(PyExc_ValueError, "stream: the CPU device has no streams, expected None");
        return false;
    }
    if (PyLong_Check(object)) {
        handle = Py_NewRef(object);
    } else if (PyObject_HasAttrString(object, "__cuda_stream__")) { /* (version, handle) */
        pair = PyObject_CallMethod(object, "__cuda_stream__", NULL);
        handle = pair ? PySequence_GetItem(pair, 1) : NULL;
    } else {
        PyErr_Format(PyExc_TypeError, "stream: expected an integer or an object with __cuda_stream__, got %s",
                     Py_TYPE(object)->tp_name);
    }
    if (handle)
        *stream = PyLong_AsVoidPtr(handle);
    Py_XDECREF(pair);
    Py_XDECREF(handle);
    return !PyErr_Occurred();
}

/* ---- kernels ---- */

static PyObject *kernel_list(enum op op)
{
    PyObject *text = NULL;

    for (int i = 0; i < kernel_row_count; i++) {
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

static const struct kernel_row *row_named(enum op op, PyObject *name)
{
    PyObject *list;

    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "kernel: expected the name of a kernel or None, got %s",
                     Py_TYPE(name)->tp_name);
        return NULL;
    }
    for (int i = 0; i < kernel_row_count; i++)
        if (kernel_rows[i].op == op && PyUnicode_CompareWithASCIIString(name, kernel_rows[i].name) == 0)
            return &kernel_rows[i];
    list = kernel_list(op);
    if (list)
        PyErr_Format(PyExc_ValueError, "kernel: expected one of %U for %s, got %R", list, op_names[op], name);
    Py_XDECREF(list);
    return NULL;
}

static const struct kernel_row *row_chosen(enum op op)
{
    for (int i = 0; i < kernel_row_count; i++)
        if (kernel_rows[i].op == op && kernel_rows[i].choice)
            return &kernel_rows[i];
    Py_UNREACHABLE(); /* a test sees to it that each op has one */
}

/* One of a row's values, or the first where none is asked for. */
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
    number = PyNumber_Index(object);
    if (!number) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "%s: expected an integer or None, got %s", name,
                         Py_TYPE(object)->tp_name);
        return false;
    }
    asked = PyLong_AsLong(number);
    Py_DECREF(number);
    PyErr_Clear(); /* too large a number is none of them either */
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

/* The rung that `tile`, `block_size` or `pad` alone selects. */
static const char *const named_by_size[OP_COUNT] = {
    [OP_matmul] = "tiled", [OP_reduce] = "tree", [OP_transpose] = "padded"};

bool read_kernel(enum op op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **device, struct kernel_choice *choice)
{
    const bool by_size = kernel == Py_None && (size != Py_None || pad != Py_None);
    PyObject *name = by_size ? PyUnicode_FromString(named_by_size[op]) : Py_NewRef(kernel);

    if (!name)
        return false;
    choice->chosen = name == Py_None;
    choice->row = choice->chosen ? row_chosen(op) : row_named(op, name);
    Py_DECREF(name);
    if (!choice->row || !read_value(choice->row, size_name, choice->row->sizes, size, &choice->size) ||
        !read_value(choice->row, "pad", choice->row->pads, pad, &choice->pad))
        return false;
    if (choice->row->needs == HOST && (*device)->ordinal >= 0) {
        if (!host || device_argument != Py_None) {
            PyErr_Format(PyExc_ValueError, "kernel: '%s' runs on the host, not on %s; expected device='cpu'",
                         choice->row->name, (*device)->name);
            return false;
        }
        *device = cpu_device();
    }
    return true;
}

/* ---- the small ones ---- */

bool read_dtype(PyObject *object, unsigned allowed, enum dtype *dtype)
{
    PyArray_Descr *descr = NULL;
    enum dtype asked;

    if (object == Py_None)
        return true;
    if (!PyArray_DescrConverter(object, &descr)) {
        blame("dtype");
        return false;
    }
    asked = dtype_of(descr);
    if (asked & allowed)
        *dtype = asked;
    else
        refuse_dtype("dtype", allowed, (PyObject *)descr);
    Py_DECREF(descr);
    return !PyErr_Occurred();
}

bool read_precision(PyObject *object, const struct kernel_choice *choice)
{
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;

    if (text && strcmp(text, "highest") == 0)
        return true;
    if (!text || (strcmp(text, "high") != 0 && strcmp(text, "medium") != 0)) {
        PyErr_Format(PyExc_ValueError, "precision: expected 'highest', 'high' or 'medium', got %R", object);
        return false;
    }
    if (choice->chosen) /* a permission, of which no kernel makes use yet */
        return true;
    PyErr_Format(PyExc_ValueError, "precision: kernel '%s' has its own, expected 'highest', got %R",
                 choice->row->name, object);
    return false;
}

bool read_none(PyObject *object, const char *name)
{
    if (object == Py_None)
        return true;
    PyErr_Format(PyExc_NotImplementedError, "%s: expected None, got %R; this version has nothing else", name,
                 object);
    return false;
}

/* An axis of an ndim-dimensional array, made positive; -1 with an exception */
static int read_axis(PyObject *object, const char *name, int ndim)
{
    Py_ssize_t axis = PyNumber_AsSsize_t(object, NULL);

    if (axis == -1 && PyErr_Occurred()) {
        blame(name);
        return -1;
    }
    if (ndim == 0) {
        PyErr_Format(PyExc_ValueError, "%s: expected None, an array without dimensions has none, got %R", name,
                     object);
        return -1;
    }
    if (axis < -ndim || axis >= ndim) {
        PyErr_Format(PyExc_ValueError, "%s: expected -%d ... %d, got %R", name, ndim, ndim - 1, object);
        return -1;
    }
    return (int)(axis < 0 ? axis + ndim : axis);
}

/* None, or all axes of the array in any order */
bool read_all_axes(PyObject *object, int ndim)
{
    PyObject *axes = PyTuple_Check(object) ? Py_NewRef(object) : PyTuple_Pack(1, object);
    bool seen[NPY_MAXDIMS] = {false};
    bool ok = axes != NULL;

    if (object == Py_None) {
        Py_XDECREF(axes);
        return true;
    }
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(axes); i++) {
        int axis = read_axis(PyTuple_GET_ITEM(axes, i), "axis", ndim);

        ok = axis >= 0;
        if (ok && seen[axis]) {
            PyErr_Format(PyExc_ValueError, "axis: expected each axis once, got %R", object);
            ok = false;
        }
        if (ok)
            seen[axis] = true;
    }
    if (ok && PyTuple_GET_SIZE(axes) != ndim) {
        PyErr_Format(PyExc_NotImplementedError,
                     "axis: expected None or all %d axes, got %R; this version reduces "
                     "whole arrays",
                     ndim, object);
        ok = false;
    }
    Py_XDECREF(axes);
    return ok;
}

/* None, or ndim - 1, …, 0 */
bool read_axes_reversed(PyObject *object, int ndim)
{
    PyObject *axes;
    bool ok;

    if (object == Py_None)
        return true;
    axes = PySequence_Tuple(object);
    if (!axes) {
        blame("axes");
        return false;
    }
    ok = PyTuple_GET_SIZE(axes) == ndim;
    for (int i = 0; ok && i < ndim; i++)
        ok = read_axis(PyTuple_GET_ITEM(axes, i), "axes", ndim) == ndim - 1 - i;
    if (!ok && !PyErr_Occurred())
        PyErr_Format(PyExc_NotImplementedError, "axes: expected None or the axes of a matrix, (1, 0), got %R",
                     object);
    Py_DECREF(axes);
    return ok;
}
