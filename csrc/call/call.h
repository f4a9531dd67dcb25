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

enum { MAX_INPUTS = 2 };

/* A loop over the parts of a call, along a dimension of the result or a reduced dimension. */
struct partition {
    npy_intp length, step;   /* of that dimension; no loop if step is 0 or at least length */
    int in[MAX_INPUTS], out; /* the dimension of `in_view` and of `out_view`; -1: each part uses all of it */
};

/* The request: a call of an operation, as the operation has read it. No function changes it while parts run. */
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
    /* Divides the call into smaller parts, after an allocation has failed; false if it cannot. Or NULL. */
    bool (*take_less_memory)(struct call *, const void *context);
    struct launch_record *record; /* of its launches; or NULL */

    /* set by call_run */
    struct timing *timing;        /* of timed(), or NULL */
    bool synchronous;             /* it ends when its work is done */
    bool overlapping;             /* out overlaps an operand */
    bool out_is_new;              /* newly allocated, not yet written */
    PyArrayObject *bounce_buffer; /* host memory that is copied to out at the end, or NULL */
    /* the outcome */
    bool out_written; /* out has been written to, or may have been */
    struct failure failure;
};

struct part;

/* Launches the operation's kernels for a part, whose `buffers` are set. Called without the GIL. */
typedef bool (*call_launcher)(struct part *, void *context);

bool call_has_host_operands(const struct call *call);

/* The bytes per part of an operation's largest array, which has `bytes`: at least `least`, on a GPU; unlimited if
 * the call has no host arrays. */
enum { LEAST_PART_BYTES = 1 << 20 };
npy_intp call_part_bytes(const struct call *, npy_intp bytes, npy_intp least);
/* What a test has set instead of a number of bytes, or `usual`. */
npy_intp call_test_bytes(npy_intp usual);
size_t call_available_bytes(const struct call *,
                            size_t enough); /* see device_type.available_bytes; with the GIL */

/* Cancels the partition if the call is faster whole; called by call_run, unless the operation has done it. */
void call_cancel_slow_partition(struct call *);

/* Runs the call, unless its result is empty, and disposes of it. Called with the GIL. Returns the result, or NULL
 * with an exception.
 */
PyObject *call_run(const struct module_state *, struct call *, call_launcher, void *context, bool out_given);

/* Runs a call whose only kernel is `convert`, from `in_view` to out; call_run_copy uses a plain copy if that
 * suffices. */
PyObject *call_run_convert(const struct module_state *, struct call *, bool out_given);
PyObject *call_run_copy(const struct module_state *, struct call *, bool out_given);

/* Runs a call that sets every element of out to `value`, which is NULL with an exception. */
PyObject *call_run_fill(const struct module_state *, struct call *, PyObject *value, bool out_given);
PyObject *call_fail(struct call *call);
/* The device on which the call's parts run: in a dry run, the recorder in its place. */
struct device *call_target(const struct call *);

/* Raises a call's failure; the message says so if its `out` has been written to. */
void raise_call_failure(const struct module_state *, struct failure *, bool out_written);

PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes);

void call_dispose(struct call *call);

/* A call with host arrays synchronises, which is not allowed during graph capture. */
bool check_no_capture(const struct module_state *state, const struct call *call);

/* Keeps the owners of other libraries' arrays alive until the call's work, which those libraries do not know of,
 * is done. */
void keep_owners_alive(struct call *call);

PyObject *call_finish(const struct module_state *state, struct call *call, bool out_given);

#endif
