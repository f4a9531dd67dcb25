/* Transposes: what the files of this folder share. */
#ifndef SMEMKIT_OPS_TRANSPOSE_TRANSPOSE_H
#define SMEMKIT_OPS_TRANSPOSE_TRANSPOSE_H

#include "python/state.h"

#include "array/array.h"
#include "call/call.h"
#include "kernels.h"
#include "python/layout.h"

/* The dimensions of out, merged as far as possible, with their strides in x and in out. */
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

/* The kernel for matrices with kernel=None. Its thresholds are where the kernels' times crossed on an H200, over
 * two thousand random problems. Up to some size the latency of memory dominates, and the least preparation wins.
 */
const struct kernel_row *choose_transpose_kernel(const struct axes *axes, const struct transpose_args *args);

#endif
