/* Shapes with strides: their size, order and extent in memory. */
#ifndef SMEMKIT_PYTHON_LAYOUT_H
#define SMEMKIT_PYTHON_LAYOUT_H

#include "python/state.h"

#include "base/strided_copy.h"

struct layout {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS]; /* bytes */
};

int64_t layout_size(const struct layout *);
struct layout layout_permuted(const struct layout *, const int *axes);

/* Merges dimensions in place into as few as possible, keeping the order of elements for both kinds of strides
 * (which may be the same array). Returns the new number of dimensions. */
int merge_dimensions(int ndim, npy_intp *shape, npy_intp *steps, npy_intp *other_steps);

/* The same elements in the same order, in as few dimensions as possible. The layout must not be empty. */
struct layout layout_merged(const struct layout *);
bool layout_is_contiguous(const struct layout *, int element_bytes); /* in C order */
bool layout_strides_are_whole_elements(const struct layout *,
                                       int element_bytes); /* strides are multiples of the element */

/* The elements occupy bytes [low, high) relative to element 0, …, 0. The layout must not be empty. */
void layout_byte_range(const struct layout *, int element_bytes, npy_intp *low, npy_intp *high);

/* How the elements at `data` are copied between host and device: as which contiguous segments, and in which layout
 * on the device, where element 0, …, 0 is `first` bytes after the first segment. With `with_gaps`, bytes between
 * the elements may be copied as well. False if elements share memory, so that they cannot be copied without gaps.
 */
bool layout_segments(const struct layout *, int element_bytes, char *data, bool with_gaps, struct segments *,
                     struct layout *device_layout, npy_intp *first);

#endif
