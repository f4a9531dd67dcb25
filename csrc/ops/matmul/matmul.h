/* Matmul: what the files of this folder share. */
#ifndef SMEMKIT_OPS_MATMUL_MATMUL_H
#define SMEMKIT_OPS_MATMUL_MATMUL_H

#include "python/state.h"

#include "call/call.h"
#include "call/choice.h"
#include "ops/thresholds.h"

/* The choice of kernel=None, and how many of an element's k products a slice has: k, or a multiple of 32. Both
 * depend on the size of the whole problem, the dtype and the device's attributes only: the bits of the result
 * depend on them. */
struct matmul_choice {
    const struct kernel_row *row;
    int tile; /* `tiled` */
    npy_intp k_per_slice;
};

/* batches of (m, k) @ (k, n) */
struct matmul_size {
    npy_intp batches, m, n, k;
    bool of_bytes;  /* both operands have the same dtype of 8 bits, though c has 32 */
    bool from_host; /* the operands are copied from the host to a GPU, as a rule in parts */
    bool c_order; /* neighbours of both operands are in a row; a kernel without ANY_STRIDES then takes them as they
                     are, unless they are broadcast */
};

/* How many times 16 bits a kernel with PARTS keeps of an element: of float32 some float16 and bfloat16; of
 * integers digits of one byte; of float64 residues of one byte and a copy, or a copy only; of other numbers a
 * copy. */
int parts_per_element(const struct kernel_row *, enum dtype operands);

/* Bytes of scratch memory for the parts of an operand. */
uint64_t bytes_of_parts(const struct kernel_row *, enum dtype operands, npy_intp matrices, npy_intp sides,
                        npy_intp k);

/* Whether a kernel with PARTS can take operands of this size: the TMA counts in 32 bits. */
bool parts_fit(const struct kernel_row *, enum dtype operands, struct matmul_size);

/* How the parts of a call multiply. It depends on the whole problem only, because the bits of the result must not
 * depend on its division into parts. */
struct matmul_method {
    npy_intp k_per_slice;
    bool b_is_larger, along_k; /* see struct matmul_args */
};

struct matmul_choice choose_matmul_kernel(const struct device *, enum dtype, enum precision, struct matmul_size);

extern const struct threshold_table matmul_threshold_table;

/* The slices for a kernel that was selected by name. */
npy_intp choose_k_per_slice(const struct device *, const struct kernel_row *, enum dtype, struct matmul_size);

/* The least k for which the policy may choose a kernel; 0: any. */
npy_intp least_k_of_matmul(const struct kernel_row *);

/* The microseconds that the policy expects of a kernel on a GPU with these thresholds; negative if it knows none.
 */
double predict_matmul_time(const struct device *, const int64_t *limits, const struct kernel_row *, enum dtype,
                           struct matmul_size);

#endif
