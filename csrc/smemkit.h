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

#include "analysis.h"
#include "device.h"

struct module_state {
    PyObject *error, *cuda_error, *fatal_cuda_error, *no_device_error, *compile_error, *out_of_memory_error;
    PyTypeObject *array_type, *event_type, *graph_type;
};

struct module_state *state_of(PyObject *module);

/* ---- errors.c ---- */

/* Raises what the failure says. Returns NULL. */
PyObject *raise_failure(const struct module_state *, const struct failure *);

/* ---- dtypes.c ---- */

enum { DTYPES = 15 };

int dtype_bytes(enum dtype);
const char *dtype_name(enum dtype);
PyObject *dtype_list(unsigned set);         /* "int8, int16 or int32" */
enum dtype dtype_of(const PyArray_Descr *); /* 0 where smemkit has none; the byte order is not looked at */
PyArray_Descr *dtype_descr(enum dtype);     /* in native byte order */
/* The dtype that holds both, by NumPy's rules. 0 with an exception, or without one where smemkit has none. */
enum dtype dtype_promoted(PyArray_Descr *, PyArray_Descr *);
/* Whether NumPy's "same_kind" casting allows it: to the same kind, or to a wider one. */
bool dtype_casts(enum dtype from, enum dtype to);

/* ---- layout.c ---- */

struct layout {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS]; /* bytes */
};

int64_t layout_size(const struct layout *);
struct layout layout_permuted(const struct layout *, const int *axes);
/* In place, to as few dimensions as give the same places in the same order, by both kinds of steps (which may be
 * one array). Returns their number. */
int merge_dimensions(int ndim, npy_intp *shape, npy_intp *steps, npy_intp *other_steps);
/* The same elements in the same order, in as few dimensions as can be. For layouts that are not empty. */
struct layout layout_merged(const struct layout *);
bool layout_is_contiguous(const struct layout *, int element_bytes); /* in C order */
/* The elements lie in [low, high) around element 0, …, 0, in bytes. For layouts that are not empty. */
void layout_extent(const struct layout *, int element_bytes, npy_intp *low, npy_intp *high);

/* ---- array.c ---- */

/* An array in a device's memory, in native byte order: a view of memory that is its own, or its base's. */
struct array {
    PyObject_VAR_HEAD struct device *device;
    char *data;           /* element 0, …, 0 */
    void *memory;         /* what ends with it; NULL where it is its base's */
    PyObject *base;       /* keeps the memory of others: the Array that this is a view of, or whoever has it */
    device_stream home;   /* in whose order the memory is used and given back */
    PyObject *home_owner; /* keeps `home`; NULL for the default stream */
    PyArray_Descr *descr;
    bool readonly;
    int ndim;
    npy_intp size;   /* elements */
    size_t bytes;    /* of all elements */
    npy_intp dims[]; /* the shape, then the strides in bytes */
};

static inline npy_intp *array_shape(struct array *array)
{
    return array->dims;
}

static inline npy_intp *array_strides(struct array *array)
{
    return array->dims + array->ndim;
}

extern PyType_Spec array_spec;

/* A new array with memory that holds anything. NULL with an exception set. */
struct array *array_new(const struct module_state *, struct device *, PyArray_Descr *descr, int ndim,
                        const npy_intp *shape);

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- arguments.c: the only validator ---- */

/* One operand or `out`: an Array, or a NumPy array. Zeroed, it is no operand. */
struct operand {
    PyObject *owner;       /* strong reference to the one or the other */
    struct device *device; /* whose memory it is in; NULL where it is a NumPy array */
    device_stream home;    /* in whose order that memory is used */
    char *data;            /* element 0, …, 0, in device memory or in the host's */
    PyArray_Descr *descr;  /* strong reference */
    enum dtype dtype;
    bool swapped; /* in the other byte order */
    struct layout layout;
    npy_intp size;
};

/* Each returns false with an exception that names the argument, what was required and what came. */
bool read_operand(const struct module_state *, PyObject *, const char *name, struct operand *);
/* `out` must be able to take the result; where it is None, the result is made here, of `descr`. */
bool read_out(const struct module_state *, PyObject *, struct device *, bool host, PyArray_Descr *descr, int ndim,
              const npy_intp *shape, struct operand *);
/* Whether a NumPy array is still what was read: to be asked when no more of the caller's code will run. */
bool operand_unchanged(const struct operand *);
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
/* Whether the kernel takes the dtype that it would be given. */
bool check_kernel_dtype(const struct kernel_choice *, const char *name, enum dtype);
const struct kernel_row *find_row(enum op, const char *name);

/* None, or one of a set in native byte order. *dtype keeps its value for None. */
bool read_dtype(PyObject *, unsigned allowed, enum dtype *);
bool read_precision(PyObject *, const struct kernel_choice *);
bool read_reduce_op(PyObject *, enum reduce_op *);
/* None, an axis or a tuple of them, into NPY_MAXDIMS flags. `scalars` lets an array without dimensions have one.
 */
bool read_axis(PyObject *, int ndim, bool tuples, bool scalars, bool *reduced);
/* None for all in reverse, or a permutation of them. */
bool read_axes(PyObject *, int ndim, int *axes);
bool read_flag(PyObject *, const char *name, bool *);
bool read_double(PyObject *, const char *name, double *);
/* A scalar, cast to a dtype: as an array without dimensions, and as kernels take it. NULL with an exception. */
PyArrayObject *read_initial(PyObject *, enum dtype, struct scalar *);
bool read_none(PyObject *, const char *name, const char *op);
/* An integer that is one of `values`, which end with 0; `expected` is what a message calls them. */
bool read_one_of(PyObject *, const char *name, const int *values, const char *expected, int *value);
/* The addresses and the mask of an access whose size is known: up to 32 integers or None, one a lane. */
bool read_addresses(PyObject *, struct warp_access *);
bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected);

PyObject *shape_tuple(int ndim, const npy_intp *shape);
/* Puts the name of the argument before what NumPy or Python has said of it. Returns false. */
bool blame(const char *name);

PyObject *core_set_default_device(PyObject *module, PyObject *name);

/* ---- call.c: the way of the data ---- */

enum { MAX_INPUTS = 2, STAGES = 4, MAX_TEMPORARIES = 10 };

/* One call of an operation. An operation fills in the upper half, and uses the functions below in their order. */
struct call {
    struct device *device;
    device_stream stream;
    struct kernel_choice kernel;
    int inputs;
    struct operand in[MAX_INPUTS], out;
    struct layout as[MAX_INPUTS]; /* the order in which the kernel wants the elements of `in` */
    enum dtype dtype[MAX_INPUTS]; /* and the dtype */
    bool bytes_only;              /* it moves them, so that their byte order may stay */
    enum dtype result;            /* what it makes; in the operand's byte order if bytes_only */
    bool as_it_lies;              /* the kernel is `convert`, which takes the operand as it is */
    size_t scratch_bytes;

    void *memory[MAX_INPUTS]; /* of the operands on the device, as wanted */
    void *out_memory, *scratch;

    void *temporaries[MAX_TEMPORARIES]; /* device memory that ends with the call */
    int temporary_count;
    const char *source[MAX_INPUTS];              /* element 0, …, 0 of a host operand: its own, or of `packed` */
    PyArrayObject *packed[MAX_INPUTS], *landing; /* host memory on the way to and from the device */
    device_event stages[STAGES];                 /* start, uploaded, computed, downloaded; where timed() listens */
    struct failure failure;
};

bool call_is_host(const struct call *);
/* With the GIL: runs the call, unless it makes nothing, by `run(call, context)` without the GIL; what the
 * operation returns then, or NULL with an exception. The call is over. */
PyObject *call_run(const struct module_state *, struct call *, void (*run)(struct call *, void *), void *context,
                   bool own_out);
/* What `run` does, without the GIL: begin, which gives device memory to all and brings the operands there;
 * launches; end, after a failure too, which brings the result to where it belongs and gives the memory back. */
bool call_begin(struct call *);
bool call_launch(struct call *, const struct kernel_row *, const void *args);
/* Launches `convert`: a view of x into a new contiguous array. */
bool call_convert(struct call *, const void *x, const struct layout *, enum dtype from, bool swapped, void *out,
                  enum dtype to);
void call_end(struct call *, bool ok);
/* A `run` of its own: `convert` from the operand as it lies. */
void call_run_convert(struct call *, void *unused);
/* With the GIL, instead of call_run: `value`, NULL with an exception, in every element of out. */
PyObject *call_filled(const struct module_state *, struct call *, PyObject *value, bool own_out);
PyObject *call_refused(struct call *);
unsigned long long launch_count(void);

/* ---- device.c ---- */

/* device->type's allocate and release. */
bool device_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void device_release(struct device *, void *memory, device_stream);
PyObject *core_allocations(PyObject *module, PyObject *unused);
PyObject *core_fail_allocation(PyObject *module, PyObject *countdown);

/* ---- ops.c ---- */

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
/* Warns, as NumPy does, where a cast loses the imaginary part. */
bool warn_complex(enum dtype from, enum dtype to);
PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- checker.c ---- */

PyObject *core_wavefronts(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_checked(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_load_checked(PyObject *module, PyObject *path);

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
