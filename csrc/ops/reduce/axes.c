/* Reductions over any axes, as a reduction of (outer, n, inner) elements over n. */
#include "python/state.h"

#include "call/call.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "python/layout.h"
#include "reduce.h"

/* The number of groups of consecutive reduced dimensions, in this order of the dimensions. */
static int count_groups(const struct layout *layout, const int *order, const bool *reduced)
{
    int count = 0;
    bool inside = false;

    for (int i = 0; i < layout->ndim; i++) {
        if (layout->shape[order[i]] == 1)
            continue;
        count += reduced[order[i]] && !inside;
        inside = reduced[order[i]];
    }
    return count;
}

static bool innermost_is_kept(const struct layout *layout, const int *order, const bool *reduced)
{
    bool kept = false;

    for (int i = 0; i < layout->ndim; i++)
        if (layout->shape[order[i]] != 1)
            kept = !reduced[order[i]];
    return kept;
}

/* The dimensions in memory order, if that keeps the order of the kept dimensions and, for indices, of the reduced
 * ones: then the result is the same without a conversion. */
static bool find_memory_order(const struct layout *layout, const bool *reduced, bool indices, int *order)
{
    int last[2] = {-1, -1};

    for (int i = 0; i < layout->ndim; i++) {
        int at = i;

        for (; at > 0 && layout->strides[order[at - 1]] < layout->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < layout->ndim; i++) {
        const int d = order[i];

        if (layout->shape[d] == 1)
            continue;
        if ((indices || !reduced[d]) && d < last[reduced[d]])
            return false;
        last[reduced[d]] = d;
    }
    return true;
}

/* Whether the dimensions of a group, in this order, can be merged into one: a single non-negative stride, which is
 * `element` bytes for the last group. */
static bool merges_to_one_dimension(const struct layout *layout, const int *order, int count, int element,
                                    bool last)
{
    npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];

    for (int i = 0; i < count; i++) {
        shape[i] = layout->shape[order[i]];
        strides[i] = layout->strides[order[i]];
    }
    count = merge_dimensions(count, shape, strides, strides);
    return count == 0 ||
           (count == 1 && strides[0] >= 0 && strides[0] % element == 0 && (!last || strides[0] == element));
}

/* The first group of kept dimensions, and the reduced group from `begin` to `end`. */
static void find_groups(const struct layout *layout, const int *order, const bool *reduced, int *begin, int *end)
{
    *begin = 0;
    while (*begin < layout->ndim && (!reduced[order[*begin]] || layout->shape[order[*begin]] == 1))
        ++*begin;
    *end = *begin;
    while (*end < layout->ndim && (reduced[order[*end]] || layout->shape[order[*end]] == 1))
        ++*end;
}

/* Whether the kernels that kernel=None may choose accept an array's layout, in this order of its dimensions. */
static bool accepts_array(const struct layout *layout, const int *order, const bool *reduced, int element)
{
    int begin, end, ndim = layout->ndim;

    find_groups(layout, order, reduced, &begin, &end);
    while (end < ndim && layout->shape[order[ndim - 1]] == 1)
        ndim--;
    return merges_to_one_dimension(layout, order, begin, element, begin == ndim) &&
           merges_to_one_dimension(layout, order + begin, end - begin, element, end == ndim) &&
           merges_to_one_dimension(layout, order + end, ndim - end, element, true);
}

bool accepts_part_layout(const struct layout *device_layout, const void *context)
{
    const struct reduction *reduction = context;
    const struct extent *extent = &reduction->extent;
    const int n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    const int element = dtype_bytes(reduction->args.dtype);

    if (n > 1 || reduction->reduced_ndim > 1 || device_layout->ndim > inner + 1)
        return false;
    for (int i = 0; i < device_layout->ndim; i++)
        if (device_layout->strides[i] < 0 || device_layout->strides[i] % element != 0)
            return false;
    if (extent->inner > 1)
        return device_layout->strides[inner] == element &&
               (reduction->args.work.fold == 1 || device_layout->strides[n] == extent->inner * element);
    return reduction->args.work.vector == 1 || /* read by elements */
           (reduction->args.work.vector == 0 && (extent->n == 1 || device_layout->strides[n] == element));
}

/* An order of the dimensions in which the reduced ones are consecutive: memory order, the given order, or with the
 * reduced ones last. */
static void choose_axis_order(const struct call *call, const bool *reduced, bool indices, int *order)
{
    const struct layout *layout = &call->in[0].layout;
    const bool rows = !call->kernel.automatic && call->kernel.row->traits & ROWS_ONLY;
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout permuted;
    int kept = 0;

    if (find_memory_order(layout, reduced, indices, order) && count_groups(layout, order, reduced) <= 1) {
        permuted = layout_permuted(layout, order);
        if ((layout_is_contiguous(&permuted, element) ||
             (call->kernel.row->traits & WORK_SPLIT && accepts_array(layout, order, reduced, element))) &&
            !(rows && innermost_is_kept(layout, order, reduced)))
            return;
    }
    for (int i = 0; i < layout->ndim; i++)
        order[i] = i;
    if (count_groups(layout, order, reduced) <= 1 && !(rows && innermost_is_kept(layout, order, reduced)))
        return;
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i])
            order[kept++] = i;
    for (int i = 0; i < layout->ndim; i++)
        if (reduced[i])
            order[kept++] = i;
}

/* Appends the dimensions of one group to `in_view`, and to `out_view` if the group is kept, merged where possible.
 * Returns the number of elements of the group. */
static npy_intp append_group(struct call *call, const struct layout *out, const int *order, int count, bool kept)
{
    struct layout *in_view = &call->in_view[0], *out_view = &call->out_view;
    const struct layout *in = &call->in[0].layout;
    npy_intp shape[NPY_MAXDIMS], steps[NPY_MAXDIMS], out_steps[NPY_MAXDIMS], size = 1;

    for (int i = 0; i < count; i++) {
        shape[i] = in->shape[order[i]];
        steps[i] = in->strides[order[i]];
        out_steps[i] = kept ? out->strides[order[i]] : steps[i];
        size *= shape[i];
    }
    count = merge_dimensions(count, shape, steps, out_steps);
    for (int i = 0; i < count; i++) {
        in_view->shape[in_view->ndim] = shape[i];
        in_view->strides[in_view->ndim++] = steps[i];
        if (kept) {
            out_view->shape[out_view->ndim] = shape[i];
            out_view->strides[out_view->ndim++] = out_steps[i];
        }
    }
    return size;
}

void view_as_outer_n_inner(struct call *call, struct reduction *reduction)
{
    const bool indices = reduction->args.op == REDUCE_ARGMIN || reduction->args.op == REDUCE_ARGMAX;
    const bool *reduced = reduction->reduced;
    const struct layout *in = &call->in[0].layout;
    const struct extent unreduced = {.outer = layout_size(in), .n = 1, .inner = 1}; /* no reduced axes */
    const struct reduce_target *gpu = &reduction->gpu;
    struct extent *extent = &reduction->extent;
    struct layout out = {.ndim = in->ndim}, permuted;
    int order[NPY_MAXDIMS], begin, end;

    for (int i = 0, at = 0; i < in->ndim; i++)
        if (!reduced[i] || reduction->keepdims)
            out.strides[i] = call->out.layout.strides[at++];
    choose_axis_order(call, reduced, indices, order);
    find_groups(in, order, reduced, &begin, &end);
    permuted = layout_permuted(in, order);
    if (call->kernel.automatic && begin == in->ndim && unreduced.outer <= 2 * gpu->limits.max_short_rows &&
        !prefers_registers(gpu, &unreduced, &reduction->args) &&
        layout_is_contiguous(&permuted, dtype_bytes(call->in[0].dtype)))
        begin = end = 0; /* no reduced axes: columns of one element */
    call->in_view[0].ndim = call->out_view.ndim = 0;
    extent->outer = append_group(call, &out, order, begin, true);
    reduction->outer_ndim = call->in_view[0].ndim;
    extent->n = append_group(call, &out, order + begin, end - begin, false);
    reduction->reduced_ndim = call->in_view[0].ndim - reduction->outer_ndim;
    extent->inner = append_group(call, &out, order + end, in->ndim - end, true);
}
