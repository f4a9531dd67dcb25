/* Steps that several operations share when they read their operands. */
#include "python/state.h"

#include "array/operand.h"
#include "array/out.h"
#include "array/stream.h"
#include "call.h"
#include "kernels.h"
#include "operands.h"
#include "python/arguments.h"
#include "python/dtypes.h"

void use_native_layout(struct call *call, int i)
{
    call->in_view[i] = call->in[i].layout;
    call->dtype[i] = call->in[i].dtype;
}

bool call_read_out(const struct module_state *state, struct call *call, PyObject *object, enum dtype dtype,
                   int ndim, const npy_intp *shape, PyObject *stream)
{
    PyArray_Descr *descr =
        call->bytes_only ? (PyArray_Descr *)Py_NewRef(call->in[0].descr) : dtype_descr_as(dtype, call->type_num);
    bool ok = descr && read_out(state, object, call->device, call_has_host_operands(call), descr, ndim, shape,
                                stream, &call->out);

    call->result = dtype;
    call->out_view = call->out.layout;
    Py_XDECREF(descr);
    return ok;
}

npy_intp choose_part_step(npy_intp part, npy_intp bytes_per_index, npy_intp multiple)
{
    const npy_intp steps = part / (bytes_per_index ? bytes_per_index : 1);

    return steps < multiple ? multiple : steps / multiple * multiple;
}

bool refuse_shapes(const struct operand *a, const struct operand *b, const char *expected)
{
    PyObject *shapes[2] = {shape_tuple(a->layout.ndim, a->layout.shape),
                           shape_tuple(b->layout.ndim, b->layout.shape)};

    if (shapes[0] && shapes[1])
        PyErr_Format(PyExc_ValueError, "x1, x2: expected %s, got %R and %R", expected, shapes[0], shapes[1]);
    Py_XDECREF(shapes[0]);
    Py_XDECREF(shapes[1]);
    return false;
}

bool read_common_dtype(struct call *call, PyObject *object, enum dtype *dtype)
{
    if (object == Py_None) {
        *dtype = dtype_promoted(call->in[0].descr, call->in[1].descr, &call->type_num);
        if (!*dtype && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%S and %S have no common dtype", call->in[0].descr, call->in[1].descr);
        return *dtype || add_argument_name("x1, x2");
    }
    if (!read_dtype(object, EVERY, dtype, &call->type_num))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!dtype_casts(call->in[i].dtype, *dtype)) {
            PyErr_Format(PyExc_TypeError, "x%d: expected a dtype that can be cast to %s, got %S", i + 1,
                         dtype_name(*dtype), call->in[i].descr);
            return false;
        }
    }
    return true;
}
