/* Transposes: what the files of this folder share. */
#ifndef SMEMKIT_OPS_TRANSPOSE_TRANSPOSE_H
#define SMEMKIT_OPS_TRANSPOSE_TRANSPOSE_H

#include "python/state.h"

#include "array/array.h"
#include "call/call.h"
#include "kernels.h"
#include "ops/thresholds.h"
#include "python/layout.h"

/* The dimensions of out, merged where possible, with their strides in x and in out. */
struct axes {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], x[NPY_MAXDIMS], out[NPY_MAXDIMS]; /* bytes */
};

/* Merges a few elements that stay contiguous into one larger element. Returns its bytes. */
int widen_elements(struct axes *axes, int element, uintptr_t x, uintptr_t out);

/* Expresses the permutation as a batch of matrices in `args`, with contiguous rows in x and in out. If both have
 * the same innermost axis, the matrices have a single row, which is copied. False if there is no such axis, or if
 * there are too many dimensions. */
bool view_as_matrices(struct axes axes, int element, struct transpose_args *args);

struct axes axes_of(const struct layout *in_view, const struct layout *out_view);

/* Sets the layouts of the call. kernel=None and kernels that take any strides read x's own layout, if they can.
 * Others get contiguous matrices, the last two of out's merged dimensions; if x is not laid out that way,
 * `convert` rearranges it first. False with an exception if the named kernel does not take such matrices. */
bool choose_layout(struct call *call, const int *axes);

/* Launches the transpose of a part. Without strides: packed matrices; for a ceiling, a single row of all elements.
 */
bool run_transpose(struct part *part, void *unused);

/* The loops over the parts of a transpose: matrices of a batch; within one matrix, columns or rows of x, whichever
 * give longer segments where the host array has gaps. */
void partition_transpose(struct call *call);

/* The thresholds of the policy, by name, in the order of thresholds.def. */
struct transpose_thresholds {
#define CHOICE(name, ...) int64_t name;
#define SPLIT             CHOICE
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
};

extern const struct threshold_table transpose_threshold_table;

/* Those of a device: tuned ones, or the table's. */
struct transpose_thresholds transpose_thresholds(const struct device *);

/* The kernel for matrices with kernel=None. No choice changes the bits of the result. */
const struct kernel_row *choose_transpose_kernel(const struct device *, const struct axes *axes,
                                                 const struct transpose_args *args,
                                                 const struct transpose_thresholds *limits);

/* ---- thresholds that `python -m smemkit tune` has found on this machine's GPU ---- */

/* Replaces a device's thresholds, in the order of the table; NULL: the table's own again. */
void set_tuned_thresholds(const struct device *, const int64_t *values);

/* Copies a device's tuned thresholds; false if it has none. */
bool get_tuned_thresholds(const struct device *, int64_t *values);

/* Loads them from the user's cache, once per device and process, but not while the stream is captured. False with
 * an exception; a cache file that cannot be used is ignored. */
bool load_tuned_thresholds(struct device *, device_stream);

#endif
