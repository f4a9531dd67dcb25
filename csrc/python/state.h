/* The module's state, and Python's and NumPy's headers. Every file above device/ includes this one first. */
#ifndef SMEMKIT_PYTHON_STATE_H
#define SMEMKIT_PYTHON_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL smemkit_numpy_api
#ifndef SMEMKIT_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include <stdbool.h>

struct module_state {
    PyObject *error, *cuda_error, *fatal_cuda_error, *no_device_error, *compile_error, *out_of_memory_error;
    PyTypeObject *array_type, *stream_type, *event_type, *graph_type;
};

struct module_state *state_of(PyObject *module);
/* Imports NumPy's C API, once per process; -1 with an exception. */
int import_numpy(void);

#endif
