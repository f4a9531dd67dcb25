/* Converts a failure, which is filled without the GIL, to a Python exception; and raises warnings. */
#include "python/state.h"

#include "base/failure.h"
#include "errors.h"
#include "kernels.h"

bool warn(PyObject *category, const char *text)
{
    return PyErr_WarnEx(category, text, 2) == 0;
}

bool warn_complex(enum dtype from, enum dtype to)
{
    PyObject *module, *category;
    bool ok;

    if (!(from & COMPLEX) || to & (COMPLEX | BOOL))
        return true;
    module = PyImport_ImportModule("numpy.exceptions");
    category = module ? PyObject_GetAttrString(module, "ComplexWarning") : NULL;
    ok = category && warn(category, "Casting complex values to real discards the imaginary part");
    Py_XDECREF(category);
    Py_XDECREF(module);
    return ok;
}

/* CudaError with its code and name as attributes. */
static PyObject *raise_cuda(PyObject *type, const struct failure *failure)
{
    PyObject *error = PyObject_CallFunction(type, "s", failure->text), *code = NULL, *name = NULL;

    if (!error)
        return NULL;
    code = PyLong_FromLong(failure->code);
    name = PyUnicode_FromString(failure->name);
    if (code && name && PyObject_SetAttrString(error, "code", code) == 0 &&
        PyObject_SetAttrString(error, "name", name) == 0)
        PyErr_SetObject(type, error);
    Py_XDECREF(code);
    Py_XDECREF(name);
    Py_DECREF(error);
    return NULL;
}

PyObject *raise_failure(const struct module_state *state, const struct failure *failure)
{
    if (PyErr_Occurred()) /* raised by a signal handler during the call; takes precedence */
        return NULL;
    switch (failure->kind) {
    case FAILURE_INTERRUPTED:
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        break;
    case FAILURE_NO_DEVICE:
        PyErr_SetString(state->no_device_error, failure->text);
        break;
    case FAILURE_CUDA:
        return raise_cuda(failure->fatal ? state->fatal_cuda_error : state->cuda_error, failure);
    case FAILURE_MEMORY:
        PyErr_SetString(state->out_of_memory_error, failure->text);
        break;
    case FAILURE_KERNEL:
    case FAILURE_NONE:
        PyErr_SetString(state->error, failure->text);
        break;
    }
    return NULL;
}
