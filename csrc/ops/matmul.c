/* matmul: products of matrices and of batches of matrices. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/lookup.h"
#include "array/operand.h"
#include "call/call.h"
#include "call/choice.h"
#include "call/launch_cache.h"
#include "call/operands.h"
#include "call/part.h"
#include "kernels.h"
#include "ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"

/* The batch dimensions of c, with the strides of a and b, in matrices. */
struct batches {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], a_strides[NPY_MAXDIMS], b_strides[NPY_MAXDIMS];
};

/* Views a vector as a matrix of one row, or of one column. */
static void view_vector_as_matrix(struct layout *layout, bool column)
{
    if (layout->ndim != 1)
        return;
    layout->ndim = 2;
    layout->shape[!column] = layout->shape[0];
    layout->strides[!column] = layout->strides[0];
    layout->shape[column] = 1;
    layout->strides[column] = 0;
}

/* Broadcasts the shapes of a and b, matrices or batches; false if they do not fit. */
static bool broadcast(const struct layout *a, const struct layout *b, struct batches *batches, npy_intp *shape)
{
    npy_intp a_batch_stride = 1, b_batch_stride = 1;

    batches->ndim = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    for (int i = batches->ndim - 1, from_end = 3; i >= 0; i--, from_end++) {
        const npy_intp in_a = a->ndim >= from_end ? a->shape[a->ndim - from_end] : 1;
        const npy_intp in_b = b->ndim >= from_end ? b->shape[b->ndim - from_end] : 1;

        if (in_a != in_b && in_a != 1 && in_b != 1)
            return false;
        shape[i] = batches->shape[i] = in_a == 1 ? in_b : in_a;
        batches->a_strides[i] = in_a == 1 ? 0 : a_batch_stride;
        batches->b_strides[i] = in_b == 1 ? 0 : b_batch_stride;
        a_batch_stride *= in_a;
        b_batch_stride *= in_b;
    }
    return true;
}

/* The shape of the product; a vector operand contributes no dimension. -1 with an exception. */
static int matmul_shape(struct call *call, struct batches *batches, npy_intp *shape)
{
    struct layout *a = &call->in_view[0], *b = &call->in_view[1];
    const bool row = a->ndim == 1, column = b->ndim == 1;
    int ndim;

    if (a->ndim && b->ndim) {
        view_vector_as_matrix(a, false);
        view_vector_as_matrix(b, true);
    }
    if (a->ndim < 2 || b->ndim < 2 || a->shape[a->ndim - 1] != b->shape[b->ndim - 2]) {
        refuse_shapes(&call->in[0], &call->in[1], "shapes (..., m, k) and (..., k, n)");
        return -1;
    }
    if (!broadcast(a, b, batches, shape)) {
        refuse_shapes(&call->in[0], &call->in[1], "batches that can be broadcast");
        return -1;
    }
    ndim = batches->ndim;
    if (!row)
        shape[ndim++] = a->shape[a->ndim - 2];
    if (!column)
        shape[ndim++] = b->shape[b->ndim - 1];
    return ndim;
}

/* How split_k divides the k products of an element. It depends on the shape of the whole problem only, because the
 * bits of the result must not depend on its division into parts. */
struct k_split {
    npy_intp chunk, splits;
};

static struct k_split split_k(npy_intp elements, npy_intp k)
{
    enum {
        LONGEST = 8192,          /* products per thread: float errors stay small */
        MOST_PARTIALS = 1 << 20, /* with more, the tiles alone keep a GPU busy */
        MULTIPLE = 32,           /* the largest tile: only the last tile of a slice may be partial */
    };
    const npy_intp wanted = (k + LONGEST - 1) / LONGEST, max_splits = MOST_PARTIALS / elements;
    const npy_intp splits = wanted < max_splits ? wanted : max_splits > 1 ? max_splits : 1;
    struct k_split split = {.chunk = (k + splits - 1) / splits};

    split.chunk = (split.chunk + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    split.splits = (k + split.chunk - 1) / split.chunk;
    return split;
}

/* One launch for all matrices with a single batch stride; a loop over the other batch dimensions. */
static bool launch_matmul(struct part *part, struct matmul_args *args, const struct batches *batches)
{
    const int64_t element = dtype_bytes(args->dtype), outer = batches->ndim > 1 ? batches->ndim - 1 : 0;
    const struct matmul_args first = *args;
    npy_intp index[NPY_MAXDIMS] = {0};
    int64_t done = 0;

    for (;;) {
        int64_t a = 0, b = 0;
        int d = (int)outer - 1;

        for (int i = 0; i < outer; i++) {
            a += index[i] * batches->a_strides[i];
            b += index[i] * batches->b_strides[i];
        }
        args->a = (const char *)first.a + a * args->m * args->k * element;
        args->b = (const char *)first.b + b * args->k * args->n * element;
        args->c = (char *)first.c + done * args->m * args->n * element;
        if (!part_launch(part, part->call->kernel.row, args))
            return false;
        done += args->batches;
        while (d >= 0 && ++index[d] == batches->shape[d])
            index[d--] = 0;
        if (d < 0)
            return true;
    }
}

static bool run_matmul(struct part *part, void *context)
{
    const struct layout *a = &part->in_view[0], *b = &part->in_view[1];
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    struct matmul_args args = {.a = part->buffers.operands[0],
                               .b = part->buffers.operands[1],
                               .c = part->buffers.out,
                               .scratch = part->buffers.scratch,
                               .k_per_slice = ((const struct k_split *)context)->chunk,
                               .m = a->shape[a->ndim - 2],
                               .n = b->shape[b->ndim - 1],
                               .k = a->shape[a->ndim - 1],
                               .batches = 1,
                               .dtype = part->call->result,
                               .tile = part->call->kernel.size};

    (void)broadcast(a, b, &batches, shape);
    batches.ndim = merge_dimensions(batches.ndim, batches.shape, batches.a_strides, batches.b_strides);
    if (batches.ndim > 0) {
        args.batches = batches.shape[batches.ndim - 1];
        args.a_batch_stride = batches.a_strides[batches.ndim - 1] * args.m * args.k;
        args.b_batch_stride = batches.b_strides[batches.ndim - 1] * args.k * args.n;
    }
    return launch_matmul(part, &args, &batches);
}

/* Views out as a batch of matrices, also if an operand is a vector. */
static void view_out_as_matrices(struct call *call, int batches, npy_intp m, npy_intp n)
{
    struct layout *out_view = &call->out_view;
    const struct layout *out = &call->out.layout;
    const bool column = out->ndim > batches && n > 1 ? out->ndim == batches + 1 && m == 1 : false;

    out_view->ndim = batches + 2;
    out_view->shape[batches] = m;
    out_view->shape[batches + 1] = n;
    if (out->ndim == batches + 2)
        return;
    out_view->strides[batches] = out_view->strides[batches + 1] = 0;
    if (out->ndim == batches + 1)
        out_view->strides[batches + (column ? 1 : 0)] = out->strides[batches];
}

/* The loops of a product in parts. Inner: rows of a, which are multiplied with all of b; for a batch, matrices.
 * Outer: columns of b, if they do not all fit on the device; or matrices of a batch, if they are large. The result
 * does not depend on the parts, because no part divides k. */
static void partition_matmul(struct call *call, int batches)
{
    enum { ROWS = 32, MANY_ROWS = 256, DEPTH = 3 };
    const struct layout *a = &call->in_view[0], *b = &call->in_view[1], *out_view = &call->out_view;
    const npy_intp m = out_view->shape[batches], n = out_view->shape[batches + 1], k = a->shape[a->ndim - 1];
    const npy_intp element = dtype_bytes(call->result);
    npy_intp matrices = (m * k + k * n + m * n) * element;
    const npy_intp sides = (m > n ? m : n) * k * element, all = m * n * element;
    const npy_intp part = call_part_bytes(call, sides > all ? sides : all);
    struct partition *inner = &call->partitions[1], *outer = &call->partitions[0];
    npy_intp rows = choose_part_step(part, (k > n ? k : n) * element, ROWS);

    call->independent_parts = true;
    *inner =
        (struct partition){m, rows > MANY_ROWS ? rows / MANY_ROWS * MANY_ROWS : rows, {a->ndim - 2, -1}, batches};
    if (batches) {
        struct partition *partition = matrices / 2 > part ? outer : inner;

        for (int d = 1; d < batches; d++) /* a step spans all dimensions after the first */
            matrices *= out_view->shape[d];
        *partition = (struct partition){out_view->shape[0], choose_part_step(part, matrices, 1), {-1, -1}, 0};
        for (int i = 0; i < 2; i++)
            if (call->in_view[i].ndim == out_view->ndim && call->in_view[i].shape[0] > 1)
                partition->in[i] = 0;
        return;
    }
    if (part < NPY_MAX_INTP) {
        const npy_intp step = inner->step < m ? inner->step : m;
        const size_t pipeline_bytes = (size_t)((k + n) * step * element) * 2 * DEPTH;
        const size_t column_bytes = (size_t)(k * element) * (call->in[1].dtype == call->result ? 1 : 2);
        const size_t available =
            call_available_bytes(call, (pipeline_bytes + (size_t)n * column_bytes) / 8 * 10) / 10 * 9;

        *outer = (struct partition){n, n, {-1, b->ndim - 1}, batches + 1};
        if (available <= pipeline_bytes || (size_t)n > (available - pipeline_bytes) / column_bytes)
            outer->step = choose_part_step(
                available > pipeline_bytes ? (npy_intp)((available - pipeline_bytes) / column_bytes) : 0, 1,
                MANY_ROWS);
    }
}

/* ---- which kernel, and how ---- */

/* The executor's time for all blocks with this tile, in nanoseconds: a thread is a fiber, which costs its start
 * and a switch per barrier, whether or not the tile has an element for it. Measured on a Zen 4; only the ratios
 * matter. */
static double tile_cost(npy_intp batches, npy_intp m, npy_intp n, npy_intp k, int tile)
{
    const double BLOCK = 300, THREAD = 60, STEP = 28, PRODUCT = 1.4;
    const double blocks = (double)batches * (double)((m + tile - 1) / tile) * (double)((n + tile - 1) / tile);
    const double steps = (double)((k + tile - 1) / tile);

    return blocks * (BLOCK + tile * tile * (THREAD + steps * (STEP + PRODUCT * tile)));
}

/* The choice of kernel=None: the cheapest tile on the CPU device; split_k for a long k. */
static void choose_matmul_kernel(struct call *call, int batch_ndim, const struct k_split *split)
{
    const struct layout *out_view = &call->out_view;
    const npy_intp m = out_view->shape[batch_ndim], n = out_view->shape[batch_ndim + 1];
    const npy_intp k = call->in_view[0].shape[call->in_view[0].ndim - 1], batches = call->out.size / (m * n);
    struct kernel_choice *kernel = &call->kernel;

    if (!kernel->automatic)
        return;
    if (split->splits > 1)
        kernel->row = &kernel_rows[ROW_matmul_split_k];
    for (const int *tile = kernel->row->sizes; device_is_host(call->device) && *tile > 0; tile++)
        if (tile_cost(batches, m, n, k, *tile) < tile_cost(batches, m, n, k, kernel->size))
            kernel->size = *tile;
}

/* The bytes of the partial sums of the largest part. */
static size_t partials_bytes_of_split_k(const struct call *call, const struct k_split *split)
{
    const int element = dtype_bytes(call->result);
    struct layout part = call->out_view;

    if (call->kernel.row->index != ROW_matmul_split_k)
        return 0;
    for (int loop = 0; loop < 2; loop++) {
        const struct partition *partition = &call->partitions[loop];

        if (partition->out >= 0 && partition->step > 0 && partition->step < partition->length)
            part.shape[partition->out] = partition->step;
    }
    return (size_t)layout_size(&part) * (size_t)split->splits *
           (size_t)(element < MATMUL_MIN_PARTIAL_BYTES ? MATMUL_MIN_PARTIAL_BYTES : element);
}

/* The arguments of core_matmul, in order. */
struct matmul_arguments {
    PyObject *x1, *x2, *dtype;
    PyObject *precision; /* NULL: "highest" */
    PyObject *kernel, *tile, *out, *device, *stream;
};

static bool is_highest(PyObject *precision)
{
    return !precision ||
           (PyUnicode_CheckExact(precision) && PyUnicode_CompareWithASCIIString(precision, "highest") == 0);
}

static PyObject *matmul(const struct module_state *state, const struct matmul_arguments *args,
                        struct launch_record *record, size_t *scratch_bytes)
{
    const bool out_given = args->out != Py_None;
    struct call call = {.inputs = 2, .record = record};
    struct k_split split = {0};
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    enum dtype dtype;
    int ndim;

    if (!read_operand(state, args->x1, "x1", args->stream, &call.in[0]) ||
        !read_operand(state, args->x2, "x2", args->stream, &call.in[1]) ||
        !read_device(state, args->device, call.in, 2, &call.device) ||
        !read_common_dtype(&call, args->dtype, &dtype))
        return call_fail(&call);
    for (int i = 0; i < 2; i++) {
        call.in_view[i] = call.in[i].layout;
        call.dtype[i] = dtype;
    }
    ndim = matmul_shape(&call, &batches, shape);
    if (ndim < 0 ||
        !read_kernel(OP_matmul, args->kernel, "tile", args->tile, Py_None, args->device,
                     call_has_host_operands(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x1", dtype) ||
        (args->precision && !read_precision(args->precision, &call.kernel)) ||
        !read_stream(state, args->stream, call.device, &call.stream) ||
        !call_read_out(state, &call, args->out, dtype, ndim, shape, args->stream))
        return call_fail(&call);

    if (call.out.size && (!call.in[0].size || !call.in[1].size)) /* k is 0 */
        return call_run_fill(state, &call, Py_False, out_given);
    if (call.out.size) {
        view_out_as_matrices(&call, batches.ndim, call.in_view[0].shape[call.in_view[0].ndim - 2],
                             call.in_view[1].shape[call.in_view[1].ndim - 1]);
        split = split_k(call.out.size, call.in_view[0].shape[call.in_view[0].ndim - 1]);
        choose_matmul_kernel(&call, batches.ndim, &split);
        partition_matmul(&call, batches.ndim);
        call_cancel_slow_partition(&call);
        *scratch_bytes = call.scratch_bytes = partials_bytes_of_split_k(&call, &split);
    }
    return call_run(state, &call, run_matmul, &split, out_given);
}

static PyObject *cached_matmul(const struct module_state *state, const struct matmul_arguments *args)
{
    const bool plain = args->out != Py_None && args->dtype == Py_None && is_highest(args->precision) &&
                       args->kernel == Py_None && args->tile == Py_None && args->device == Py_None &&
                       args->stream == Py_None;
    PyObject *const operands[] = {args->x1, args->x2, args->out};
    struct launch_record record = {.launches = 0};
    size_t scratch_bytes = 0;
    PyObject *result;

    if (plain && launch_cache_run(state, OP_matmul, operands, 3, &result))
        return result;
    result = matmul(state, args, plain ? &record : NULL, &scratch_bytes);
    if (plain && result)
        launch_cache_store(state, OP_matmul, operands, 3, &record, scratch_bytes, result);
    return result;
}

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct matmul_arguments arguments;

    if (!read_count("matmul", count, sizeof arguments / sizeof(PyObject *)))
        return NULL;
    memcpy(&arguments, args, sizeof arguments);
    return cached_matmul(state_of(module), &arguments);
}

PyObject *matmul_into(const struct module_state *state, PyObject *x1, PyObject *x2, PyObject *out)
{
    const struct matmul_arguments arguments = {.x1 = x1,
                                               .x2 = x2,
                                               .dtype = Py_None,
                                               .kernel = Py_None,
                                               .tile = Py_None,
                                               .out = out,
                                               .device = Py_None,
                                               .stream = Py_None};

    return cached_matmul(state, &arguments);
}
