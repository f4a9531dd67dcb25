/* Readers of plain arguments: dtypes, axes, flags, numbers. They return false, or NULL, with an exception that
 * names the argument, what was expected and what was passed. */
#ifndef SMEMKIT_PYTHON_ARGUMENTS_H
#define SMEMKIT_PYTHON_ARGUMENTS_H

#include "python/state.h"

#include "kernels.h"

/* Raises a TypeError: `name` has a dtype that is not in `allowed`. */
void refuse_dtype(const char *name, unsigned allowed, PyObject *actual);

/* None, or a dtype of the set in native byte order, and NumPy's type number. For None both keep their values. */
bool read_dtype(PyObject *, unsigned allowed, enum dtype *, int *type_num);

/* None, an axis or a tuple of axes, as NPY_MAXDIMS flags. `scalars`: 0-dimensional arrays accept axis 0 and -1.
 */
bool read_axis(PyObject *, int ndim, bool tuples, bool scalars, bool *reduced);

/* None for the reverse order, or a permutation. */
bool read_axes(PyObject *, int ndim, int *axes);
bool read_flag(PyObject *, const char *name, bool *);
bool read_double(PyObject *, const char *name, double *);

/* A scalar converted to a dtype: as a 0-dimensional array, and as kernels take it. NULL with an exception.
 */
PyArrayObject *read_initial(PyObject *, enum dtype, struct scalar *);
bool read_none(PyObject *, const char *name, const char *op);

/* An integer in `values`, a list that ends with 0; `expected` describes them in a message. */
bool read_one_of(PyObject *, const char *name, const int *values, const char *expected, int *value);

bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected);

PyObject *shape_tuple(int ndim, const npy_intp *shape);

/* Prefixes the message of the current exception with the argument's name. Returns false. */
bool add_argument_name(const char *name);

#endif
