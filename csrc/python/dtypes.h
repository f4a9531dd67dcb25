/* smemkit's dtypes and NumPy's. */
#ifndef SMEMKIT_PYTHON_DTYPES_H
#define SMEMKIT_PYTHON_DTYPES_H

#include "python/state.h"

#include "kernels.h"

enum { DTYPES = 15 };

int dtype_bytes(enum dtype);
unsigned dtypes_of_size(int bytes); /* set */
const char *dtype_name(enum dtype);
PyObject *dtype_list(unsigned set);         /* "int8, int16 or int32" */
enum dtype dtype_of(const PyArray_Descr *); /* 0 if unsupported; ignores the byte order */
PyArray_Descr *dtype_descr(enum dtype);     /* in native byte order */

/* NumPy has two types of 8-byte integers; returns the one with this type number, if it belongs to the dtype. */
PyArray_Descr *dtype_descr_as(enum dtype, int type_num);

/* The promoted dtype by NumPy's rules, and NumPy's type number. 0 with an exception, or without one if smemkit
 * does not support it. */
enum dtype dtype_promoted(PyArray_Descr *, PyArray_Descr *, int *type_num);

/* Whether NumPy's "same_kind" casting allows it. */
bool dtype_casts(enum dtype from, enum dtype to);

#endif
