/* A call of an operation: its operands, its kernel, its parts, and how it runs. */
#ifndef SMEMKIT_CALL_CALL_H
#define SMEMKIT_CALL_CALL_H

#include "python/state.h"

#include "array/array.h"
#include "array/operand.h"
#include "array/stream.h"
#include "base/failure.h"
#include "choice.h"
#include "device/device.h"
#include "kernels.h"
#include "launch_cache.h"
#include "python/layout.h"

enum { MAX_INPUTS = 2, MAX_TEMPORARIES = 10 };

/* Events of a part on its stream, recorded for timed(). Copies that do not go through the stream report their own
 * times.
 */
enum stage { UPLOAD_BEGIN, UPLOAD_END, KERNEL_BEGIN, COMPUTED, DOWNLOAD_END, STAGES };

/* A loop over the parts of a call, along a dimension of the result or a reduced dimension. */
struct partition {
    npy_intp length, step;   /* of that dimension; no loop if step is 0 or at least length */
    int in[MAX_INPUTS], out; /* the dimension of `in_view` and of `out_view`; -1: each part uses all of it */
};

/* A call of an operation, or one part of it. The operation fills in the upper half. */
struct call {
    struct device *device;
    device_stream stream;
    struct kernel_choice kernel;
    int inputs;
    struct operand in[MAX_INPUTS], out;
    struct layout in_view[MAX_INPUTS]; /* `in` as the kernel reads it: the layout with its order of dimensions */
    enum dtype dtype[MAX_INPUTS];      /* the kernel's dtype */
    bool bytes_only;                   /* the kernel only moves elements, in any byte order */
    bool keeps_0d_array;               /* a 0-dimensional NumPy array is returned as an array, not as a scalar */
    enum dtype result;                 /* of the kernel; in the operand's byte order if bytes_only */
    int type_num;                      /* NumPy's type number for the result */
    struct layout out_view;            /* `out` as the kernel writes it */
    bool native_layout;                /* the kernel is `convert`, which takes any layout */
    /* Whether the kernel accepts the operand's layout on the device, which is in `in_view`. NULL: only contiguous
     * operands. */
    bool (*accepts_layout)(const struct layout *, const void *accepts_context);
    const void *accepts_context;
    bool strided_out; /* the kernel can write out with the strides in `out_view` */
    bool in_place;    /* even if out overlaps an operand */
    size_t scratch_bytes;
    struct partition partitions[2]; /* the outer loop over its parts, and the inner one */
    bool independent_parts;         /* no two parts write to the same memory */
    device_stream second_stream;    /* computes every second part; equals `stream` if there is none */

    npy_intp part_begin[2], part_length[2]; /* of a part: its begin and its extent in both loops' dimensions */
    void *memory[MAX_INPUTS];               /* the operands on the device, in the kernel's layout and dtype */
    void *out_memory, *scratch;

    bool overlapping; /* out overlaps an operand */
    struct convert_operand native_operand;
    void *temporaries[MAX_TEMPORARIES]; /* device memory released with the call */
    int temporary_count;
    PyArrayObject *bounce_buffer; /* host memory that is copied to out at the end, or NULL */
    bool out_is_new;              /* newly allocated, not yet written */
    struct transfer *prefault;    /* of a new out, in progress, or NULL */
    struct transfer *download;    /* in progress if `download_started`, for an out on the host */
    bool download_started;        /* the result is in out, or being downloaded */
    bool ran;                     /* a kernel was launched since this was cleared */
    bool out_written;             /* out has been written to, or may have been */
    device_event stages[STAGES];  /* for timed() */
    struct interval up[MAX_INPUTS], down;
    struct launch_record *record; /* of its launches; or NULL */
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
PyObject *call_run(const struct module_state *, struct call *, call_launcher, void *context, bool out_given);

/* The same with `convert` as the only kernel, from `in_view` to out; or with a plain copy, if that suffices. */
PyObject *call_run_convert(const struct module_state *, struct call *, bool out_given);
PyObject *call_run_copy(const struct module_state *, struct call *, bool out_given);

/* The same, setting every element of out to `value`, which is NULL with an exception. */
PyObject *call_run_fill(const struct module_state *, struct call *, PyObject *value, bool out_given);
PyObject *call_fail(struct call *call);
bool call_launch(struct call *, const struct kernel_row *, const void *args);

/* Raises a call's failure; the message says so if its `out` has been written to. */
void raise_call_failure(const struct module_state *, struct failure *, bool out_written);

/* Device memory that is released with the call; NULL with a failure. */
void *call_allocate(struct call *, size_t bytes);
unsigned long long launch_count(void);
void call_count_launch(void);
PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes);

void call_dispose(struct call *call);

/* A call with host arrays synchronises, which is not allowed during graph capture. */
bool check_no_capture(const struct module_state *state, const struct call *call);

/* Keeps the owners of other libraries' arrays alive until the call's work is done, of which those libraries do not
 * know. */
void keep_owners_alive(struct call *call);

PyObject *call_finish(const struct module_state *state, struct call *call, bool out_given);

#endif
