/* Strided host memory, and copies between it and dense memory. */
#ifndef SMEMKIT_STRIDED_COPY_H
#define SMEMKIT_STRIDED_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels.h"

/* Strided host memory: contiguous segments of `segment_bytes` bytes, at the strides of an array; not empty. On the
 * device the segments are contiguous, in C order. */
struct segments {
    char *data;
    size_t segment_bytes;
    int ndim;
    int64_t shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];
};

size_t segments_bytes(const struct segments *);
/* Copies bytes [begin, end) of the segments, not counting gaps, to `dense` if `gather`, otherwise from it. */
void segments_copy(const struct segments *, size_t begin, size_t end, char *dense, bool gather);

#endif
