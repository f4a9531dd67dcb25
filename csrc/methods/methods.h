/* The methods, attributes and operators of Array. */
#ifndef SMEMKIT_METHODS_METHODS_H
#define SMEMKIT_METHODS_METHODS_H

#include "python/state.h"

#include "device/device.h"
#include "kernels.h"

extern PyType_Spec array_spec;

/* A new array with the elements of `object` in `dtype`, as NumPy's type of that number, or in their own if it is
 * 0. NULL with an exception. */
PyObject *array_from(const struct module_state *, struct device *, PyObject *object, enum dtype, int type_num);

/* asarray() of the module. NULL with an exception. */
PyObject *as_array(const struct module_state *, PyObject *object, PyObject *dtype, PyObject *device,
                   PyObject *copy);

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count);

PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *array_dlpack_device(PyObject *self, PyObject *unused);
PyObject *array_interface(PyObject *self, void *unused);

PyObject *core_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t count);

PyObject *array_select(PyObject *self, PyObject *key); /* x[key] */
PyObject *array_item_at(PyObject *self, Py_ssize_t index);
int array_assign(PyObject *self, PyObject *key, PyObject *value);
PyObject *array_fill(PyObject *self, PyObject *value);
PyObject *array_transposed(PyObject *self, void *unused);
PyObject *array_matrix_transposed(PyObject *self, void *unused);
PyObject *array_reshape(PyObject *self, PyObject *args);
PyObject *array_ravel(PyObject *self, PyObject *unused);
PyObject *array_squeeze(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *array_transpose(PyObject *self, PyObject *args);

PyObject *array_numpy(PyObject *self, PyObject *unused);
PyObject *array_array(PyObject *self, PyObject *args, PyObject *kwargs);
int array_buffer(PyObject *self, Py_buffer *, int flags);
PyObject *array_item(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *array_float(PyObject *self);
PyObject *array_int(PyObject *self);
PyObject *array_complex(PyObject *self, PyObject *unused);
PyObject *array_index(PyObject *self);
int array_bool(PyObject *self);
PyObject *array_tolist(PyObject *self, PyObject *unused);
PyObject *array_round(PyObject *self, PyObject *args);
PyObject *array_format(PyObject *self, PyObject *specification);
PyObject *array_repr(PyObject *self);
PyObject *array_str(PyObject *self);
PyObject *array_reduce(PyObject *self, PyObject *unused);
PyObject *array_function(PyObject *self, PyObject *args);
PyObject *array_namespace(PyObject *self, PyObject *args, PyObject *kwargs);

PyObject *array_add(PyObject *, PyObject *);
PyObject *array_add_to(PyObject *, PyObject *);
PyObject *array_subtract(PyObject *, PyObject *);
PyObject *array_subtract_to(PyObject *, PyObject *);
PyObject *array_multiply(PyObject *, PyObject *);
PyObject *array_multiply_to(PyObject *, PyObject *);
PyObject *array_divide(PyObject *, PyObject *);
PyObject *array_divide_to(PyObject *, PyObject *);
PyObject *array_negative(PyObject *);
PyObject *array_matmul(PyObject *, PyObject *);
PyObject *array_matmul_to(PyObject *, PyObject *);
PyObject *array_compare(PyObject *, PyObject *, int operation);
int array_contains(PyObject *self, PyObject *value);
PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *keywords);

#define METHOD(op) PyObject *array_##op(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
METHOD(sum);
METHOD(prod);
METHOD(min);
METHOD(max);
METHOD(mean);
METHOD(var);
METHOD(std);
METHOD(any);
METHOD(all);
METHOD(argmin);
METHOD(argmax);
METHOD(count_nonzero);
#undef METHOD

PyObject *array_copy(PyObject *self, PyObject *unused);

PyObject *array_deepcopy(PyObject *self, PyObject *memo);

PyObject *array_astype(PyObject *self, PyObject *args, PyObject *kwargs);

PyObject *array_to(PyObject *self, PyObject *name);
PyObject *array_to_device(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
