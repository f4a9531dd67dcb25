/* Shapes and strides (in bytes) of arrays, and properties that follow from them without reading elements. */
#include "python/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/strided_copy.h"
#include "layout.h"

int64_t layout_size(const struct layout *layout)
{
    int64_t size = 1;

    for (int i = 0; i < layout->ndim; i++)
        size *= layout->shape[i];
    return size;
}

struct layout layout_permuted(const struct layout *layout, const int *axes)
{
    struct layout result = {.ndim = layout->ndim};

    for (int i = 0; i < layout->ndim; i++) {
        result.shape[i] = layout->shape[axes[i]];
        result.strides[i] = layout->strides[axes[i]];
    }
    return result;
}

/* Merges a dimension into the previous one if that one's stride equals this one's whole extent. */
int merge_dimensions(int ndim, npy_intp *shape, npy_intp *steps, npy_intp *other_steps)
{
    int merged = 0;

    for (int i = 0; i < ndim; i++) {
        const npy_intp length = shape[i], step = steps[i], other = other_steps[i];
        const int last = merged - 1;

        if (length == 1)
            continue;
        if (last >= 0 && steps[last] == step * length && other_steps[last] == other * length)
            shape[last] *= length;
        else
            shape[merged++] = length;
        steps[merged - 1] = step;
        other_steps[merged - 1] = other;
    }
    return merged;
}

struct layout layout_merged(const struct layout *layout)
{
    struct layout result = *layout;

    result.ndim = merge_dimensions(result.ndim, result.shape, result.strides, result.strides);
    return result;
}

bool layout_is_contiguous(const struct layout *layout, int element)
{
    npy_intp step = element;

    for (int i = layout->ndim - 1; i >= 0; i--) {
        if (layout->shape[i] != 1 && layout->strides[i] != step)
            return false;
        step *= layout->shape[i];
    }
    return true;
}

bool layout_strides_are_whole_elements(const struct layout *layout, int element)
{
    for (int i = 0; i < layout->ndim; i++)
        if (layout->strides[i] % element != 0)
            return false;
    return true;
}

void layout_byte_range(const struct layout *layout, int element, npy_intp *low, npy_intp *high)
{
    *low = 0;
    *high = element;
    for (int i = 0; i < layout->ndim; i++) {
        const npy_intp reach = (layout->shape[i] - 1) * layout->strides[i];

        *(reach < 0 ? low : high) += reach;
    }
}

/* ---- copies between host and device ---- */

/* One segment from the first to the last byte, including gaps. */
static void make_whole_segment(const struct layout *layout, int element, char *data, struct segments *segments,
                               struct layout *device_layout, npy_intp *first)
{
    npy_intp low, high;

    layout_byte_range(layout, element, &low, &high);
    *device_layout = *layout;
    *first = -low;
    *segments = (struct segments){.data = data ? data + low : NULL, .segment_bytes = (size_t)(high - low)};
}

/* The dimensions with more than one element, largest stride first. Returns their number. */
static int order_by_stride(const struct layout *layout, int *order)
{
    int count = 0;

    for (int d = 0; d < layout->ndim; d++) {
        int at = count;

        if (layout->shape[d] == 1 || layout->strides[d] == 0)
            continue;
        for (; at > 0 && llabs(layout->strides[order[at - 1]]) < llabs(layout->strides[d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
        count++;
    }
    return count;
}

/* Whether two elements may share a byte. */
static bool may_overlap(const struct layout *layout, int element, const int *order, int count)
{
    npy_intp reach = element;

    for (int i = count - 1; i >= 0; i--) {
        const npy_intp step = llabs(layout->strides[order[i]]);

        if (step < reach)
            return true;
        reach += step * (layout->shape[order[i]] - 1);
    }
    return false;
}

bool layout_segments(const struct layout *layout, int element, char *data, bool with_gaps,
                     struct segments *segments, struct layout *device_layout, npy_intp *first)
{
    enum {
        SHORT = 64,
        SPARSE = 4
    }; /* copying SHORT segments is slower than copying SPARSE times as many contiguous bytes */
    int order[NPY_MAXDIMS];
    const int count = order_by_stride(layout, order);
    npy_intp step = element, lowest = 0, low, high;

    if (may_overlap(layout, element, order, count)) {
        if (with_gaps)
            make_whole_segment(layout, element, data, segments, device_layout, first);
        return with_gaps;
    }
    *first = 0;
    *device_layout = *layout;
    *segments = (struct segments){.data = data, .segment_bytes = (size_t)element};
    for (int i = count - 1; i >= 0; i--) { /* smallest stride first; filled from the last dimension */
        const int d = order[i];
        const npy_intp length = layout->shape[d], stride = llabs(layout->strides[d]);

        if (layout->strides[d] < 0) {
            lowest += layout->strides[d] * (length - 1);
            *first += step * (length - 1);
        }
        device_layout->strides[d] = layout->strides[d] < 0 ? -step : step;
        step *= length;
        if (segments->ndim == 0 && stride == (npy_intp)segments->segment_bytes) {
            segments->segment_bytes *= (size_t)length;
        } else {
            segments->shape[count - 1 - segments->ndim] = length;
            segments->strides[count - 1 - segments->ndim++] = stride;
        }
    }
    segments->data = data ? data + lowest : NULL; /* NULL if the caller needs the segments' shape only */
    memmove(segments->shape, segments->shape + count - segments->ndim,
            (size_t)segments->ndim * sizeof *segments->shape);
    memmove(segments->strides, segments->strides + count - segments->ndim,
            (size_t)segments->ndim * sizeof *segments->strides);
    layout_byte_range(layout, element, &low, &high);
    if (with_gaps && segments->ndim && segments->segment_bytes < SHORT && high - low <= SPARSE * step)
        make_whole_segment(layout, element, data, segments, device_layout, first);
    return true;
}
