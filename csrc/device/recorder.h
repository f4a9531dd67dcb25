/* A device that records launches and executes nothing, for plan(). */
#ifndef SMEMKIT_DEVICE_RECORDER_H
#define SMEMKIT_DEVICE_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/table.h"
#include "device.h"

/* Consecutive launches of one kernel. */
struct recorded_launch {
    const struct kernel_row *row;
    int size, pad;         /* `tile` or `block_size`, and `pad`; 0 for a kernel that has none */
    const char *precision; /* of a float32 product; NULL for others */
    unsigned dtypes; /* the operand's, and those that the kernel treats alike: set of enum dtype; 0: not known */
    long long times;
};

struct recorder {
    struct device device; /* with the properties of the real one */
    struct device *real;
    uintptr_t allocated; /* the last fictitious address */
    struct recorded_launch *launches;
    size_t count, capacity;
    const struct recorded_device *as; /* NULL: as on the real device */
};

/* What a dry run uses in place of the real device's values: attributes, and the thresholds of an op's policy
 * (NULL: the policy's own). */
struct recorded_device {
    int capability, multiprocessors;
    size_t l2_bytes;
    const int64_t *thresholds[OP_COUNT];
};

/* The recorder in place of a real device. */
struct device *recorder_device(struct recorder *, struct device *real);

/* Whether the device is a recorder that stands for another device than the real one. */
bool recorder_is_another(const struct device *);

/* The thresholds of a dry run; NULL if it has none for the op, or if the device is not a recorder. */
const int64_t *recorder_thresholds(const struct device *, enum op);

#endif
