/* The thresholds of a policy, fitted to GPUs, in a table with units. A table is a thresholds.def in the
 * op's folder, with a row per threshold:
 *
 *   CHOICE(name, scale, unit, columns, why)   it decides which kernel a problem takes
 *   SPLIT(name, scale, unit, columns, why)    it also decides, or only, how a kernel divides the work: another
 * value needs new measurements, so `bench planner --fit` keeps it, except those of matmul, which it fits to times
 *
 *   scale    FIXED  a property of one thread, block or multiprocessor: the same on every GPU of a capability
 *            GPU    work in all that fills a GPU, or fails to, or a rate of the whole GPU: grows with the number
 * of multiprocessors unit     of the value columns  SM_90(value) …, see fitted_gpus.def why      what it decides,
 * and why at this value
 *
 * matmul also has rows SPEED, of several thresholds each: see its table.
 *
 * The values depend on the device's attributes alone, so that the choice, and with it the bits of a result, are
 * the same on every run. Only transposes, whose bits no choice changes, may have others: see transpose/tuned.c.
 */
#ifndef SMEMKIT_OPS_THRESHOLDS_H
#define SMEMKIT_OPS_THRESHOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/table.h"
#include "device/device.h"

enum fitted_gpu {
#define FITTED_GPU(column, ...) COLUMN_##column,
#include "fitted_gpus.def"
#undef FITTED_GPU
    FITTED_GPUS
};

struct threshold {
    const char *name;
    enum threshold_scale { FIXED, GPU } scale;
    const char *unit, *why;
    bool choice;                  /* it decides the choice of a kernel only */
    int64_t columns[FITTED_GPUS]; /* 0: none, the first column's */
};

enum { MAX_THRESHOLDS = 1024 }; /* rows of a table */

struct threshold_table {
    enum op op;
    int count;
    const struct threshold *rows;
};

/* A row's columns as the initialiser of `columns`. */
#define SM_90(value) [COLUMN_SM_90] = (value),

/* Sets the values for a device, `count` of them, in the order of the rows. In a dry run that has values of its own
 * for the op, these. */
void read_thresholds(const struct threshold_table *, const struct device *, int64_t *values);

#endif
