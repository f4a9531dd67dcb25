/* The kernel table as C sees it: kernels/kernels.def, expanded once in table.c. */
#ifndef SMEMKIT_TABLE_H
#define SMEMKIT_TABLE_H

#include <stdbool.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum op {
    OP_matmul,
    OP_reduce,
    OP_transpose,
    OP_reverse,
    OP_add_one,
    OP_elementwise,
    OP_convert,
    OP_ceiling,
    OP_COUNT
};
enum needs { HOST = 0, ANY = 75, SM_80 = 80, SM_90A = 90 };

enum role { RUNG, PRODUCTION, CEILING };
enum traits {
    DEFAULT = 1 << 0,
    ANY_STRIDES = 1 << 1,
    WORK_SPLIT = 1 << 2,
    ROWS_ONLY = 1 << 3,
    COUNTERS = 1 << 4,
    SLICES = 1 << 5,
    SOLE = 1 << 6,
    TF32 = 1 << 7,
    PARTS = 1 << 8,
    NARROW = 1 << 9,
    PIECES = 1 << 10,
    RESIDUES = 1 << 11
};

/* The rows by name, as indices of kernel_rows: ROW_transpose_tiles */
enum kernel_index {
#define KERNEL(op, name, ...) ROW_##op##_##name,
#include "kernels.def"
#undef KERNEL
    ROW_COUNT
};

/* See kernels/kernels.def. */
struct kernel_row {
    enum op op;
    const char *name;
    int order;
    enum needs needs;
    bool cpu; /* the executor runs it too */
    enum role role;
    unsigned traits;  /* set of enum traits */
    unsigned dtypes;  /* set of enum dtype */
    const int *sizes; /* tile or block_size, the first is the default; ends with -1 */
    const int *pads;  /* the same */
    const char *summary;
    enum kernel_index index; /* in kernel_rows and in the launchers' tables */
};

extern const struct kernel_row kernel_rows[ROW_COUNT];

/* The dtypes in which a kernel has run on a GPU with correct results, as kernels/recorded.def says. Of operations
 * that the benchmark does not measure, and of kernels that run on the host, nothing is recorded: they count as
 * right.
 */
unsigned kernel_recorded_dtypes(enum kernel_index);
bool kernel_is_recorded(enum kernel_index); /* in any */

/* Whether kernel=None may choose a kernel on a GPU for an operand of one of these dtypes, which the kernel treats
 * alike. It may if the kernel is recorded in one of them; or, where no production kernel of the op is, if it is
 * recorded in any other dtype. A DEFAULT kernel always may, unless it is a rung and a production kernel is
 * recorded; a SOLE kernel may as long as it is recorded in no dtype at all. */
bool kernel_is_eligible(enum kernel_index, unsigned dtypes);

/* A kernel's name in an earlier version, which still works, with a DeprecationWarning. */
struct kernel_rename {
    enum op op;
    const char *old_name; /* ends with NULL */
    enum kernel_index row;
};
extern const struct kernel_rename kernel_renames[];

extern const char *const op_names[OP_COUNT];

/* A launcher enqueues its kernel on a stream and returns a cudaError_t. NULL if this build has none. */
typedef int (*kernel_launcher)(const void *args, void *stream);
extern const kernel_launcher cpu_launchers[];
extern const kernel_launcher cuda_launchers[];
/* The launchers of the checked builds, in a separate library; NULL before it is loaded. */
extern const kernel_launcher *checked_launchers;

#ifdef __cplusplus
}
#endif

#endif
