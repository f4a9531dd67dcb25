/* The operations: functions of the module, and the same for C. */
#ifndef SMEMKIT_OPS_OPS_H
#define SMEMKIT_OPS_OPS_H

#include "python/state.h"

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_not_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_ceiling(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* With default options, into `out`, or a new array if that is None. NULL with an exception. */
PyObject *matmul_into(const struct module_state *, PyObject *x1, PyObject *x2, PyObject *out);
PyObject *add_into(const struct module_state *, PyObject *x1, PyObject *x2, PyObject *out);
PyObject *equal_into(const struct module_state *, PyObject *x1, PyObject *x2, PyObject *out);
PyObject *not_equal_into(const struct module_state *, PyObject *x1, PyObject *x2, PyObject *out);

/* A copy of an array in native byte order and C order. NULL with an exception. */
PyObject *convert_to_native(const struct module_state *, PyObject *x);

/* Whether an element is true; -1 with an exception. */
int any_element(const struct module_state *, PyObject *x);

#endif
