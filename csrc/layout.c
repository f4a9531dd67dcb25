/* Where the elements of an array lie: shapes and strides in bytes, and what can be said of them without looking at
 * an element. */
#include "smemkit.h"

#include <stdlib.h>
#include <string.h>

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

/* A dimension is merged into the one before it where a step of that one is as long as the whole of this one. */
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

bool layout_has_whole_steps(const struct layout *layout, int element)
{
    for (int i = 0; i < layout->ndim; i++)
        if (layout->strides[i] % element != 0)
            return false;
    return true;
}

void layout_extent(const struct layout *layout, int element, npy_intp *low, npy_intp *high)
{
    *low = 0;
    *high = element;
    for (int i = 0; i < layout->ndim; i++) {
        const npy_intp reach = (layout->shape[i] - 1) * layout->strides[i];

        *(reach < 0 ? low : high) += reach;
    }
}

/* ---- between the host and a device ---- */

/* All that lies between the first and the last byte, as it lies. */
static void travel_whole(const struct layout *layout, int element, char *data, struct runs *runs,
                         struct layout *there, npy_intp *first)
{
    npy_intp low, high;

    layout_extent(layout, element, &low, &high);
    *there = *layout;
    *first = -low;
    *runs = (struct runs){.data = data ? data + low : NULL, .run = (size_t)(high - low)};
}

/* The dimensions along which the elements lie, widest stride first. Returns their number. */
static int by_stride(const struct layout *layout, int *order)
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

/* Whether two of the elements share a byte, or may. */
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

bool layout_travel(const struct layout *layout, int element, char *data, bool with_gaps, struct runs *runs,
                   struct layout *there, npy_intp *first)
{
    enum {
        SHORT = 64,
        SPARSE = 4
    }; /* a copy run by run is slower than a copy of SPARSE times as much, if SHORT */
    int order[NPY_MAXDIMS];
    const int count = by_stride(layout, order);
    npy_intp step = element, lowest = 0, low, high;

    if (may_overlap(layout, element, order, count)) {
        if (with_gaps)
            travel_whole(layout, element, data, runs, there, first);
        return with_gaps;
    }
    *first = 0;
    *there = *layout;
    *runs = (struct runs){.data = data, .run = (size_t)element};
    for (int i = count - 1; i >= 0; i--) { /* narrowest stride first, from the end of the runs' dimensions */
        const int d = order[i];
        const npy_intp length = layout->shape[d], stride = llabs(layout->strides[d]);

        if (layout->strides[d] < 0) {
            lowest += layout->strides[d] * (length - 1);
            *first += step * (length - 1);
        }
        there->strides[d] = layout->strides[d] < 0 ? -step : step;
        step *= length;
        if (runs->ndim == 0 && stride == (npy_intp)runs->run) {
            runs->run *= (size_t)length;
        } else {
            runs->shape[count - 1 - runs->ndim] = length;
            runs->strides[count - 1 - runs->ndim++] = stride;
        }
    }
    runs->data = data ? data + lowest : NULL; /* who asks for the runs alone has none */
    memmove(runs->shape, runs->shape + count - runs->ndim, (size_t)runs->ndim * sizeof *runs->shape);
    memmove(runs->strides, runs->strides + count - runs->ndim, (size_t)runs->ndim * sizeof *runs->strides);
    layout_extent(layout, element, &low, &high);
    if (with_gaps && runs->ndim && runs->run < SHORT && high - low <= SPARSE * step)
        travel_whole(layout, element, data, runs, there, first);
    return true;
}
