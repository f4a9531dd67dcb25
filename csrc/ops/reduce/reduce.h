/* Reductions: what the files of this folder share. */
#ifndef SMEMKIT_OPS_REDUCE_REDUCE_H
#define SMEMKIT_OPS_REDUCE_REDUCE_H

#include "python/state.h"

#include "call/call.h"
#include "call/choice.h"
#include "device/device.h"
#include "kernels.h"
#include "ops/thresholds.h"
#include "python/layout.h"
#include "reduce/traits.h"

/* A reduction of (outer, n, inner) elements along the second axis. */
struct extent {
    int64_t outer, n, inner;
};

enum { WARP_THREADS = 32 };

/* The thresholds of the policy and the work split, by name, in the order of thresholds.def. */
struct reduce_thresholds {
#define CHOICE(name, ...) int64_t name;
#define SPLIT             CHOICE
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
};

extern const struct threshold_table reduce_threshold_table;

/* What the policy and the work split know of a device: its attributes alone, so that the bits of a result are the
 * same on every run. */
struct reduce_target {
    int64_t multiprocessors, l2_bytes;
    struct reduce_thresholds limits;
};

struct reduce_target reduce_target(const struct device *);

/* A reduction's arguments. */
struct reduction {
    const char *op;
    bool accepts_initial; /* sum, prod, min or max */
    struct reduce_args args;
    struct reduce_target gpu;
    size_t states; /* bytes of partial results in the scratch; the counters follow */
    int64_t counters;
    bool reduced[NPY_MAXDIMS], keepdims;
    PyArrayObject *initial;
    int ndim; /* of the result */
    npy_intp shape[NPY_MAXDIMS];
    struct extent extent;
    int outer_ndim, reduced_ndim;                                        /* of `in_view` */
    enum { NO_AXIS, OUTER_AXIS, REDUCED_AXIS, INNER_AXIS } loop_axis[2]; /* of each loop over parts */
};

bool read_reduce_op(PyObject *, enum reduce_op *);
bool find_reduce_op(PyObject *, enum reduce_op *); /* false without an exception */

/* The dtype of `out`: a new reference. NULL if there is no out, or if it is not an array, which is refused later.
 */
PyArray_Descr *get_out_descr(const struct module_state *state, PyObject *out);

bool choose_reduce_dtypes(struct call *call, const char *op, PyObject *dtype, PyArray_Descr *out,
                          struct reduce_args *args);

/* Whether rows are best kept in registers: the shorter the rows, the more of them a thread has. */
bool prefers_registers(const struct reduce_target *gpu, const struct extent *extent,
                       const struct reduce_args *args);

/* The kernel and work split for kernel=None, by layout. They depend only on shape, dtype, device and `initial`, so
 * that the bits of a result are reproducible; for the shortest rows also on contiguity, but both kernels add these
 * in the same order. */
void choose_kernel(struct call *call, const struct reduce_target *gpu, const struct extent *extent,
                   struct reduce_args *args);

/* Whether a named kernel takes this reduction along `axis`, as it was given; false with an exception otherwise.
 * Rungs compute sum, prod, min and max over the last axes. */
bool check_reduce_kernel(const struct call *call, const struct reduction *reduction, PyObject *axis);

int64_t ceil_div(int64_t n, int64_t d);

/* Whether the state of a reduction fits into a flagged word: one number, without index or compensation. */
bool state_fits_word(const struct reduce_args *args);

/* Whether what a block of `rows` publishes fits into one: a state that does, or the value of a compensated sum. */
bool partial_fits_word(const struct reduce_args *args);

/* Whether `rows` keeps rows in registers if their layout allows it; otherwise they are short rows. */
bool rows_fit_in_registers(const struct extent *extent, const struct reduce_args *args);

bool needs_index_or_variance_state(enum reduce_op op);

/* Whether blocks occupy (nearly) all slots of all multiprocessors. */
bool fills_all_multiprocessors(const struct reduce_target *gpu, int64_t blocks);

void choose_row_split(const struct reduce_target *gpu, const struct extent *extent, const struct reduce_args *args,
                      struct reduce_work *work);

/* Columns per thread of `columns`. */
int columns_per_thread(const struct reduce_args *args);

/* One thread per column, and several threads that share a column, in blocks such that each multiprocessor gets
 * one. Tiles become narrower, and more numerous, if threads would have many rows; narrow tiles waste part of each
 * sector, which is limited. If that is not enough, rows are split. */
void choose_small_column_split(const struct reduce_target *gpu, const struct extent *extent,
                               const struct reduce_args *args, struct reduce_work *work);

/* Whether each thread should have whole columns: there are enough vectors for all threads, or fewer if there is a
 * kernel for this number of rows, and rows need no folding. Many rows are better done in tiles if they are narrow
 * or unaligned. */
bool prefers_whole_columns(const struct reduce_target *gpu, const struct extent *extent,
                           const struct reduce_args *args, int vector);

void choose_column_split(const struct reduce_target *gpu, const struct extent *extent,
                         const struct reduce_args *args, int vector, struct reduce_work *work);

/* Whether the kernel accepts the layout of a part on the device, whose dimensions are those of the groups. */
bool accepts_part_layout(const struct layout *device_layout, const void *context);

/* Views x as (outer, n, inner), and out as (outer, inner). */
void view_as_outer_n_inner(struct call *call, struct reduction *reduction);

/* The loops of a reduction that is done in parts. If a row is not too large, the parts are sets of rows. A larger
 * row is itself divided: along inner, some columns at a time, if these are wide enough; otherwise along n, in
 * multiples of the work split's chunk, so that the partial results are those of a single launch. Folded rows are
 * not divided along inner. */
void partition_reduce(struct call *call, struct reduction *reduction);

/* The bytes of scratch for the largest part. */
void set_scratch_bytes(struct call *call, struct reduction *reduction);

bool launch_reduce_part(struct part *part, void *context);

#endif
