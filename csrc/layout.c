/* Where the elements of an array lie: shapes and strides in bytes, and what can be said of them without looking at
 * an element. */
#include "smemkit.h"

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

void layout_extent(const struct layout *layout, int element, npy_intp *low, npy_intp *high)
{
    *low = 0;
    *high = element;
    for (int i = 0; i < layout->ndim; i++) {
        const npy_intp reach = (layout->shape[i] - 1) * layout->strides[i];

        *(reach < 0 ? low : high) += reach;
    }
}
