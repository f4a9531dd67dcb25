/* The times that the policy of matmul predicts, and the kernels that it chooses from. */
#ifndef SMEMKIT_OPS_MATMUL_PREDICTION_H
#define SMEMKIT_OPS_MATMUL_PREDICTION_H

#include "python/state.h"

#include "matmul.h"

enum { NO_SPEED = -1, SLICE_MULTIPLE = 32 };

/* A device with its thresholds; a host has none. */
struct target {
    const struct device *device;
    int64_t limits[MAX_THRESHOLDS];
};

/* A kernel with its tile of C per block, its limits and its speed. */
struct candidate {
    enum kernel_index kernel;
    int rows, columns; /* of a block's tile of C; tiny: a warp's */
    npy_intp max_k;    /* 0: any; longer sums would lose accuracy, because the kernel adds them up in one float */
    int speed;         /* where the row SPEED is in the table; NO_SPEED: it has none */
    int threads;       /* per block */
    int depth;         /* products per element between two barriers: a step */
    double step_ns;    /* the executor's time for a step of one thread; 0: not on the CPU device */
    int capability;    /* the least that pays: 80 has asynchronous copies */
    int few_columns; /* columns of a tile if more than half of the multiprocessors would have none; 0: unchanged */
    int min_k;       /* shorter sums are more accurate otherwise */
    unsigned dtypes; /* for which this holds; 0: all of the kernel's */
    enum {
        ALWAYS,
        MORE_ROWS,       /* it is about a C with at least as many rows as columns */
        MORE_COLUMNS,    /* or with more columns */
        ONE_TILE,        /* it is about a C of one tile, for which indices are not divided */
        SEVERAL_TILES,   /* or of several */
        COPIES_ODD_ROWS, /* operands whose rows are not multiples of 16 bytes are copied first */
        THIN_TILES,      /* odd rows are copied, and some tiles have fewer columns: see matmul_choose_widths */
        QUARTERS,        /* the last tiles are divided into quarters if these fit in one wave */
    } rule;
};

/* The candidates, up to one without a tile. */
extern const struct candidate matmul_candidates[];

static inline npy_intp divide_up(npy_intp n, npy_intp d)
{
    return (n + d - 1) / d;
}

bool has_one_vector(struct matmul_size);

/* Whether the candidate is the one that tells the time of its kernel on this problem. */
bool is_about(const struct candidate *, const struct device *, enum dtype, struct matmul_size);

/* The least predicted time of a candidate; of matvec, if it is NULL: on a GPU with one vector, on the host with
 * any number of them. *slices is the number of slices of k that gives it. */
double best_time(const struct candidate *, const struct target *, enum dtype, struct matmul_size,
                 npy_intp *slices);

#endif
