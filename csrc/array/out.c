/* Reads `out`, or allocates the result. */
#include "python/state.h"

#include <string.h>

#include "array.h"
#include "device/device.h"
#include "foreign.h"
#include "host_result.h"
#include "lookup.h"
#include "operand.h"
#include "out.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "stream.h"

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
        PyObject *expected = shape_tuple(ndim, shape), *actual = shape_tuple(layout->ndim, layout->shape);

        if (expected && actual)
            PyErr_Format(PyExc_ValueError, "out: expected shape %R, got %R", expected, actual);
        Py_XDECREF(expected);
        Py_XDECREF(actual);
        return false;
    }
    if (out->readonly) {
        PyErr_SetString(PyExc_ValueError, "out: expected a writeable array, got one that is read-only");
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        if (out->size > 0 && layout->shape[i] > 1 && layout->strides[i] == 0) {
            PyErr_SetString(PyExc_ValueError,
                            "out: expected a separate element for each result, got a stride of 0");
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

    if (host)
        return new_host_result(device, descr, ndim, shape);
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
    const char *location = "";
    int foreign;

    if (Py_IS_TYPE(object, state->array_type)) {
        array_require_sync((struct array *)object);
        fill_from_array(out, (struct array *)object);
        fill_dtype(out);
    } else if (PyArray_Check(object)) {
        fill_from_numpy(out, (PyArrayObject *)Py_NewRef(object));
        fill_dtype(out);
        if (!operand_pin(out))
            return false;
    } else if (!is_read_by_numpy(object)) {
        foreign = read_foreign(state, object, "out", stream, out);
        if (foreign < 0)
            return false;
        if (foreign)
            location = out->device ? " on a GPU" : " on the host";
    }
    if (out->owner && host == !out->device)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected %s like the operands, got %s%s; asarray() and .numpy() convert",
                 host                      ? "a numpy.ndarray"
                 : !device_is_host(device) ? "an array on a GPU"
                                           : "a smemkit.Array",
                 Py_TYPE(object)->tp_name, location);
    return false;
}

bool read_out(const struct module_state *state, PyObject *object, struct device *device, bool host,
              PyArray_Descr *descr, int ndim, const npy_intp *shape, PyObject *stream, struct operand *out)
{
    PyObject *result;

    memset(out, 0, sizeof *out);
    if (object == Py_None) {
        result = new_out(state, device, host, descr, ndim, shape, stream);
        if (result && host) {
            fill_from_numpy(out, (PyArrayObject *)result);
            fill_dtype(out);
        } else if (result) {
            fill_from_array(out, (struct array *)result);
            fill_dtype(out);
            Py_DECREF(result);
        }
        return result != NULL;
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
