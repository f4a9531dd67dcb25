/* What the files of the extension module share: its state, its arrays, the reading of arguments. */
#ifndef SMEMKIT_H
#define SMEMKIT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define PY_ARRAY_UNIQUE_SYMBOL smemkit_numpy_api
#ifndef SMEMKIT_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "device.h"

struct module_state {
    PyObject *error, *cuda_error, *fatal_cuda_error, *no_device_error, *compile_error, *out_of_memory_error;
    PyTypeObject *array_type, *event_type, *graph_type;
};

struct module_state *state_of(PyObject *module);

/* ---- errors.c ---- */

/* Raises what the failure says. Returns NULL. */
PyObject *raise_failure(const struct module_state *, const struct failure *);

/* ---- array.c ---- */

/* An array in a device's memory, C-contiguous. */
struct array {
    PyObject_HEAD struct device *device;
    void *memory; /* owned */
    PyArray_Descr *descr;
    int ndim;
    npy_intp shape[NPY_MAXDIMS];
    npy_intp size; /* elements */
    size_t bytes;
};

extern PyType_Spec array_spec;

/* A new array with memory that holds anything. NULL with an exception set. */
struct array *array_new(const struct module_state *, struct device *, PyArray_Descr *descr, int ndim,
                        const npy_intp *shape);
/* The same with the elements of a C-contiguous NumPy array. */
struct array *array_from_numpy(const struct module_state *, struct device *, PyArrayObject *);

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- arguments.c: the only validator ---- */

/* One operand or `out`: an Array, or a NumPy array. Zeroed, it is no operand. */
struct operand {
    PyObject *owner;      /* strong reference to the one or the other */
    struct array *array;  /* borrowed from owner; NULL where it is a NumPy array */
    void *data;           /* device memory, or host memory */
    PyArray_Descr *descr; /* borrowed */
    enum dtype dtype;
    int ndim;
    npy_intp shape[NPY_MAXDIMS];
    npy_intp size;
    size_t bytes;
};

/* Each returns false with an exception that names the argument, what was required and what came. */
bool read_operand(const struct module_state *, PyObject *, const char *name, struct operand *);
/* `out` must be what a new result would be; where it is None, the result is made here. */
bool read_out(const struct module_state *, PyObject *, struct device *, bool host, enum dtype, int ndim,
              const npy_intp *shape, struct operand *);
void drop_operand(struct operand *);

/* The device of a call: that of its operands, or for NumPy operands the one asked for, or the default. */
bool read_device(const struct module_state *, PyObject *, const struct operand *operands, int count,
                 struct device **);
struct device *device_named(const struct module_state *, PyObject *name); /* NULL with an exception */
struct device *default_device(const struct module_state *);
bool read_stream(PyObject *, const struct device *, device_stream *);

/* The row for `kernel=`, `tile=` or `block_size=` (size) and `pad=`, and their values. `chosen` tells whether the
 * caller left the choice to smemkit. A rung of the host moves a call whose operands are NumPy's to the CPU. */
struct kernel_choice {
    const struct kernel_row *row;
    int size, pad;
    bool chosen;
};
bool read_kernel(enum op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **, struct kernel_choice *);
/* None, or a dtype among those of the set. *dtype keeps its value for None. */
bool read_dtype(PyObject *, unsigned allowed, enum dtype *);
bool read_precision(PyObject *, const struct kernel_choice *);
bool read_all_axes(PyObject *axis, int ndim);
bool read_axes_reversed(PyObject *axes, int ndim);
bool read_none(PyObject *, const char *name);
bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected);

size_t dtype_bytes(enum dtype);
int dtype_numpy(enum dtype);
const char *dtype_name(enum dtype);
PyObject *shape_tuple(int ndim, const npy_intp *shape);

PyObject *core_set_default_device(PyObject *module, PyObject *name);

/* ---- ops.c ---- */

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
unsigned long long launch_count(void);

/* ---- timing.c ---- */

/* What smemkit's calls took in this thread since timed() began, in seconds; NULL outside timed(). */
struct timing {
    double upload, kernel, download;
};
struct timing *current_timing(void);

extern PyType_Spec event_spec, graph_spec;
PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_mark(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
