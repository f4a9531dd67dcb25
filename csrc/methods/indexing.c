/* x[key] and x[key] = value. */
#include "python/state.h"

#include "array/array.h"
#include "array/lookup.h"
#include "array/operand.h"
#include "array/out.h"
#include "call/call.h"
#include "methods.h"
#include "ops/transpose/transpose.h"
#include "python/arguments.h"
#include "python/errors.h"
#include "python/layout.h"

/* The state while an index is applied: the remaining axes of the array, and the view's layout so far. */
struct selection {
    const struct layout *source;
    int axis; /* the next axis of `source` */
    npy_intp offset;
    struct layout view;
};

static bool append_dimension(struct selection *selection, npy_intp length, npy_intp stride)
{
    struct layout *view = &selection->view;

    if (view->ndim == NPY_MAXDIMS) {
        PyErr_Format(PyExc_IndexError, "index: expected no more than %d dimensions in the result", NPY_MAXDIMS);
        return false;
    }
    view->shape[view->ndim] = length;
    view->strides[view->ndim++] = stride;
    return true;
}

/* Moves the start by `steps` along an axis. In an empty array the offset does not matter. */
static void advance_offset(struct selection *selection, npy_intp steps, npy_intp stride)
{
    selection->offset = (npy_intp)((size_t)selection->offset + (size_t)steps * (size_t)stride);
}

static bool append_whole_axes(struct selection *selection, int axes)
{
    for (; axes > 0; axes--, selection->axis++)
        if (!append_dimension(selection, selection->source->shape[selection->axis],
                              selection->source->strides[selection->axis]))
            return false;
    return true;
}

static bool apply_slice(struct selection *selection, PyObject *slice)
{
    const npy_intp stride = selection->source->strides[selection->axis];
    Py_ssize_t start, stop, step, length;
    npy_intp new_stride;

    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return false;
    length = PySlice_AdjustIndices(selection->source->shape[selection->axis++], &start, &stop, step);
    if (length > 0)
        advance_offset(selection, start, stride);
    (void)__builtin_mul_overflow(stride, step, &new_stride); /* overflows only if there is at most one element */
    return append_dimension(selection, length, new_stride);
}

static bool apply_integer(struct selection *selection, PyObject *item)
{
    const npy_intp length = selection->source->shape[selection->axis];
    Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError), from_front;

    if (index == -1 && PyErr_Occurred())
        return false;
    from_front = index < 0 ? index + length : index;
    if (from_front < 0 || from_front >= length) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for axis %d with size %zd", index,
                     selection->axis, (Py_ssize_t)length);
        return false;
    }
    advance_offset(selection, from_front, selection->source->strides[selection->axis++]);
    return true;
}

/* Whether an item means advanced indexing, which is not supported. */
static bool is_advanced_index(PyObject *item)
{
    if (PyArray_Check(item))
        return PyArray_NDIM((PyArrayObject *)item) > 0 || PyArray_ISBOOL((PyArrayObject *)item);
    if (array_check(item))
        return ((struct array *)item)->ndim > 0 || ((struct array *)item)->descr->type_num == NPY_BOOL;
    return PyBool_Check(item) || PyArray_IsScalar(item, Bool) || PyList_Check(item) || PyTuple_Check(item);
}

/* Whether an item of an index consumes an axis; -1 with an exception if it is not supported. */
static int consumes_axis(PyObject *item)
{
    static const char allowed[] = "integers, slices, ... and None, and tuples of them";

    if (item == Py_None || item == Py_Ellipsis)
        return 0;
    if (PySlice_Check(item))
        return 1;
    if (is_advanced_index(item)) {
        PyErr_Format(PyExc_TypeError,
                     "index: arrays, lists and bools as indices are not supported; expected %s, got %s; "
                     ".numpy() makes an array that takes them",
                     allowed, Py_TYPE(item)->tp_name);
        return -1;
    }
    if (PyIndex_Check(item))
        return 1;
    PyErr_Format(PyExc_IndexError, "index: expected %s, got %s", allowed, Py_TYPE(item)->tp_name);
    return -1;
}

/* How many axes the ellipsis of an index stands for; -1 with an exception. *found: there is one. */
static int ellipsis_axes(const struct layout *layout, PyObject *items, bool *found)
{
    Py_ssize_t consumed_axes = 0;
    int ellipses = 0;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
        const int consumed = consumes_axis(PyTuple_GET_ITEM(items, i));

        if (consumed < 0)
            return -1;
        consumed_axes += consumed;
        ellipses += PyTuple_GET_ITEM(items, i) == Py_Ellipsis;
    }
    if (ellipses > 1) {
        PyErr_SetString(PyExc_IndexError, "index: expected a single ellipsis (...)");
        return -1;
    }
    if (consumed_axes > layout->ndim) {
        PyErr_Format(PyExc_IndexError, "index: the array has %d dimensions, but %zd were indexed", layout->ndim,
                     consumed_axes);
        return -1;
    }
    *found = ellipses > 0;
    return layout->ndim - (int)consumed_axes;
}

static bool read_items(struct selection *selection, PyObject *items)
{
    bool found = false, ok = true;
    const int hidden = ellipsis_axes(selection->source, items, &found);

    if (hidden < 0)
        return false;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(items); i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);

        if (item == Py_None)
            ok = append_dimension(selection, 1, 0);
        else if (item == Py_Ellipsis)
            ok = append_whole_axes(selection, hidden);
        else if (PySlice_Check(item))
            ok = apply_slice(selection, item);
        else
            ok = apply_integer(selection, item);
    }
    return ok && (found || append_whole_axes(selection, hidden));
}

PyObject *array_select(PyObject *self, PyObject *key)
{
    struct array *array = (struct array *)self;
    const struct layout layout = array_layout(array);
    struct selection selection = {.source = &layout};
    PyObject *items = PyTuple_Check(key) ? Py_NewRef(key) : PyTuple_Pack(1, key), *result = NULL;

    if (items && read_items(&selection, items))
        result = (PyObject *)array_view(array, selection.offset, &selection.view);
    Py_XDECREF(items);
    return result;
}

/* Called by iteration. */
PyObject *array_item_at(PyObject *self, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index), *result = number ? array_select(self, number) : NULL;

    Py_XDECREF(number);
    return result;
}

/* Converts a value for assignment: Python numbers and lists are converted to the array's dtype by NumPy's rules
 * (300 does not fit uint8, 1.5 becomes an integer). Anything else keeps its dtype, and is converted on the device.
 */
static PyObject *as_operand(PyObject *value, struct array *view)
{
    if (!PyBool_Check(value) && !PyLong_CheckExact(value) && !PyFloat_CheckExact(value) &&
        !PyComplex_CheckExact(value) && !PyList_Check(value) && !PyTuple_Check(value))
        return Py_NewRef(value);
    Py_INCREF(view->descr);
    return PyArray_FromAny(value, view->descr, 0, 0, NPY_ARRAY_FORCECAST, NULL);
}

/* Broadcasts the operand to the view's shape. */
static bool broadcast_to(const struct layout *from, const struct layout *to, struct layout *result)
{
    int extra = from->ndim - to->ndim; /* extra leading dimensions of 1 are dropped, as in NumPy */
    bool fits = true;

    *result = *to;
    for (int i = 0; i < extra; i++)
        fits = fits && from->shape[i] == 1;
    for (int i = 0; fits && i < to->ndim; i++) {
        const int other = i + extra;
        const bool repeated = other < 0 || (from->shape[other] == 1 && to->shape[i] != 1);

        fits = repeated || from->shape[other] == to->shape[i];
        result->strides[i] = repeated ? 0 : from->strides[other];
    }
    if (!fits) {
        PyObject *expected = shape_tuple(to->ndim, to->shape), *actual = shape_tuple(from->ndim, from->shape);

        if (expected && actual)
            PyErr_Format(PyExc_ValueError, "value: expected a shape that can be broadcast to %R, got %R", expected,
                         actual);
        Py_XDECREF(expected);
        Py_XDECREF(actual);
    }
    return fits;
}

static bool check_value_device(const struct array *view, const struct operand *value)
{
    if (!value->device || value->device == view->device)
        return true;
    PyErr_Format(PyExc_ValueError, "value: expected an array on %s, got one on %s; .to() moves it",
                 view->device->name, value->device->name);
    return false;
}

static PyObject *assign(struct array *view, PyObject *value)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(view));
    const struct layout layout = array_layout(view);
    struct call call = {.device = view->device, .inputs = 1};

    call.result = view->dtype;
    if (!read_operand(state, value, "value", Py_None, &call.in[0]) || !check_value_device(view, &call.in[0]) ||
        !broadcast_to(&call.in[0].layout, &layout, &call.in_view[0]) ||
        !warn_complex(call.in[0].dtype, call.result) || !read_stream(state, Py_None, call.device, &call.stream) ||
        !read_out(state, (PyObject *)view, call.device, false, view->descr, view->ndim, array_shape(view), Py_None,
                  &call.out))
        return call_fail(&call);
    return call_run_copy(state, &call, true);
}

int array_assign(PyObject *self, PyObject *key, PyObject *value)
{
    struct array *view = NULL;
    PyObject *operand = NULL, *done = NULL;

    if (!value)
        PyErr_SetString(PyExc_TypeError, "the elements of an array cannot be deleted");
    else if (((struct array *)self)->readonly)
        PyErr_SetString(PyExc_ValueError, "assignment: expected a writeable array, this one is read-only");
    else if ((view = (struct array *)array_select(self, key)) && (operand = as_operand(value, view)))
        done = assign(view, operand);
    Py_XDECREF(operand);
    Py_XDECREF(view);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *array_fill(PyObject *self, PyObject *value)
{
    return array_assign(self, Py_Ellipsis, value) < 0 ? NULL : Py_NewRef(Py_None);
}
