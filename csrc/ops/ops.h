/* The operations: functions of the module, and the same for C. */
#ifndef SMEMKIT_OPS_OPS_H
#define SMEMKIT_OPS_OPS_H

#include "python/state.h"

#include "kernels.h"

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_elementwise(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_ceiling(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* With default options, into `out`, or a new array if that is None. NULL with an exception. */
PyObject *matmul_into(const struct module_state *, PyObject *x1, PyObject *x2, PyObject *out);

/* A function of x[0] and x[1], of which the one that is NULL is the 0-dimensional `number`; x[1] is NULL for a
 * function of one operand, and `number` as well. */
PyObject *elementwise_into(const struct module_state *, enum elementwise_function, PyObject *const x[2],
                           PyArrayObject *number, PyObject *out);

/* The function that a NumPy ufunc's name stands for. False without an exception if there is none. */
bool find_elementwise(PyObject *name, enum elementwise_function *);

/* A copy of an array in native byte order and C order. NULL with an exception. */
PyObject *convert_to_native(const struct module_state *, PyObject *x);

/* Whether an element is true; -1 with an exception. */
int any_element(const struct module_state *, PyObject *x);

#endif
