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

#include <stdatomic.h>

#include "analysis.h"
#include "device.h"

struct module_state {
    PyObject *error, *cuda_error, *fatal_cuda_error, *no_device_error, *compile_error, *out_of_memory_error;
    PyTypeObject *array_type, *stream_type, *event_type, *graph_type;
};

struct module_state *state_of(PyObject *module);

/* ---- errors.c ---- */

/* Raises what the failure says. Returns NULL. */
PyObject *raise_failure(const struct module_state *, const struct failure *);
/* False with an exception where the stream, or the thread's current one, is captured into a graph; `what` says
 * what cannot be done then. */
bool refuse_capture(const struct module_state *, const struct device *, device_stream, const char *what);

/* ---- dtypes.c ---- */

enum { DTYPES = 15 };

int dtype_bytes(enum dtype);
const char *dtype_name(enum dtype);
PyObject *dtype_list(unsigned set);         /* "int8, int16 or int32" */
enum dtype dtype_of(const PyArray_Descr *); /* 0 where smemkit has none; the byte order is not looked at */
PyArray_Descr *dtype_descr(enum dtype);     /* in native byte order */
/* NumPy has two types of integers of 8 bytes: the one with this number, if it is one of that dtype. */
PyArray_Descr *dtype_descr_as(enum dtype, int type_num);
/* The dtype that holds both, by NumPy's rules, and the number of its type. 0 with an exception, or without one
 * where smemkit has none. */
enum dtype dtype_promoted(PyArray_Descr *, PyArray_Descr *, int *type_num);
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
bool layout_is_contiguous(const struct layout *, int element_bytes);   /* in C order */
bool layout_has_whole_steps(const struct layout *, int element_bytes); /* from one element to any other */
/* The elements lie in [low, high) around element 0, …, 0, in bytes. For layouts that are not empty. */
void layout_extent(const struct layout *, int element_bytes, npy_intp *low, npy_intp *high);
/* How the elements at `data` travel between the host and a device: as which runs of memory, and how they lie on
 * the device, element 0, …, 0 being `first` bytes from where the runs begin. If `with_gaps`, what lies between the
 * elements may travel too. False where elements share memory, and so cannot be told apart without their gaps. */
bool layout_travel(const struct layout *, int element_bytes, char *data, bool with_gaps, struct runs *,
                   struct layout *there, npy_intp *first);

/* ---- array.c ---- */

/* Whether an array is one number in memory that the kernels write and the host reads, and who may have written it.
 */
enum result {
    NO_RESULT,
    AWAITED, /* the one kernel whose result it is, which may still be to come */
    ARRIVED, /* that kernel, which has */
    SETTLED, /* anybody: who reads it waits for the stream */
};

/* An array in a device's memory, in native byte order: a view of memory that is its own, or its base's. */
struct array {
    PyObject_VAR_HEAD struct device *device;
    char *data;           /* element 0, …, 0 */
    void *memory;         /* what ends with it; NULL where it is its base's */
    PyObject *base;       /* keeps the memory of others: the Array that this is a view of, or whoever has it */
    device_stream home;   /* in whose order the memory is used and given back */
    PyObject *home_owner; /* keeps `home`; NULL for the default stream */
    PyObject *weakrefs;
    PyArray_Descr *descr;
    enum dtype dtype;
    bool readonly;
    _Atomic(enum result) result; /* what one thread has seen does not undo what another one says */
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

/* A new array with memory that holds anything, at home on the stream that `owner` keeps; on the default one if
 * that is NULL. NULL with an exception. */
struct array *array_new(const struct module_state *, struct device *, device_stream, PyObject *owner,
                        PyArray_Descr *descr, int ndim, const npy_intp *shape);
/* An array in the memory of another one, whose element 0, …, 0 is `offset` bytes from that of the other. */
struct array *array_view(struct array *, npy_intp offset, const struct layout *);
struct layout array_layout(struct array *);
bool array_is_contiguous(struct array *); /* in C order, as one without elements is */
/* The array may be written by others from now on. */
static inline void array_settle(struct array *array)
{
    if (array->result != NO_RESULT) /* it is for ever, or never */
        array->result = SETTLED;
}

/* For the one number that a kernel will make: in memory that the host can read, if there is some. */
struct array *array_new_result(const struct module_state *, struct device *, PyArray_Descr *descr, int ndim,
                               const npy_intp *shape);
bool array_check(PyObject *); /* whether it is one */
/* A new array with the elements of `object` in `dtype`, as NumPy's type of that number, or in their own if it is
 * 0. NULL with an exception. */
PyObject *array_from(const struct module_state *, struct device *, PyObject *object, enum dtype, int type_num);

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- interchange.c: our arrays for other libraries ---- */

PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *array_dlpack_device(PyObject *self, PyObject *unused);
PyObject *array_interface(PyObject *self, void *unused);

/* ---- foreign.c: their arrays for us ---- */

struct operand;

/* 1: the object is an array of another library, by DLPack or the CUDA Array Interface, and is now the operand of a
 * call that is given this `stream`; a host array has become a NumPy array. 0: it is none. -1 with an exception. */
int read_foreign(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);
/* An Array on the memory of another library's array on a GPU; a copy where its elements have to be converted,
 * unless `copy` is False. NULL with an exception, or without one where it is no such array. */
PyObject *array_from_foreign(const struct module_state *, PyObject *, const char *name, PyObject *copy);
enum { MAX_RETIRED = 3 };

/* Keeps the owners of other libraries' arrays, up to MAX_RETIRED, until what stands on the stream now is done, so
 * that nobody gets their memory before; takes over the references. */
void foreign_retire(struct device *, device_stream, PyObject *const *owners, int count);
/* Lets go of the owners that need not be kept any longer. */
void foreign_sweep(void);
PyObject *core_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- view.c: an Array's elements in other shapes, and some of them ---- */

PyObject *array_select(PyObject *self, PyObject *key); /* x[key] */
PyObject *array_item_at(PyObject *self, Py_ssize_t index);
int array_assign(PyObject *self, PyObject *key, PyObject *value);
PyObject *array_transposed(PyObject *self, void *unused);
PyObject *array_matrix_transposed(PyObject *self, void *unused);
PyObject *array_reshape(PyObject *self, PyObject *args);
PyObject *array_ravel(PyObject *self, PyObject *unused);

/* ---- values.c: an Array's elements on the host ---- */

PyObject *array_numpy(PyObject *self, PyObject *unused);
PyObject *array_array(PyObject *self, PyObject *args, PyObject *kwargs);
int array_buffer(PyObject *self, Py_buffer *, int flags);
PyObject *array_item(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *array_float(PyObject *self);
PyObject *array_int(PyObject *self);
PyObject *array_complex(PyObject *self, PyObject *unused);
PyObject *array_index(PyObject *self);
int array_bool(PyObject *self);
PyObject *array_repr(PyObject *self);
PyObject *array_str(PyObject *self);
PyObject *array_reduce(PyObject *self, PyObject *unused);

/* ---- operators.c: what +, @, == and != do ---- */

PyObject *array_add(PyObject *, PyObject *);
PyObject *array_add_to(PyObject *, PyObject *);
PyObject *array_matmul(PyObject *, PyObject *);
PyObject *array_matmul_to(PyObject *, PyObject *);
PyObject *array_compare(PyObject *, PyObject *, int operation);
int array_contains(PyObject *self, PyObject *value);
PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *keywords);

/* ---- arguments.c: the only validator ---- */

/* One operand or `out`: an Array, or a NumPy array. Zeroed, it is no operand. */
struct operand {
    PyObject *owner;       /* strong reference to the one or the other */
    struct device *device; /* whose memory it is in; NULL where it is a NumPy array */
    device_stream home;    /* in whose order that memory is used */
    char *data;            /* element 0, …, 0, in device memory or in the host's */
    PyArray_Descr *descr;  /* strong reference */
    enum dtype dtype;
    bool swapped;  /* in the other byte order */
    bool readonly; /* it is no `out` */
    bool retire;   /* the owner is to be kept until the work is done: nothing else orders that */
    PyObject
        *given;    /* strong reference to the caller's object where that is an array of another library, or NULL */
    PyObject *pin; /* a weak reference to the caller's NumPy array, or NULL: NumPy resizes none that has one */
    struct layout layout;
    npy_intp size;
};

/* Each returns false with an exception that names the argument, what was required and what came. */
/* `stream` is what the call is given, on which arrays of other libraries are to be ready. */
bool read_operand(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);
/* `out` must be able to take the result; where it is None, the result is made here, of `descr`. */
bool read_out(const struct module_state *, PyObject *, struct device *, bool host, PyArray_Descr *descr, int ndim,
              const npy_intp *shape, PyObject *stream, struct operand *);
/* Raises that `name` has a dtype that is none of `allowed`. */
void refuse_dtype(const char *name, unsigned allowed, PyObject *came);
/* Whether a NumPy array is still what was read: to be asked when no more of the caller's code will run. */
bool operand_unchanged(const struct operand *);
void drop_operand(struct operand *);

/* The device of a call: that of its operands, or for NumPy operands the one asked for, or the default. */
bool read_device(const struct module_state *, PyObject *, const struct operand *operands, int count,
                 struct device **);
struct device *device_named(const struct module_state *, PyObject *name); /* NULL with an exception */
struct device *default_device(const struct module_state *);
/* The stream of a call: `stream=`, else the thread's current one for the device, else the legacy default one.
 * *owner, a new reference, is the Stream that keeps the handle; it is NULL for the default stream, and for handles
 * that nothing keeps, which must not be used after the call. `read_stream` gives the handle alone. */
bool read_home(const struct module_state *, PyObject *, const struct device *, device_stream *, PyObject **owner);
bool read_stream(const struct module_state *, PyObject *, const struct device *, device_stream *);
/* The handle of another library's stream, or a number; never of the CPU device. */
bool read_handle(PyObject *, const char *name, const struct device *, device_stream *);

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

/* None, or one of a set in native byte order, and NumPy's number for it. For None both keep their value. */
bool read_dtype(PyObject *, unsigned allowed, enum dtype *, int *type_num);
bool read_precision(PyObject *, const struct kernel_choice *);
bool read_reduce_op(PyObject *, enum reduce_op *);
bool find_reduce_op(PyObject *, enum reduce_op *); /* without an exception where it is none */
/* None, an axis or a tuple of them, into NPY_MAXDIMS flags. `scalars` lets an array without dimensions have one.
 */
bool read_axis(PyObject *, int ndim, bool tuples, bool scalars, bool *reduced);
/* None for all in reverse, or a permutation of them. */
bool read_axes(PyObject *, int ndim, int *axes);
bool read_flag(PyObject *, const char *name, bool *);
bool read_double(PyObject *, const char *name, double *);
/* A scalar as an element of a dtype: an array without dimensions, and what kernels take. NULL with an exception.
 */
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

/* ---- plans.c: calls that are like one before ---- */

/* What a call has launched. */
struct plan_note {
    int launches; /* a plan is one */
    const struct kernel_row *row;
    union {
        void *addresses[4];
        char bytes[320];
    } args;
};

void plan_note_launch(struct plan_note *, const struct kernel_row *, const void *args);
/* `what` is the operation and all of its options; the operands end with out, which may be NULL where one number is
 * made. False where there is no plan for it: then nothing has happened. Else *result is it, or NULL with an
 * exception.
 */
bool plan_run(const struct module_state *, unsigned what, PyObject *const *operands, int count, PyObject **result);
/* Keeps what such a call has launched, if it can be launched again as it is. */
void plan_keep(const struct module_state *, unsigned what, PyObject *const *operands, int count,
               const struct plan_note *, size_t scratch_bytes, PyObject *result);

/* ---- call.c: the way of the data ---- */

enum { MAX_INPUTS = 2, MAX_TEMPORARIES = 10 };

/* The moments of a part on its stream that timed() asks for; what is sent and fetched beside it has its own times.
 */
enum stage { STARTED, SENT, BEGUN, COMPUTED, FETCHED, STAGES };

/* A loop over the parts of a call: over a dimension of the result, or of what is reduced, some of it at a time. */
struct cut {
    npy_intp length, step;    /* of that dimension; it is not cut where step is 0, or not below length */
    int in[MAX_INPUTS], made; /* which dimension of `as` and of `made` it is; -1: all of it belongs to each part */
};

/* One call of an operation, or one part of it. An operation fills in the upper half. */
struct call {
    struct device *device;
    device_stream stream;
    struct kernel_choice kernel;
    int inputs;
    struct operand in[MAX_INPUTS], out;
    struct layout as[MAX_INPUTS]; /* the order in which the kernel wants the elements of `in` */
    enum dtype dtype[MAX_INPUTS]; /* and the dtype */
    bool bytes_only;              /* it moves them, so that their byte order may stay */
    bool keeps_array;             /* a NumPy array without dimensions is no scalar in the end */
    enum dtype result;            /* what it makes; in the operand's byte order if bytes_only */
    int type_num;                 /* NumPy's for the type of that, if it is one of its dtype */
    struct layout made;           /* out, in the order in which the kernel makes it */
    bool as_it_lies;              /* the kernel is `convert`, which takes the operand as it is */
    /* Whether the kernel takes its operand when it lies so on the device, which `as` tells then; NULL: only
     * without gaps, in order. */
    bool (*takes)(const struct layout *, const void *takes_context);
    const void *takes_context;
    bool strided_out; /* the kernel makes out where it lies by `made` */
    bool in_place;    /* even where that is an operand */
    size_t scratch_bytes;
    struct cut cuts[2];   /* the outer loop over its parts, and the inner one */
    bool apart;           /* its parts share nothing that a kernel writes */
    device_stream beside; /* where every second part is computed, if there is such a stream; else `stream` */

    npy_intp at[2], taken[2]; /* of a part: where in the two dimensions it begins, and how much of them it has */
    void *memory[MAX_INPUTS]; /* of the operands on the device, as wanted */
    void *out_memory, *scratch;

    bool overlapping; /* out has memory in common with an operand */
    struct convert_operand lies;
    void *temporaries[MAX_TEMPORARIES]; /* device memory that ends with the call */
    int temporary_count;
    PyArrayObject *landing;      /* host memory on the way to out */
    bool fresh;                  /* out is new, and nobody has written to it */
    struct transfer *coming;     /* its memory, which is brought in meanwhile */
    struct transfer *download;   /* which goes on, if */
    bool delivered;              /* the result is where it belongs, or on the way */
    bool ran;                    /* kernels that were launched since somebody has cleared it */
    bool touched;                /* out is not what it was, or may not be */
    device_event stages[STAGES]; /* where timed() listens */
    struct interval up[MAX_INPUTS], down;
    struct plan_note *note; /* of its launches, or NULL */
    struct failure failure;
};

/* Launches the operation's kernels for a part: `memory`, `out_memory` and `scratch` are there. Without the GIL. */
typedef bool (*call_launcher)(struct call *part, void *context);

bool call_is_host(const struct call *call);
/* How many bytes of an operation's largest array a part should have, if the call has any of the host's. */
npy_intp call_part_bytes(const struct call *, npy_intp bytes);
size_t call_room(const struct call *, size_t enough); /* of its device, with the GIL */
/* Takes the cuts back where the call does better without; done by call_run, unless the operation has done it. */
void call_choose_parts(struct call *);
/* With the GIL: runs the call, unless it makes nothing; its result, or NULL with an exception. The call is over.
 */
PyObject *call_run(const struct module_state *, struct call *, call_launcher, void *context, bool own_out);
/* Likewise, by `convert` alone, from `as` to out; or by a mere copy, where that is enough. */
PyObject *call_run_convert(const struct module_state *, struct call *, bool own_out);
PyObject *call_run_copy(const struct module_state *, struct call *, bool own_out);
/* Likewise: `value`, NULL with an exception, in every element of out. */
PyObject *call_filled(const struct module_state *, struct call *, PyObject *value, bool own_out);
PyObject *call_refused(struct call *call);
bool call_launch(struct call *, const struct kernel_row *, const void *args);
/* Raises what the failure of a call says, and that its `out` was written to, where it was. */
void raise_failure_of(const struct module_state *, struct failure *, bool touched);
/* Device memory that ends with the call; NULL with a failure. */
void *call_allocate(struct call *, size_t bytes);
unsigned long long launch_count(void);
void call_count_launch(void);
PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes);

/* ---- device.c ---- */

/* device->type's allocate and release. */
bool device_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void device_release(struct device *, void *memory, device_stream);
bool device_allocate_result(struct device *, void **memory, struct failure *);
/* `unused`: nothing that stands on a stream will touch it. */
void device_release_result(struct device *, void *memory, bool unused);
/* A copy to the host that is there on return. */
bool device_read(struct device *, void *to, const void *from, size_t bytes, device_stream, struct failure *);
PyObject *core_allocations(PyObject *module, PyObject *unused);
PyObject *core_fail_allocation(PyObject *module, PyObject *countdown);
PyObject *core_fail_launch(PyObject *module, PyObject *args); /* countdown, signal=0 */
PyObject *core_memory_stats(PyObject *module, PyObject *name);
PyObject *core_empty_cache(PyObject *module, PyObject *name);
PyObject *core_pinned_copy_seconds(PyObject *module, PyObject *args);
PyObject *core_close(PyObject *module, PyObject *unused);

/* ---- ops.c, matmul.c, reduce.c, transpose.c: the operations ---- */

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_add(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_not_equal(PyObject *module, PyObject *const *args, Py_ssize_t count);

bool warn(PyObject *category, const char *text);
/* Warns, as NumPy does, where a cast loses the imaginary part. */
bool warn_complex(enum dtype from, enum dtype to);
/* Whether all from the first to the last of them are None. */
bool are_none(PyObject *const *args, int first, int last);
/* The dtype that holds both operands', unless `object` asks for one that both can be cast to. */
bool read_common_dtype(struct call *, PyObject *object, enum dtype *);
/* A ValueError with the shapes of x1 and x2. Returns false. */
bool refuse_shapes(const struct operand *, const struct operand *, const char *expected);
/* The operand as it lies, in its own dtype. */
void want_natural(struct call *, int i);
/* `out` for a result of `dtype`, or of the operand's own dtype and byte order where only bytes are moved. */
bool call_out(const struct module_state *, struct call *, PyObject *object, enum dtype, int ndim,
              const npy_intp *shape, PyObject *stream);
/* So many steps of a dimension that the parts have about `part` bytes: at least one, and a multiple of `multiple`,
 * if not all of it. */
npy_intp step_of(npy_intp part, npy_intp bytes_a_step, npy_intp multiple);

/* ---- rehearsal.c: calls that launch nothing ---- */

bool is_rehearsal(void); /* in this thread, now */
/* Where nothing happens, if it is one; else the device itself. */
struct device *rehearsal_device(struct device *);
void rehearsal_note(const struct kernel_row *, const struct kernel_choice *, const void *args);
PyObject *core_rehearse(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- checker.c ---- */

PyObject *core_wavefronts(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_checked(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_load_checked(PyObject *module, PyObject *path);

/* ---- stream.c ---- */

enum { LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 }; /* CUDA's handles; NULL is the legacy one too */

struct stream {
    PyObject_HEAD struct device *device;
    device_stream handle;
    PyObject *source; /* what is wrapped; NULL for a stream of our own */
    bool own;         /* it is destroyed with this object */
    bool lasts;       /* it lasts as long as this object, and is the same one in every thread */
};

extern PyType_Spec stream_spec, event_spec;
bool stream_is_entered(void); /* whether the thread may have a current stream */
/* This thread's current stream for the device: a new reference, or NULL without an exception. */
struct stream *thread_stream(const struct module_state *, const struct device *);
PyObject *core_current_stream(PyObject *module, PyObject *name);
PyObject *core_mark(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- ceilings.c ---- */

PyObject *core_ceiling(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- timing.c ---- */

/* What smemkit's calls took in this thread since timed() began, in seconds; NULL outside timed(). */
struct timing {
    double upload, kernel, download;
    double uploaded, downloaded; /* until when, on the host's clock, such a time has been counted */
};
struct timing *current_timing(void);

extern PyType_Spec graph_spec;
PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
