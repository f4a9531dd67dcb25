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
#include "device/device.h"
#include "kernels.h"
#include "matmul.h"
#include "ops/ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/layout.h"

/* The batch dimensions of c, with the strides of a and b, in bytes. */
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
    batches->ndim = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    for (int i = batches->ndim - 1, from_end = 3; i >= 0; i--, from_end++) {
        const npy_intp in_a = a->ndim >= from_end ? a->shape[a->ndim - from_end] : 1;
        const npy_intp in_b = b->ndim >= from_end ? b->shape[b->ndim - from_end] : 1;

        if (in_a != in_b && in_a != 1 && in_b != 1)
            return false;
        shape[i] = batches->shape[i] = in_a == 1 ? in_b : in_a;
        batches->a_strides[i] = in_a == 1 ? 0 : a->strides[a->ndim - from_end];
        batches->b_strides[i] = in_b == 1 ? 0 : b->strides[b->ndim - from_end];
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

/* The rows of a single matrix a that a kernel multiplies at once: all of them, or fewer if the kernel has PARTS,
 * because its copies of the rows would be large. The result does not depend on their number. */
static npy_intp rows_at_once(const struct call *call, npy_intp m, npy_intp n, npy_intp k)
{
    enum { MULTIPLE = 256 };                                  /* of the rows of any tile, and of a strip */
    const npy_intp most = call_test_bytes((npy_intp)4 << 30); /* of the copies, and of C's residues */
    const npy_intp c_bytes = call->kernel.row->traits & RESIDUES ? MATMUL_MODULI * matmul_residue_row(n) : 0;
    npy_intp rows;

    if (!(call->kernel.row->traits & PARTS) || call->out.size != m * n)
        return m;
    rows = most / (2 * parts_per_element(call->kernel.row, call->dtype[0]) * k + c_bytes) / MULTIPLE * MULTIPLE;
    if (!rows)
        rows = MULTIPLE;
    return rows < m ? rows : m;
}

/* Launches the product of one matrix a, or of a batch. */
static bool launch_rows(struct part *part, const struct matmul_args *args)
{
    const int64_t c_bytes = dtype_bytes(args->dtype), a_bytes = dtype_bytes(args->operands);
    const npy_intp rows = rows_at_once(part->call, args->m, args->n, args->k);
    struct matmul_args some = *args;

    for (int64_t row = 0; row < args->m; row += rows) {
        some.m = args->m - row < rows ? args->m - row : rows;
        some.a = (const char *)args->a + row * args->a_strides[0] * a_bytes;
        some.c = (char *)args->c + row * args->n * c_bytes;
        if (!part_launch(part, part->call->kernel.row, &some))
            return false;
    }
    return true;
}

/* The matrices with a single batch stride at once; a loop over the other batch dimensions. */
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
        args->a = (const char *)first.a + a;
        args->b = (const char *)first.b + b;
        args->c = (char *)first.c + done * args->m * args->n * element;
        if (!launch_rows(part, args))
            return false;
        done += args->batches;
        while (d >= 0 && ++index[d] == batches->shape[d])
            index[d--] = 0;
        if (d < 0)
            return true;
    }
}

/* The strides of a matrix, in elements; of an axis of length 1, that of a contiguous matrix. */
static void read_strides(const struct layout *layout, npy_intp element, int64_t *strides)
{
    const npy_intp *shape = layout->shape + layout->ndim - 2, *bytes = layout->strides + layout->ndim - 2;

    strides[1] = shape[1] == 1 ? 1 : bytes[1] / element;
    strides[0] = shape[0] == 1 ? shape[1] : bytes[0] / element;
}

/* Whether kernels with ANY_STRIDES can read the layout: they keep the smaller stride of a matrix in an int. */
static bool accepts_strides(const struct layout *layout, const void *context)
{
    const npy_intp element = *(const int *)context, limit = (npy_intp)INT32_MAX * element;
    const npy_intp *strides = layout->strides + layout->ndim - 2;

    return layout_strides_are_whole_elements(layout, (int)element) &&
           ((strides[0] >= -limit && strides[0] <= limit) || (strides[1] >= -limit && strides[1] <= limit));
}

static bool run_matmul(struct part *part, void *context)
{
    const struct layout *a = &part->in_view[0], *b = &part->in_view[1];
    const npy_intp element = dtype_bytes(part->call->dtype[0]);
    const struct matmul_method *method = context;
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    struct matmul_args args = {.a = part->buffers.operands[0],
                               .b = part->buffers.operands[1],
                               .c = part->buffers.out,
                               .scratch = part->buffers.scratch,
                               .scratch_bytes = part->call->scratch_bytes,
                               .k_per_slice = method->k_per_slice,
                               .b_is_larger = method->b_is_larger,
                               .along_k = method->along_k,
                               .m = a->shape[a->ndim - 2],
                               .n = b->shape[b->ndim - 1],
                               .k = a->shape[a->ndim - 1],
                               .batches = 1,
                               .dtype = part->call->result,
                               .operands = part->call->dtype[0],
                               .tile = part->call->kernel.size,
                               .multiprocessors = part->device->multiprocessors,
                               .l2_bytes = (int64_t)part->device->l2_bytes};

    read_strides(a, element, args.a_strides);
    read_strides(b, element, args.b_strides);
    (void)broadcast(a, b, &batches, shape);
    batches.ndim = merge_dimensions(batches.ndim, batches.shape, batches.a_strides, batches.b_strides);
    if (batches.ndim > 0) {
        args.batches = batches.shape[batches.ndim - 1];
        args.a_batch_stride = batches.a_strides[batches.ndim - 1] / element;
        args.b_batch_stride = batches.b_strides[batches.ndim - 1] / element;
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

/* The step with which no part of several rows, or columns, is a single one: matvec would take it for a vector,
 * whose products it adds up in another order than those of several. `multiple`: of which the step is one. */
static npy_intp without_single_part(npy_intp length, npy_intp step, npy_intp multiple)
{
    while (length > 1 && (step == 1 || length % step == 1))
        step += multiple - step % multiple;
    return step;
}

enum { COLUMNS = 256 }; /* of b, at least, in a part that does not have all of them */

/* The loops of a product in parts. Inner: rows of a, which are multiplied with all of b; for a batch, matrices.
 * Outer: columns of b, if they do not all fit on the device; or matrices of a batch, if they are large. The result
 * does not depend on the parts, because no part divides k. (That of a kernel with PIECES does: what its blocks
 * share depends on the tiles of a part. It runs only if selected by name.) */
static void partition_matmul(struct call *call, int batches)
{
    enum { ROWS = 32, MANY_ROWS = 256, ENOUGH_ROWS = 512, DEPTH = 3 };
    const struct layout *a = &call->in_view[0], *b = &call->in_view[1], *out_view = &call->out_view;
    const npy_intp m = out_view->shape[batches], n = out_view->shape[batches + 1], k = a->shape[a->ndim - 1];
    const npy_intp element = dtype_bytes(call->dtype[0]), out_element = dtype_bytes(call->result);
    const bool in_parts = call->kernel.row->traits & PARTS;
    const npy_intp part_bytes = in_parts ? 2 * 2 * parts_per_element(call->kernel.row, call->dtype[0])
                                         : 0; /* of an element, in two of DEPTH */
    npy_intp matrices = (m * k + k * n) * element + m * n * out_element;
    const npy_intp sides = (m > n ? m : n) * k * element, all = m * n * out_element;
    /* each part of a kernel with PARTS takes seven launches or more (measured on an H100 at n = 1024 to 2048) */
    const npy_intp part =
        call_part_bytes(call, sides > all ? sides : all, in_parts ? 8 * LEAST_PART_BYTES : LEAST_PART_BYTES);
    struct partition *inner = &call->partitions[1], *outer = &call->partitions[0];
    npy_intp rows = choose_part_step(part, k * element > n * out_element ? k * element : n * out_element,
                                     in_parts ? MANY_ROWS : ROWS);

    if (in_parts && rows < ENOUGH_ROWS && m >= 8 * ENOUGH_ROWS) /* each part splits the columns of b again */
        rows = ENOUGH_ROWS;
    rows = without_single_part(m, rows > MANY_ROWS ? rows / MANY_ROWS * MANY_ROWS : rows,
                               in_parts ? MANY_ROWS : ROWS); /* strips of rows are the same in all parts */

    call->independent_parts = true;
    *inner = (struct partition){m, rows, {a->ndim - 2, -1}, batches};
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
        const size_t pipeline_bytes =
            (size_t)((k * element + n * out_element) * step) * 2 * DEPTH + (size_t)(k * step * part_bytes);
        const size_t column_bytes =
            (size_t)(k * element) * (call->in[1].dtype == call->dtype[1] ? 1 : 2) + (size_t)(k * part_bytes) +
            (call->kernel.row->traits & RESIDUES ? (size_t)(2 * MATMUL_MODULI * step) : 0); /* in two of DEPTH */
        const size_t available =
            call_available_bytes(call, (pipeline_bytes + (size_t)n * column_bytes) / 8 * 10) / 10 * 9;

        *outer = (struct partition){n, n, {-1, b->ndim - 1}, batches + 1};
        if (available <= pipeline_bytes || (size_t)n > (available - pipeline_bytes) / column_bytes)
            outer->step = without_single_part(
                n,
                choose_part_step(
                    available > pipeline_bytes ? (npy_intp)((available - pipeline_bytes) / column_bytes) : 0, 1,
                    COLUMNS),
                COLUMNS);
    }
}

/* The arguments of core_matmul, in order. */
struct matmul_arguments {
    PyObject *x1, *x2, *dtype;
    PyObject *precision; /* NULL: None */
    PyObject *kernel, *tile, *out, *device, *stream;
};

static bool is_highest(PyObject *precision)
{
    return !precision || precision == Py_None ||
           (PyUnicode_CheckExact(precision) && PyUnicode_CompareWithASCIIString(precision, "highest") == 0);
}

/* Whether an operand's elements are nearer to each other along k than across it. One that is converted becomes
 * contiguous. */
static bool is_nearer_along_k(const struct call *call, int i)
{
    const struct layout *view = &call->in_view[i];
    const npy_intp row = view->strides[view->ndim - 2], column = view->strides[view->ndim - 1];
    const bool converted = call->in[i].dtype != call->dtype[i] || call->in[i].swapped;
    const bool last_is_nearer = converted || (column < 0 ? -column : column) <= (row < 0 ? -row : row);

    return i == 0 ? last_is_nearer : !last_is_nearer;
}

/* Whether operands of 8 bits have a product of 32. */
static bool are_bytes(const struct call *call, enum dtype result)
{
    return call->in[0].dtype == call->in[1].dtype && call->in[0].dtype & (INT8 | UINT8) &&
           result & (INT32 | UINT32);
}

/* Whether a kernel of 8-bit operands has got them. */
static bool check_bytes(const struct call *call, enum dtype operands, enum dtype result)
{
    const struct kernel_row *row = call->kernel.row;

    if (row->dtypes != (INT8 | UINT8) || row->dtypes & operands)
        return true;
    PyErr_Format(
        PyExc_ValueError,
        "kernel '%s' multiplies two operands of int8, or two of uint8, with a result of 8 or 32 bits; got %s "
        "and %s, with a result of %s; kernel=None accepts more dtypes",
        row->name, dtype_name(call->in[0].dtype), dtype_name(call->in[1].dtype), dtype_name(result));
    return false;
}

/* Completes the choice of the kernel. */
static struct matmul_method choose_method(struct call *call, enum precision precision, struct matmul_size size)
{
    struct matmul_method method = {.b_is_larger = size.n > size.m};
    struct matmul_choice choice;

    size.batches = call->out.size / (size.m * size.n);
    size.of_bytes = are_bytes(call, call->result);
    size.from_host = call_has_host_operands(call) && !device_is_host(call->device);
    size.c_order = is_nearer_along_k(call, 0) && !is_nearer_along_k(call, 1);
    method.along_k = is_nearer_along_k(call, method.b_is_larger);
    if (call->kernel.automatic) {
        choice = choose_matmul_kernel(call_target(call), call->result, precision, size);
        call->kernel.row = choice.row;
        call->kernel.size = choice.tile;
        method.k_per_slice = choice.k_per_slice;
    } else
        method.k_per_slice = choose_k_per_slice(call_target(call), call->kernel.row, call->result, size);
    if (size.of_bytes && call->kernel.row->traits & NARROW)
        call->dtype[0] = call->dtype[1] = call->in[0].dtype;
    return method;
}

/* The number of matrices of an operand as the kernel gets it, in a part with so many products. One that is
 * converted has each of them in memory, even if they were the same. */
static npy_intp count_matrices(const struct call *call, int i, npy_intp products)
{
    const struct operand *in = &call->in[i];
    const struct layout *view = &call->in_view[i];
    const int element = dtype_bytes(call->dtype[i]);
    const bool converted = !in->device || in->dtype != call->dtype[i] || in->swapped ||
                           (uintptr_t)in->data % (uintptr_t)element || !accepts_strides(view, &element);
    npy_intp matrices = 1;

    for (int d = 0; d < view->ndim - 2; d++)
        if (view->strides[d] || converted)
            matrices *= view->shape[d];
    return matrices < products ? matrices : products;
}

/* The bytes of scratch memory for the largest part of the call, or for all of it: of its partial sums, of its
 * tiles' pieces, or of its operands' parts and C's residues. */
static size_t scratch_bytes_of(const struct call *call, npy_intp k, npy_intp k_per_slice, bool all)
{
    const int element = dtype_bytes(call->result);
    struct layout part = call->out_view;
    size_t bytes = 0;
    npy_intp products = 1;

    for (int loop = 0; loop < 2 && !all; loop++) {
        const struct partition *partition = &call->partitions[loop];

        if (partition->out >= 0 && partition->step > 0 && partition->step < partition->length)
            part.shape[partition->out] = partition->step;
    }
    for (int d = 0; d < part.ndim - 2; d++)
        products *= part.shape[d];
    if (call->kernel.row->traits & PARTS) {
        part.shape[part.ndim - 2] = rows_at_once(call, part.shape[part.ndim - 2], part.shape[part.ndim - 1], k);
        for (int i = 0; i < 2; i++) {
            const npy_intp matrices = count_matrices(call, i, products), sides = part.shape[part.ndim - 2 + i];

            bytes += (size_t)bytes_of_parts(call->kernel.row, call->dtype[0], matrices, sides, k);
        }
        if (call->kernel.row->traits & RESIDUES)
            bytes +=
                (size_t)matmul_c_residues_bytes(products, part.shape[part.ndim - 2], part.shape[part.ndim - 1]);
    } else if (call->kernel.row->traits & PIECES)
        bytes = matmul_pieces_bytes(products, part.shape[part.ndim - 2], part.shape[part.ndim - 1], k,
                                    call_target(call)->multiprocessors);
    else if (k_per_slice < k)
        bytes = (size_t)layout_size(&part) * (size_t)((k + k_per_slice - 1) / k_per_slice) *
                (size_t)(element < MATMUL_MIN_PARTIAL_BYTES ? MATMUL_MIN_PARTIAL_BYTES : element);
    return bytes;
}

/* The memory that was available when the call was divided may have been taken by another thread, or another
 * process, or lie in pieces: takes half as many columns of b at once. The result is the same, but for kernels with
 * PIECES. */
static bool take_less_memory(struct call *call, const void *context)
{
    const struct matmul_method *method = context;
    struct partition *columns = &call->partitions[0];
    const npy_intp step = columns->step < columns->length ? columns->step : columns->length;

    if (columns->out != call->out_view.ndim - 1 || step <= COLUMNS) /* the matrices of a batch */
        return false;
    columns->step = without_single_part(columns->length, choose_part_step(step / 2, 1, COLUMNS), COLUMNS);
    call->scratch_bytes =
        scratch_bytes_of(call, call->in_view[0].shape[call->in_view[0].ndim - 1], method->k_per_slice, false);
    return columns->step < step;
}

/* Whether a kernel with PARTS, which only a caller can have named, can count the sides: the TMA does so in 32
 * bits. */
static bool check_sides(const struct kernel_row *row, struct matmul_size size)
{
    if (!(row->traits & PARTS) ||
        (size.m < MATMUL_MAX_SIDE && size.n < MATMUL_MAX_SIDE && size.k < MATMUL_MAX_SIDE))
        return true;
    PyErr_Format(PyExc_ValueError,
                 "kernel '%s' takes m, n and k below %d, got %zd, %zd and %zd; kernel=None takes more", row->name,
                 MATMUL_MAX_SIDE, size.m, size.n, size.k);
    return false;
}

static PyObject *matmul(const struct module_state *state, const struct matmul_arguments *args,
                        struct launch_record *record, size_t *scratch_bytes)
{
    const bool out_given = args->out != Py_None;
    struct call call = {.inputs = 2, .record = record};
    struct batches batches;
    struct matmul_method method = {0};
    int element;
    npy_intp shape[NPY_MAXDIMS];
    enum dtype dtype, operands;
    enum precision precision;
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
    if (ndim < 0 || !read_kernel(OP_matmul, args->kernel, "tile", args->tile, Py_None, args->device,
                                 call_has_host_operands(&call), &call.device, &call.kernel))
        return call_fail(&call);
    operands = call.kernel.row->traits & NARROW && are_bytes(&call, dtype) ? call.in[0].dtype : dtype;
    if (!check_bytes(&call, operands, dtype) || !check_kernel_dtype(&call.kernel, "x1", operands) ||
        !read_precision(args->precision, &call.kernel, dtype, &precision) ||
        !read_stream(state, args->stream, call.device, &call.stream) ||
        !call_read_out(state, &call, args->out, dtype, ndim, shape, args->stream))
        return call_fail(&call);

    if (call.out.size && (!call.in[0].size || !call.in[1].size)) /* k is 0 */
        return call_run_fill(state, &call, Py_False, out_given);
    if (call.out.size) {
        const struct matmul_size size = {.m = call.in_view[0].shape[call.in_view[0].ndim - 2],
                                         .n = call.in_view[1].shape[call.in_view[1].ndim - 1],
                                         .k = call.in_view[0].shape[call.in_view[0].ndim - 1]};

        view_out_as_matrices(&call, batches.ndim, size.m, size.n);
        method = choose_method(&call, precision, size);
        if (!check_sides(call.kernel.row, size))
            return call_fail(&call);
        element = dtype_bytes(call.dtype[0]);
        if (call.kernel.row->traits & ANY_STRIDES) {
            call.accepts_layout = accepts_strides;
            call.accepts_context = &element;
        }
        partition_matmul(&call, batches.ndim);
        call.take_less_memory = take_less_memory;
        call.scratch_bytes = scratch_bytes_of(&call, size.k, method.k_per_slice, true);
        call_cancel_slow_partition(&call);
        *scratch_bytes = call.scratch_bytes = scratch_bytes_of(&call, size.k, method.k_per_slice, false);
    }
    return call_run(state, &call, run_matmul, &method, out_given);
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
