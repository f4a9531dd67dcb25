/* The operations, as functions of the module. */
#ifndef SMEMKIT_OPS_OPS_H
#define SMEMKIT_OPS_OPS_H

#include "python/state.h"

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_not_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);

PyObject *core_ceiling(PyObject *module, PyObject *const *args, Py_ssize_t count);

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
