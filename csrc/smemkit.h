/* Declarations shared by the files of the extension module: its state, its arrays, argument parsing. */
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

#include "checker/banks.h"
#include "device/device.h"

struct module_state {
    PyObject *error, *cuda_error, *fatal_cuda_error, *no_device_error, *compile_error, *out_of_memory_error;
    PyTypeObject *array_type, *stream_type, *event_type, *graph_type;
};

struct module_state *state_of(PyObject *module);

/* ---- errors.c ---- */

/* Raises the exception of a failure. Returns NULL. */
PyObject *raise_failure(const struct module_state *, const struct failure *);
/* False with an exception if the stream, or the thread's current one, is being captured into a graph; `what`
 * completes the message. */
bool refuse_capture(const struct module_state *, const struct device *, device_stream, const char *what);

/* ---- dtypes.c ---- */

enum { DTYPES = 15 };

int dtype_bytes(enum dtype);
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

/* ---- layout.c ---- */

struct layout {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS]; /* bytes */
};

int64_t layout_size(const struct layout *);
struct layout layout_permuted(const struct layout *, const int *axes);
/* Merges dimensions in place into as few as possible, keeping the order of elements for both kinds of strides
 * (which may be the same array). Returns the new number of dimensions. */
int merge_dimensions(int ndim, npy_intp *shape, npy_intp *steps, npy_intp *other_steps);
/* The same elements in the same order, in as few dimensions as possible. The layout must not be empty. */
struct layout layout_merged(const struct layout *);
bool layout_is_contiguous(const struct layout *, int element_bytes); /* in C order */
bool layout_strides_are_whole_elements(const struct layout *,
                                       int element_bytes); /* strides are multiples of the element */
/* The elements occupy bytes [low, high) relative to element 0, …, 0. The layout must not be empty. */
void layout_byte_range(const struct layout *, int element_bytes, npy_intp *low, npy_intp *high);
/* How the elements at `data` are copied between host and device: as which contiguous segments, and in which layout
 * on the device, where element 0, …, 0 is `first` bytes after the first segment. With `with_gaps`, bytes between
 * the elements may be copied as well. False if elements share memory, so that they cannot be copied without gaps.
 */
bool layout_segments(const struct layout *, int element_bytes, char *data, bool with_gaps, struct segments *,
                     struct layout *there, npy_intp *first);

/* ---- array.c ---- */

/* The state of an array that is a single number in memory that kernels write and the host can read directly.
 */
enum result {
    NO_RESULT_SLOT,
    RESULT_PENDING,    /* written by one kernel, which may not have finished */
    RESULT_READY,      /* written by that kernel, which has finished */
    RESULT_NEEDS_SYNC, /* possibly written by others: a reader synchronises the stream */
};

/* An array in device memory, in native byte order. It owns its memory, or is a view of its base's. */
struct array {
    PyObject_VAR_HEAD struct device *device;
    char *data;                     /* element 0, …, 0 */
    void *memory;                   /* owned; NULL for a view */
    PyObject *base;                 /* owner of a view's memory: an Array, or another library's object */
    device_stream owning_stream;    /* in whose order the memory is used and given back */
    PyObject *owning_stream_object; /* keeps that stream alive; NULL for the default stream */
    PyObject *weakrefs;
    PyArray_Descr *descr;
    enum dtype dtype;
    bool readonly;
    _Atomic(enum result) result; /* atomic: threads may read and write the array at the same time */
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

/* A new uninitialised array, whose memory belongs to the stream that `owner` keeps alive, or to the default stream
 * if that is NULL. NULL with an exception. */
struct array *array_new(const struct module_state *, struct device *, device_stream, PyObject *owner,
                        PyArray_Descr *descr, int ndim, const npy_intp *shape);
/* A view of another array, whose element 0, …, 0 is `offset` bytes after the other's. */
struct array *array_view(struct array *, npy_intp offset, const struct layout *);
struct layout array_layout(struct array *);
bool array_is_contiguous(struct array *); /* in C order; true for empty arrays */
/* From now on the array may be written by other kernels. */
static inline void array_require_sync(struct array *array)
{
    if (array->result != NO_RESULT_SLOT) /* which never changes */
        array->result = RESULT_NEEDS_SYNC;
}

/* A new array for a kernel's single number, in memory that the host can read directly if possible. */
struct array *array_new_in_result_slot(const struct module_state *, struct device *, PyArray_Descr *descr,
                                       int ndim, const npy_intp *shape);
bool array_check(PyObject *); /* whether the object is an Array */
/* A new array with the elements of `object` in `dtype`, as NumPy's type of that number, or in their own if it is
 * 0. NULL with an exception. */
PyObject *array_from(const struct module_state *, struct device *, PyObject *object, enum dtype, int type_num);

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- interchange.c: Arrays exported to other libraries ---- */

PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *array_dlpack_device(PyObject *self, PyObject *unused);
PyObject *array_interface(PyObject *self, void *unused);

/* ---- foreign.c: arrays imported from other libraries ---- */

struct operand;

/* Reads an array of another library, by DLPack or the CUDA Array Interface, as the operand of a call on `stream`;
 * a host array becomes a NumPy array. 1: done. 0: it is no such array. -1 with an exception. */
int read_foreign(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);
/* An Array that shares the memory of another library's GPU array; a copy if its elements have to be converted,
 * unless `copy` is False. NULL with an exception, or without one if it is no such array. */
PyObject *array_from_foreign(const struct module_state *, PyObject *, const char *name, PyObject *copy);
enum { MAX_KEPT_ALIVE = 3 };

/* Keeps up to MAX_KEPT_ALIVE owners of other libraries' arrays alive until the work now on the stream is done, so
 * that their memory is not reused earlier. Steals the references. */
void foreign_keep_alive(struct device *, device_stream, PyObject *const *owners, int count);
/* Releases the owners whose work is done. */
void foreign_release_finished(void);
PyObject *core_from_dlpack(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- view.c: reshaping and indexing ---- */

PyObject *array_select(PyObject *self, PyObject *key); /* x[key] */
PyObject *array_item_at(PyObject *self, Py_ssize_t index);
int array_assign(PyObject *self, PyObject *key, PyObject *value);
PyObject *array_transposed(PyObject *self, void *unused);
PyObject *array_matrix_transposed(PyObject *self, void *unused);
PyObject *array_reshape(PyObject *self, PyObject *args);
PyObject *array_ravel(PyObject *self, PyObject *unused);

/* ---- values.c: reading elements on the host ---- */

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

/* ---- operators.c: +, @, == and != ---- */

PyObject *array_add(PyObject *, PyObject *);
PyObject *array_add_to(PyObject *, PyObject *);
PyObject *array_matmul(PyObject *, PyObject *);
PyObject *array_matmul_to(PyObject *, PyObject *);
PyObject *array_compare(PyObject *, PyObject *, int operation);
int array_contains(PyObject *self, PyObject *value);
PyObject *array_ufunc(PyObject *self, PyObject *args, PyObject *keywords);

/* ---- arguments.c: validation of all arguments ---- */

/* An operand or `out`: an Array or a NumPy array. All zero: none. */
struct operand {
    PyObject *owner;             /* strong reference to the one or the other */
    struct device *device;       /* NULL for a NumPy array */
    device_stream owning_stream; /* in whose order that memory is used */
    char *data;                  /* element 0, …, 0, in device or host memory */
    PyArray_Descr *descr;        /* strong reference */
    enum dtype dtype;
    bool swapped;  /* not in native byte order */
    bool readonly; /* not usable as `out` */
    bool retire;   /* keep the owner until the work is done: nothing else ensures it */
    PyObject
        *given;    /* strong reference to the caller's object where that is an array of another library, or NULL */
    PyObject *pin; /* a weak reference to the caller's NumPy array, or NULL: NumPy resizes none that has one */
    struct layout layout;
    npy_intp size;
};

/* The functions below return false with an exception that names the argument, what was required and what came. */
/* `stream` is the call's stream argument: arrays of other libraries must be ready on it. */
bool read_operand(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);
/* `out` must fit the result; if it is None, a result of `descr` is allocated. */
bool read_out(const struct module_state *, PyObject *, struct device *, bool host, PyArray_Descr *descr, int ndim,
              const npy_intp *shape, PyObject *stream, struct operand *);
/* Raises a TypeError: `name` has a dtype that is not in `allowed`. */
void refuse_dtype(const char *name, unsigned allowed, PyObject *came);
/* Whether a NumPy array is unchanged since it was read; to be called when no more of the caller's code will run.
 */
bool operand_unchanged(const struct operand *);
void drop_operand(struct operand *);

/* The device of a call: its operands', or, for NumPy operands, the device argument or the default device. */
bool read_device(const struct module_state *, PyObject *, const struct operand *operands, int count,
                 struct device **);
struct device *device_named(const struct module_state *, PyObject *name); /* NULL with an exception */
struct device *default_device(const struct module_state *);
/* The stream of a call: the `stream` argument, else the thread's current stream for the device, else the legacy
 * default stream. *owner, a new reference, is the Stream that keeps the handle alive; NULL for the default stream,
 * and for handles that nothing keeps alive, which must not be used after the call. `read_stream` returns the
 * handle only. */
bool read_stream_and_owner(const struct module_state *, PyObject *, const struct device *, device_stream *,
                           PyObject **owner);
bool read_stream(const struct module_state *, PyObject *, const struct device *, device_stream *);
/* The handle of another library's stream, or an integer; not for the CPU device. */
bool read_handle(PyObject *, const char *name, const struct device *, device_stream *);

/* The row selected by `kernel`, `tile` or `block_size` (size), and `pad`, with their values. `chosen`: the caller
 * left the choice to smemkit. A rung that runs on the host moves a call with NumPy operands to the CPU device. */
struct kernel_choice {
    const struct kernel_row *row;
    int size, pad;
    bool chosen;
};
bool read_kernel(enum op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **, struct kernel_choice *);
/* Whether the kernel supports the dtype. */
bool check_kernel_dtype(const struct kernel_choice *, const char *name, enum dtype);
const struct kernel_row *find_row(enum op, const char *name);

/* None, or a dtype of the set in native byte order, and NumPy's type number. For None both keep their values. */
bool read_dtype(PyObject *, unsigned allowed, enum dtype *, int *type_num);
bool read_precision(PyObject *, const struct kernel_choice *);
bool read_reduce_op(PyObject *, enum reduce_op *);
bool find_reduce_op(PyObject *, enum reduce_op *); /* false without an exception */
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
/* The addresses and the mask of an access of known size: up to 32 integers or None, one per lane. */
bool read_addresses(PyObject *, struct warp_access *);
bool read_count(const char *function, Py_ssize_t count, Py_ssize_t expected);

PyObject *shape_tuple(int ndim, const npy_intp *shape);
/* Prefixes the message of the current exception with the argument's name. Returns false. */
bool blame(const char *name);

PyObject *core_set_default_device(PyObject *module, PyObject *name);

/* ---- launch_cache.c: launches of earlier calls ---- */

/* The launches of a call; only a single launch can be cached. */
struct launch_record {
    int launches;
    const struct kernel_row *row;
    union {
        void *addresses[4];
        char bytes[320];
    } args;
};

void launch_record_add(struct launch_record *, const struct kernel_row *, const void *args);
/* `what` encodes the operation and its options; the operands end with out, which may be NULL for a 0-dimensional
 * result. False if the call is not in the cache; nothing has happened then. Otherwise *result is its result, or
 * NULL with an exception.
 */
bool launch_cache_run(const struct module_state *, unsigned what, PyObject *const *operands, int count,
                      PyObject **result);
/* Caches a call's launch, if it can be repeated. */
void launch_cache_store(const struct module_state *, unsigned what, PyObject *const *operands, int count,
                        const struct launch_record *, size_t scratch_bytes, PyObject *result);

/* ---- call.c: the data path of a call ---- */

enum { MAX_INPUTS = 2, MAX_TEMPORARIES = 10 };

/* Events of a part on its stream, recorded for timed(). Copies that do not go through the stream report their own
 * times.
 */
enum stage { UPLOAD_BEGIN, UPLOAD_END, KERNEL_BEGIN, COMPUTED, DOWNLOAD_END, STAGES };

/* A loop over the parts of a call, along a dimension of the result or a reduced dimension. */
struct partition {
    npy_intp length, step;    /* of that dimension; no loop if step is 0 or at least length */
    int in[MAX_INPUTS], made; /* the dimension of `as` and of `made`; -1: each part uses all of it */
};

/* A call of an operation, or one part of it. The operation fills in the upper half. */
struct call {
    struct device *device;
    device_stream stream;
    struct kernel_choice kernel;
    int inputs;
    struct operand in[MAX_INPUTS], out;
    struct layout as[MAX_INPUTS]; /* the elements of `in` in the kernel's order */
    enum dtype dtype[MAX_INPUTS]; /* the kernel's dtype */
    bool bytes_only;              /* the kernel only moves elements, in any byte order */
    bool keeps_0d_array;          /* a NumPy array without dimensions is no scalar in the end */
    enum dtype result;            /* of the kernel; in the operand's byte order if bytes_only */
    int type_num;                 /* NumPy's type number for the result */
    struct layout made;           /* out in the kernel's order */
    bool native_layout;           /* the kernel is `convert`, which takes any layout */
    /* Whether the kernel accepts the operand's layout on the device, which is in `as`. NULL: only contiguous
     * operands. */
    bool (*accepts_layout)(const struct layout *, const void *accepts_context);
    const void *accepts_context;
    bool strided_out; /* the kernel can write out with the strides in `made` */
    bool in_place;    /* even if out overlaps an operand */
    size_t scratch_bytes;
    struct partition partitions[2]; /* the outer loop over its parts, and the inner one */
    bool independent_parts;         /* no two parts write to the same memory */
    device_stream second_stream;    /* computes every second part; equals `stream` if there is none */

    npy_intp at[2], part_length[2]; /* of a part: its begin and its extent in both loops' dimensions */
    void *memory[MAX_INPUTS];       /* the operands on the device, in the kernel's layout and dtype */
    void *out_memory, *scratch;

    bool overlapping; /* out overlaps an operand */
    struct convert_operand native_operand;
    void *temporaries[MAX_TEMPORARIES]; /* device memory released with the call */
    int temporary_count;
    PyArrayObject *bounce_buffer; /* host memory that is copied to out at the end, or NULL */
    bool out_is_new;              /* newly allocated, not yet written */
    struct transfer *prefault;    /* of a new out, in progress, or NULL */
    struct transfer *download;    /* in progress if `delivered`, for an out on the host */
    bool delivered;               /* the result is in out, or being downloaded */
    bool ran;                     /* a kernel was launched since this was cleared */
    bool out_written;             /* out has been written to, or may have been */
    device_event stages[STAGES];  /* for timed() */
    struct interval up[MAX_INPUTS], down;
    struct launch_record *note; /* of its launches, or NULL */
    struct failure failure;
};

/* Launches the operation's kernels for a part, whose `memory`, `out_memory` and `scratch` are set. Called without
 * the GIL. */
typedef bool (*call_launcher)(struct call *part, void *context);

bool call_has_host_operands(const struct call *call);
/* The bytes per part of an operation's largest array; unlimited if the call has no host arrays. */
npy_intp call_part_bytes(const struct call *, npy_intp bytes);
size_t call_available_bytes(const struct call *,
                            size_t enough); /* see device_type.available_bytes; with the GIL */
/* Cancels the partition if the call is faster whole; called by call_run, unless the operation has done it. */
void call_cancel_slow_partition(struct call *);
/* Runs the call, unless its result is empty, and disposes of it. Called with the GIL. Returns the result, or NULL
 * with an exception.
 */
PyObject *call_run(const struct module_state *, struct call *, call_launcher, void *context, bool own_out);
/* The same with `convert` as the only kernel, from `as` to out; or with a plain copy, if that suffices. */
PyObject *call_run_convert(const struct module_state *, struct call *, bool own_out);
PyObject *call_run_copy(const struct module_state *, struct call *, bool own_out);
/* The same, setting every element of out to `value`, which is NULL with an exception. */
PyObject *call_run_fill(const struct module_state *, struct call *, PyObject *value, bool own_out);
PyObject *call_fail(struct call *call);
bool call_launch(struct call *, const struct kernel_row *, const void *args);
/* Raises a call's failure; the message says so if its `out` has been written to. */
void raise_call_failure(const struct module_state *, struct failure *, bool out_written);
/* Device memory that is released with the call; NULL with a failure. */
void *call_allocate(struct call *, size_t bytes);
unsigned long long launch_count(void);
void call_count_launch(void);
PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes);

/* ---- device.c ---- */

/* device->type's allocate and release. */
bool device_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void device_release(struct device *, void *memory, device_stream);
bool device_allocate_result_slot(struct device *, void **memory, struct failure *);
/* `unused`: no work on a stream accesses it. */
void device_release_result_slot(struct device *, void *memory, bool unused);
/* A synchronous copy to the host. */
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
/* Warns, as NumPy does, if a cast discards the imaginary part. */
bool warn_complex(enum dtype from, enum dtype to);
/* Whether args[first] to args[last] are all None. */
bool all_none(PyObject *const *args, int first, int last);
/* The promoted dtype of both operands, or the dtype that `object` asks for, if both can be cast to it. */
bool read_common_dtype(struct call *, PyObject *object, enum dtype *);
/* A ValueError with the shapes of x1 and x2. Returns false. */
bool refuse_shapes(const struct operand *, const struct operand *, const char *expected);
/* Asks for operand i in its own layout and dtype. */
void use_native_layout(struct call *, int i);
/* Sets call->out for a result of `dtype`, or of the operand's own dtype and byte order if the kernel only moves
 * bytes. */
bool call_read_out(const struct module_state *, struct call *, PyObject *object, enum dtype, int ndim,
                   const npy_intp *shape, PyObject *stream);
/* How many indices of a dimension give parts of about `part` bytes: at least one, and a multiple of `multiple`
 * unless it is all of them. */
npy_intp step_of(npy_intp part, npy_intp bytes_per_index, npy_intp multiple);

/* ---- dry_run.c: calls that launch nothing ---- */

bool is_dry_run(void); /* whether this thread is in one */
/* The dry-run device in a dry run, otherwise the device itself. */
struct device *dry_run_device(struct device *);
void dry_run_note(const struct kernel_row *, const struct kernel_choice *, const void *args);
PyObject *core_dry_run(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* ---- checker.c ---- */

PyObject *core_wavefronts(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_checked(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_load_checked(PyObject *module, PyObject *path);

/* ---- stream.c ---- */

enum { LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 }; /* CUDA's handles; NULL is the legacy one too */

struct stream {
    PyObject_HEAD struct device *device;
    device_stream handle;
    PyObject *source; /* the wrapped object; NULL for a stream of our own */
    bool own;         /* destroyed with this object */
    bool lasts;       /* valid as long as this object, and in every thread */
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

/* The time that smemkit's calls took in this thread since timed() began, in seconds; NULL outside timed(). */
struct timing {
    double upload, kernel, download;
    double uploaded, downloaded; /* the host's time up to which uploads and downloads are counted */
};
struct timing *current_timing(void);

extern PyType_Spec graph_spec;
PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
