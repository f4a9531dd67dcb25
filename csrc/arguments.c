/* Validation of arguments. A message names the argument, what was required and what came; nothing has been
 * launched or written when it is raised. */
#include "smemkit.h"

#include <stdlib.h>
#include <string.h>

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

void refuse_dtype(const char *name, unsigned allowed, PyObject *came)
{
    PyObject *list = dtype_list(allowed);

    if (list)
        PyErr_Format(PyExc_TypeError, "%s: expected dtype %U, got %S", name, list, came);
    Py_XDECREF(list);
}

static void fill_from_array(struct operand *operand, struct array *array)
{
    operand->owner = Py_NewRef((PyObject *)array);
    operand->device = array->device;
    operand->owning_stream = array->owning_stream;
    operand->data = array->data;
    operand->descr = array->descr;
    operand->readonly = array->readonly;
    operand->size = array->size;
    operand->layout.ndim = array->ndim;
    memcpy(operand->layout.shape, array_shape(array), (size_t)array->ndim * sizeof(npy_intp));
    memcpy(operand->layout.strides, array_strides(array), (size_t)array->ndim * sizeof(npy_intp));
}

/* Steals the reference. */
static void fill_from_numpy(struct operand *operand, PyArrayObject *numpy)
{
    operand->owner = (PyObject *)numpy;
    operand->data = PyArray_BYTES(numpy);
    operand->descr = PyArray_DESCR(numpy);
    operand->readonly = !PyArray_ISWRITEABLE(numpy);
    operand->size = PyArray_SIZE(numpy);
    operand->layout.ndim = PyArray_NDIM(numpy);
    for (int i = 0; i < operand->layout.ndim; i++) {
        operand->layout.shape[i] = PyArray_DIM(numpy, i);
        operand->layout.strides[i] = PyArray_STRIDE(numpy, i);
    }
}

static void fill_dtype(struct operand *operand)
{
    Py_INCREF(operand->descr); /* the array's descr may be replaced later */
    operand->dtype = dtype_of(operand->descr);
    operand->swapped = !PyArray_ISNBO(operand->descr->byteorder);
}

/* Prevents a resize: while the call runs without the GIL, another thread may resize the caller's array, which
 * moves its memory. With refcheck=False NumPy ignores references and buffers, but not weak references.
 */
static bool pin(struct operand *operand)
{
    operand->pin = PyWeakref_NewRef(operand->owner, NULL);
    return operand->pin != NULL;
}

bool blame(const char *name)
{
    PyObject *const kinds[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError, PyExc_BufferError};
    PyObject *type, *value, *traceback;

    for (int i = 0; i < 4; i++) {
        if (!PyErr_ExceptionMatches(kinds[i]))
            continue;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        PyErr_Format(kinds[i], "%s: %S", name, value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        break;
    }
    return false;
}

/* NULL without an exception if there is no such attribute. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);

    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

/* Refuses masked arrays, whose masked elements would be used. */
static bool check_mask(PyArrayObject *numpy, const char *name)
{
    PyObject *mask = PyArray_CheckExact(numpy) ? NULL : attribute((PyObject *)numpy, "mask");
    bool masked;

    masked = mask && PyArray_Check(mask); /* numpy.ma.nomask is a scalar */
    Py_XDECREF(mask);
    if (masked)
        PyErr_Format(PyExc_TypeError, "%s: expected an array without a mask, got %s; .filled() makes one", name,
                     Py_TYPE(numpy)->tp_name);
    return !masked && !PyErr_Occurred();
}

/* Anything that is neither an Array nor another library's array is read by NumPy. */
static bool read_any(PyObject *object, const char *name, struct operand *operand)
{
    PyArrayObject *numpy = (PyArrayObject *)PyArray_FromAny(object, NULL, 0, 0, 0, NULL);

    if (!numpy)
        return blame(name);
    fill_from_numpy(operand, numpy);
    fill_dtype(operand);
    if (!check_mask(numpy, name) || ((PyObject *)numpy == object && !pin(operand))) {
        drop_operand(operand);
        return false;
    }
    return true;
}

/* Types that are known to have neither __dlpack__ nor __cuda_array_interface__, or for which NumPy's protocol is
 * better. */
static bool is_numpys(PyObject *object)
{
    return PyArray_Check(object) || PyArray_IsScalar(object, Generic) || PyFloat_CheckExact(object) ||
           PyLong_CheckExact(object) || PyBool_Check(object) || PyComplex_CheckExact(object) ||
           PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyUnicode_CheckExact(object);
}

bool read_operand(const struct module_state *state, PyObject *object, const char *name, PyObject *stream,
                  struct operand *operand)
{
    int foreign = 0;

    memset(operand, 0, sizeof *operand);
    if (Py_IS_TYPE(object, state->array_type)) {
        array_require_sync((struct array *)object); /* pending work may read it after it is overwritten */
        fill_from_array(operand, (struct array *)object);
        fill_dtype(operand);
        return true;
    }
    if (!is_numpys(object))
        foreign = read_foreign(state, object, name, stream, operand);
    if (foreign)
        return foreign > 0;
    if (!read_any(object, name, operand))
        return false;
    if (!operand->dtype)
        refuse_dtype(name, EVERY, (PyObject *)operand->descr);
    return operand->dtype != 0;
}

bool operand_unchanged(const struct operand *operand)
{
    PyArrayObject *numpy = (PyArrayObject *)operand->owner;
    const struct layout *layout = &operand->layout;
    bool same = operand->device || (PyArray_BYTES(numpy) == operand->data &&
                                    PyArray_DESCR(numpy) == operand->descr && PyArray_NDIM(numpy) == layout->ndim);

    for (int i = 0; same && !operand->device && i < layout->ndim; i++)
        same = PyArray_DIM(numpy, i) == layout->shape[i] && PyArray_STRIDE(numpy, i) == layout->strides[i];
    if (!same)
        PyErr_SetString(PyExc_RuntimeError,
                        "an array was given another shape, dtype or memory while the arguments "
                        "beside it were read");
    return same;
}

void drop_operand(struct operand *operand)
{
    Py_CLEAR(operand->pin);
    if (operand->owner)
        Py_DECREF(operand->descr);
    Py_CLEAR(operand->owner);
    Py_CLEAR(operand->given);
}

static bool check_out(const struct operand *out, PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    const struct layout *layout = &out->layout;
    bool same = layout->ndim == ndim;

    if (!out->dtype || !dtype_casts(dtype_of(descr), out->dtype)) {
        PyErr_Format(PyExc_TypeError, "out: expected dtype %S or one that it can be cast to, got %S", descr,
                     out->descr);
        return false;
    }
    for (int i = 0; same && i < ndim; i++)
        same = layout->shape[i] == shape[i];
    if (!same) {
        PyObject *expected = shape_tuple(ndim, shape), *came = shape_tuple(layout->ndim, layout->shape);

        if (expected && came)
            PyErr_Format(PyExc_ValueError, "out: expected shape %R, got %R", expected, came);
        Py_XDECREF(expected);
        Py_XDECREF(came);
        return false;
    }
    if (out->readonly) {
        PyErr_SetString(PyExc_ValueError, "out: expected a writeable array, got one that is read-only");
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        if (out->size > 0 && layout->shape[i] > 1 && layout->strides[i] == 0) {
            PyErr_SetString(PyExc_ValueError,
                            "out: expected an element of its own for each result, got strides of 0");
            return false;
        }
    }
    return true;
}

/* A new result. NULL with an exception. */
static PyObject *new_out(const struct module_state *state, struct device *device, bool host, PyArray_Descr *descr,
                         int ndim, const npy_intp *shape, PyObject *stream)
{
    device_stream handle;
    PyObject *owner, *array;

    if (host) {
        Py_INCREF(descr);
        return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, NULL, NULL, 0, NULL);
    }
    if (!read_stream_and_owner(state, stream, device, &handle, &owner))
        return NULL;
    array = (PyObject *)array_new(state, device, handle, owner, descr, ndim, shape);
    Py_XDECREF(owner);
    return array;
}

/* The caller's `out`, which is also the return value: a NumPy array if the operands are on the host, otherwise an
 * array on the device.
 */
static bool find_out(const struct module_state *state, PyObject *object, const struct device *device, bool host,
                     PyObject *stream, struct operand *out)
{
    const char *where = "";
    int foreign;

    if (Py_IS_TYPE(object, state->array_type)) {
        array_require_sync((struct array *)object);
        fill_from_array(out, (struct array *)object);
        fill_dtype(out);
    } else if (PyArray_Check(object)) {
        fill_from_numpy(out, (PyArrayObject *)Py_NewRef(object));
        fill_dtype(out);
        if (!pin(out))
            return false;
    } else if (!is_numpys(object)) {
        foreign = read_foreign(state, object, "out", stream, out);
        if (foreign < 0)
            return false;
        if (foreign)
            where = out->device ? " on a GPU" : " on the host";
    }
    if (out->owner && host == !out->device)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected %s like the operands, got %s%s; asarray() and .numpy() convert",
                 host                   ? "a numpy.ndarray"
                 : device->ordinal >= 0 ? "an array on a GPU"
                                        : "a smemkit.Array",
                 Py_TYPE(object)->tp_name, where);
    return false;
}

bool read_out(const struct module_state *state, PyObject *object, struct device *device, bool host,
              PyArray_Descr *descr, int ndim, const npy_intp *shape, PyObject *stream, struct operand *out)
{
    PyObject *made;

    memset(out, 0, sizeof *out);
    if (object == Py_None) {
        made = new_out(state, device, host, descr, ndim, shape, stream);
        if (made && host) {
            fill_from_numpy(out, (PyArrayObject *)made);
            fill_dtype(out);
        } else if (made) {
            fill_from_array(out, (struct array *)made);
            fill_dtype(out);
            Py_DECREF(made);
        }
        return made != NULL;
    }
    if (!find_out(state, object, device, host, stream, out))
        return false;
    if (out->device && out->device != device) {
        PyErr_Format(PyExc_ValueError, "out: expected an array on %s, got one on %s", device->name,
                     out->device->name);
        return false;
    }
    return check_out(out, descr, ndim, shape);
}

/* ---- devices and streams ---- */

/* This thread's default device, set by `with smemkit.Device(…)`. */
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

/* `source` names the origin in messages: the argument `device`, or the environment variable. */
static struct device *find_device(const struct module_state *state, PyObject *object, const char *source)
{
    PyObject *name = PyUnicode_Check(object) ? Py_NewRef(object) : attribute(object, "name");
    Py_ssize_t length = 0;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL, *why = NULL;
    const bool whole = text && (size_t)length == strlen(text); /* no embedded NUL */
    const int ordinal = whole ? cuda_ordinal(text) : -1;
    struct device *device = NULL;
    int count;

    if (PyErr_Occurred()) {
        Py_XDECREF(name);
        return NULL;
    }
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

/* The type name of what the caller passed, if still known. */
static const char *type_name(const struct operand *operand)
{
    return Py_TYPE(operand->given ? operand->given : operand->owner)->tp_name;
}

bool read_device(const struct module_state *state, PyObject *object, const struct operand *operands, int count,
                 struct device **device)
{
    struct device *asked = object == Py_None ? NULL : device_named(state, object);
    struct device *first = operands[0].device;

    if (object != Py_None && !asked)
        return false;
    for (int i = 1; i < count; i++) {
        const struct device *other = operands[i].device;

        if (!first != !other) {
            const struct operand *on_host = &operands[first ? i : 0], *on_device = &operands[first ? 0 : i];

            PyErr_Format(PyExc_TypeError,
                         "operands: expected all NumPy arrays or all arrays on one device, got %s and %s on %s; "
                         "asarray() and .numpy() convert",
                         type_name(on_host), type_name(on_device), on_device->device->name);
            return false;
        }
        if (first != other) {
            PyErr_Format(PyExc_ValueError, "operands: expected arrays on one device, got %s and %s; .to() moves",
                         first->name, other->name);
            return false;
        }
    }
    if (first && asked && asked != first) {
        PyErr_Format(PyExc_ValueError, "device: the operands are on %s, got %s; .to() moves them", first->name,
                     asked->name);
        return false;
    }
    *device = first ? first : asked ? asked : default_device(state);
    return *device != NULL;
}

/* An integer, also as a ctypes object or a class with __int__: a new reference; None means 0. */
static PyObject *number_of(PyObject *object)
{
    PyObject *value, *number;

    if (object == Py_None)
        return PyLong_FromLong(0);
    if (PyIndex_Check(object))
        return PyNumber_Index(object);
    value = attribute(object, "value");
    if (value && PyIndex_Check(value))
        number = PyNumber_Index(value);
    else
        number = value == Py_None ? PyLong_FromLong(0) : PyErr_Occurred() ? NULL : PyNumber_Long(object);
    Py_XDECREF(value);
    return number;
}

/* The handle in `__cuda_stream__`, (0, handle): a method, in older versions a property. */
static PyObject *number_in_interface(PyObject *interface)
{
    PyObject *pair = PyCallable_Check(interface) ? PyObject_CallNoArgs(interface) : Py_NewRef(interface);
    PyObject *tuple = pair ? PySequence_Tuple(pair) : NULL, *number = NULL;

    if (tuple && (PyTuple_GET_SIZE(tuple) != 2 || !PyLong_Check(PyTuple_GET_ITEM(tuple, 0)) ||
                  PyLong_AsLong(PyTuple_GET_ITEM(tuple, 0)) != 0)) {
        PyErr_Clear(); /* an overflow of the version */
        PyErr_Format(PyExc_ValueError, "expected (0, handle) of __cuda_stream__, got %R", pair);
    } else if (tuple) {
        number = number_of(PyTuple_GET_ITEM(tuple, 1));
    }
    Py_XDECREF(tuple);
    Py_XDECREF(pair);
    return number;
}

/* A stream's handle as a Python integer: the object itself, or an attribute, as in CuPy, torch and Numba. */
static PyObject *find_handle(PyObject *object, const char *name)
{
    static const char *const names[] = {"__cuda_stream__", "ptr", "cuda_stream", "handle"};
    PyObject *found = NULL, *number = NULL;

    if (PyIndex_Check(object) && !PyBool_Check(object))
        return PyNumber_Index(object);
    for (int i = 0; i < 4 && !found && !PyErr_Occurred() && !PyBool_Check(object); i++) {
        found = attribute(object, names[i]);
        if (found)
            number = i == 0 ? number_in_interface(found) : number_of(found);
    }
    Py_XDECREF(found);
    if (found || PyErr_Occurred()) {
        if (!number)
            blame(name);
        return number;
    }
    return PyErr_Format(PyExc_TypeError, "%s: expected an integer or an object with __cuda_stream__, got %s", name,
                        Py_TYPE(object)->tp_name);
}

bool read_handle(PyObject *object, const char *name, const struct device *device, device_stream *stream)
{
    PyObject *number = NULL;

    *stream = NULL;
    if (device->ordinal < 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s: the CPU device has no streams, expected None or a Stream of its own, got %s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    number = find_handle(object, name);
    if (!number)
        return false;
    *stream = (device_stream)(uintptr_t)PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s: expected a handle from 0 to 2**64 - 1, got %S", name, number);
        *stream = NULL;
    }
    if ((uintptr_t)*stream == LEGACY_STREAM)
        *stream = NULL;
    Py_DECREF(number);
    return !PyErr_Occurred();
}

bool read_stream_and_owner(const struct module_state *state, PyObject *object, const struct device *device,
                           device_stream *stream, PyObject **owner)
{
    struct stream *ours = NULL;

    *stream = NULL;
    *owner = NULL;
    if (object == Py_None)
        ours = thread_stream(state, device);
    else if (Py_IS_TYPE(object, state->stream_type))
        ours = (struct stream *)Py_NewRef(object);
    else
        return read_handle(object, "stream", device, stream);
    if (!ours)
        return true;
    if (ours->device != device) {
        PyErr_Format(PyExc_ValueError, "stream: expected a stream of %s, got one of %s", device->name,
                     ours->device->name);
        Py_DECREF(ours);
        return false;
    }
    *stream = ours->handle;
    if (ours->lasts)
        *owner = (PyObject *)ours;
    else
        Py_DECREF(ours);
    return true;
}

bool read_stream(const struct module_state *state, PyObject *object, const struct device *device,
                 device_stream *stream)
{
    PyObject *owner;
    const bool ok = read_stream_and_owner(state, object, device, stream, &owner);

    Py_XDECREF(owner);
    return ok;
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
    for (const struct kernel_rename *rename = kernel_renames; rename->name; rename++)
        if (rename->op == op && PyUnicode_CompareWithASCIIString(name, rename->old_name) == 0) {
            if (PyErr_WarnFormat(PyExc_DeprecationWarning, 1, "kernel: '%s' is now called '%s'", rename->old_name,
                                 rename->name) < 0)
                return NULL;
            return find_row(op, rename->name);
        }
    list = kernel_list(op);
    if (list)
        PyErr_Format(PyExc_ValueError, "kernel: expected one of %U for %s, got %R", list, op_names[op], name);
    Py_XDECREF(list);
    return NULL;
}

const struct kernel_row *find_row(enum op op, const char *name)
{
    for (int i = 0; i < kernel_row_count; i++)
        if (kernel_rows[i].op == op && strcmp(kernel_rows[i].name, name) == 0)
            return &kernel_rows[i];
    Py_UNREACHABLE(); /* tests check that callers use names of the table */
}

static const struct kernel_row *row_chosen(enum op op)
{
    for (int i = 0; i < kernel_row_count; i++)
        if (kernel_rows[i].op == op && kernel_rows[i].choice)
            return &kernel_rows[i];
    Py_UNREACHABLE(); /* a test checks that each op has one */
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
        return blame(name);
    asked = PyLong_AsLong(number);
    Py_DECREF(number);
    PyErr_Clear(); /* a too large number is not among them */
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

bool check_kernel_dtype(const struct kernel_choice *choice, const char *name, enum dtype dtype)
{
    PyObject *list;

    if (choice->row->dtypes & dtype)
        return true;
    list = dtype_list(choice->row->dtypes);
    if (list)
        PyErr_Format(PyExc_TypeError, "%s: expected dtype %U for kernel '%s', got %s", name, list,
                     choice->row->name, dtype_name(dtype));
    Py_XDECREF(list);
    return false;
}

/* ---- other arguments ---- */

/* numpy.dtype("bfloat16") requires that ml_dtypes has been imported. */
static bool read_descr(PyObject *object, PyArray_Descr **descr)
{
    if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, "bfloat16") == 0) {
        *descr = dtype_descr(BFLOAT16);
        return *descr != NULL;
    }
    return PyArray_DescrConverter(object, descr) || blame("dtype");
}

bool read_dtype(PyObject *object, unsigned allowed, enum dtype *dtype, int *type_num)
{
    PyArray_Descr *descr = NULL;
    enum dtype asked;

    if (object == Py_None)
        return true;
    if (!read_descr(object, &descr))
        return false;
    asked = PyArray_ISNBO(descr->byteorder) ? dtype_of(descr) : 0;
    if (asked & allowed) {
        *dtype = asked;
        *type_num = descr->type_num;
    } else {
        refuse_dtype("dtype", allowed, (PyObject *)descr);
    }
    Py_DECREF(descr);
    return !PyErr_Occurred();
}

bool read_precision(PyObject *object, const struct kernel_choice *choice)
{
    const bool is_text = PyUnicode_Check(object);

    if (is_text && PyUnicode_CompareWithASCIIString(object, "highest") == 0)
        return true;
    if (!is_text || (PyUnicode_CompareWithASCIIString(object, "high") != 0 &&
                     PyUnicode_CompareWithASCIIString(object, "medium") != 0)) {
        PyErr_Format(PyExc_ValueError, "precision: expected 'highest', 'high' or 'medium', got %R", object);
        return false;
    }
    if (choice->chosen) /* permits lower precision, which no kernel uses yet */
        return true;
    PyErr_Format(PyExc_ValueError, "precision: kernel '%s' has its own, expected 'highest', got %R",
                 choice->row->name, object);
    return false;
}

bool find_reduce_op(PyObject *object, enum reduce_op *op)
{
    static const char *const names[REDUCE_OPS] = {
        [REDUCE_SUM] = "sum",       [REDUCE_PROD] = "prod",     [REDUCE_MIN] = "min",
        [REDUCE_MAX] = "max",       [REDUCE_MEAN] = "mean",     [REDUCE_VAR] = "var",
        [REDUCE_STD] = "std",       [REDUCE_ANY] = "any",       [REDUCE_ALL] = "all",
        [REDUCE_ARGMIN] = "argmin", [REDUCE_ARGMAX] = "argmax", [REDUCE_COUNT_NONZERO] = "count_nonzero"};

    for (int i = 0; i < REDUCE_OPS; i++) {
        if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
            *op = (enum reduce_op)i;
            return true;
        }
    }
    return false;
}

bool read_reduce_op(PyObject *object, enum reduce_op *op)
{
    if (find_reduce_op(object, op))
        return true;
    PyErr_Format(
        PyExc_ValueError,
        "op: expected 'sum', 'prod', 'min', 'max', 'mean', 'var', 'std', 'any', 'all', 'argmin', 'argmax' "
        "or 'count_nonzero', got %R",
        object);
    return false;
}

static void refuse_axis(const char *name, PyObject *axis, int ndim)
{
    PyObject *module = PyImport_ImportModule("numpy.exceptions"), *type, *error;

    type = module ? PyObject_GetAttrString(module, "AxisError") : NULL;
    error = type ? PyObject_CallFunction(type, "Ois", axis, ndim, name) : NULL;
    if (error)
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    Py_XDECREF(type);
    Py_XDECREF(module);
}

/* A normalised axis in [0, limit). -1 with an exception. */
static int one_axis(PyObject *object, const char *name, int ndim, int limit)
{
    Py_ssize_t axis;

    if (PyBool_Check(object) || !PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s: expected an integer, got %R", name, object);
        return -1;
    }
    axis = PyNumber_AsSsize_t(object, NULL); /* clamps huge values */
    if (axis == -1 && PyErr_Occurred()) {
        blame(name);
        return -1;
    }
    if (axis < -limit || axis >= limit) {
        refuse_axis(name, object, ndim);
        return -1;
    }
    return (int)(axis < 0 ? axis + limit : axis);
}

static bool distinct(const char *name, PyObject *axes, bool *seen, int axis)
{
    if (seen[axis]) {
        PyErr_Format(PyExc_ValueError, "%s: expected each axis once, got %R", name, axes);
        return false;
    }
    return seen[axis] = true;
}

bool read_axis(PyObject *object, int ndim, bool tuples, bool scalars, bool *reduced)
{
    const bool one = !PyTuple_Check(object);
    const int limit = ndim == 0 && one && scalars ? 1 : ndim;

    memset(reduced, object == Py_None, NPY_MAXDIMS * sizeof *reduced);
    if (object == Py_None)
        return true;
    if (!one && !tuples) {
        PyErr_Format(PyExc_TypeError, "axis: expected None or an integer, got %R", object);
        return false;
    }
    for (Py_ssize_t i = 0; i < (one ? 1 : PyTuple_GET_SIZE(object)); i++) {
        int axis = one_axis(one ? object : PyTuple_GET_ITEM(object, i), "axis", ndim, limit);

        if (axis < 0 || !distinct("axis", object, reduced, axis))
            return false;
    }
    return true;
}

bool read_axes(PyObject *object, int ndim, int *axes)
{
    bool seen[NPY_MAXDIMS] = {false}, ok;
    PyObject *tuple;

    for (int i = 0; i < ndim; i++)
        axes[i] = ndim - 1 - i;
    if (object == Py_None)
        return true;
    tuple = PySequence_Tuple(object);
    if (!tuple && PyIndex_Check(object) && PyErr_ExceptionMatches(PyExc_TypeError)) { /* a single axis */
        PyErr_Clear();
        tuple = PyTuple_Pack(1, object);
    }
    if (!tuple)
        return blame("axes");
    ok = PyTuple_GET_SIZE(tuple) == ndim;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "axes: expected %d axes, one for each dimension, got %R", ndim, object);
    for (int i = 0; ok && i < ndim; i++) {
        axes[i] = one_axis(PyTuple_GET_ITEM(tuple, i), "axes", ndim, ndim);
        ok = axes[i] >= 0 && distinct("axes", object, seen, axes[i]);
    }
    Py_DECREF(tuple);
    return ok;
}

bool read_flag(PyObject *object, const char *name, bool *flag)
{
    int truth = PyIndex_Check(object) || PyArray_IsScalar(object, Bool) ? PyObject_IsTrue(object) : -1;

    *flag = truth > 0;
    if (truth >= 0)
        return true;
    if (PyErr_Occurred())
        return blame(name);
    PyErr_Format(PyExc_TypeError, "%s: expected True or False, got %R", name, object);
    return false;
}

bool read_double(PyObject *object, const char *name, double *value)
{
    *value = PyFloat_AsDouble(object);
    if (*value != -1 || !PyErr_Occurred())
        return true;
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: expected a number, got %R", name, object);
        return false;
    }
    return blame(name);
}

PyArrayObject *read_initial(PyObject *object, enum dtype dtype, struct scalar *scalar)
{
    const bool integer = dtype & (BOOL | SIGNED | UNSIGNED);
    PyArray_Descr *descr = dtype_descr(dtype);
    PyArrayObject *initial = descr ? (PyArrayObject *)PyArray_Zeros(0, NULL, descr, 0) : NULL, *wide = NULL;
    PyObject *everything = initial ? PyTuple_New(0) : NULL;

    /* like NumPy, converts `initial` by assignment, which raises if the dtype cannot hold it */
    if (everything && PyObject_SetItem((PyObject *)initial, everything, object) == 0)
        wide = (PyArrayObject *)PyArray_Cast(initial, !integer           ? NPY_COMPLEX128
                                                      : dtype & UNSIGNED ? NPY_UINT64
                                                                         : NPY_INT64);
    Py_XDECREF(everything);
    if (!wide) {
        blame("initial");
        Py_XDECREF(initial);
        return NULL;
    }
    if (integer)
        scalar->bits = *(uint64_t *)PyArray_DATA(wide);
    else
        memcpy(&scalar->re, PyArray_DATA(wide), 2 * sizeof(double)); /* and im */
    Py_DECREF(wide);
    return initial;
}

bool read_none(PyObject *object, const char *name, const char *op)
{
    if (object == Py_None)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: '%s' takes none, expected None, got %R", name, op, object);
    return false;
}

bool read_one_of(PyObject *object, const char *name, const int *values, const char *expected, int *value)
{
    const bool is_integer = PyIndex_Check(object) && !PyBool_Check(object);
    Py_ssize_t number = 0;

    if (is_integer && (number = PyNumber_AsSsize_t(object, NULL)) == -1 && PyErr_Occurred())
        return false;
    for (; *values; values++)
        if (number == *values)
            break;
    *value = *values;
    if (!*values)
        PyErr_Format(is_integer ? PyExc_ValueError : PyExc_TypeError, "%s: expected %s, got %R", name, expected,
                     object);
    return *values != 0;
}

static bool read_address(PyObject *object, int lane, struct warp_access *access)
{
    PyObject *number;
    unsigned long long address;

    if (object == Py_None)
        return true;
    number = PyNumber_Index(object);
    address = number ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyObject *error = PyErr_ExceptionMatches(PyExc_TypeError) ? PyExc_TypeError : PyExc_ValueError;

            PyErr_Clear();
            PyErr_Format(error, "addresses: expected an integer from 0 to 2**64 - 1 or None, got %R for lane %d",
                         object, lane);
        }
        return false;
    }
    if (address % (unsigned)access->size) {
        PyErr_Format(PyExc_ValueError, "addresses: expected multiples of %d, the size, got %R for lane %d",
                     access->size, object, lane);
        return false;
    }
    access->mask |= 1u << lane;
    access->addresses[lane] = address;
    return true;
}

bool read_addresses(PyObject *object, struct warp_access *access)
{
    PyObject *lanes = PySequence_Tuple(object);
    bool ok;

    if (!lanes)
        return blame("addresses");
    ok = PyTuple_GET_SIZE(lanes) <= LANES;
    if (!ok)
        PyErr_Format(PyExc_ValueError, "addresses: expected no more than %d, one per lane, got %zd", LANES,
                     PyTuple_GET_SIZE(lanes));
    for (int lane = 0; ok && lane < PyTuple_GET_SIZE(lanes); lane++)
        ok = read_address(PyTuple_GET_ITEM(lanes, lane), lane, access);
    Py_DECREF(lanes);
    return ok;
}
