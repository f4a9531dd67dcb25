/* Exceptions and warnings. */
#ifndef SMEMKIT_PYTHON_ERRORS_H
#define SMEMKIT_PYTHON_ERRORS_H

#include "python/state.h"

#include "base/failure.h"
#include "kernels.h"

/* Raises the exception of a failure. Returns NULL. */
PyObject *raise_failure(const struct module_state *, const struct failure *);

bool warn(PyObject *category, const char *text);

/* Warns, as NumPy does, if a cast discards the imaginary part. */
bool warn_complex(enum dtype from, enum dtype to);

#endif
