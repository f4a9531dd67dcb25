/* The operations, one function each: read the arguments, choose the kernel, say what it wants of the operands and
 * what it makes; call.c does the rest. */
#include "smemkit.h"

#include <math.h>
#include <string.h>

static bool warn(PyObject *category, const char *text)
{
    return PyErr_WarnEx(category, text, 2) == 0;
}

bool warn_complex(enum dtype from, enum dtype to)
{
    PyObject *module, *category;
    bool ok;

    if (!(from & COMPLEX) || to & (COMPLEX | BOOL))
        return true;
    module = PyImport_ImportModule("numpy.exceptions");
    category = module ? PyObject_GetAttrString(module, "ComplexWarning") : NULL;
    ok = category && warn(category, "Casting complex values to real discards the imaginary part");
    Py_XDECREF(category);
    Py_XDECREF(module);
    return ok;
}

/* The operand as it lies, in its own dtype. */
static void want_natural(struct call *call, int i)
{
    call->as[i] = call->in[i].layout;
    call->dtype[i] = call->in[i].dtype;
}

/* `out` for a result of `dtype`, or of the operand's own dtype and byte order where only bytes are moved. */
static bool call_out(const struct module_state *state, struct call *call, PyObject *object, enum dtype dtype,
                     int ndim, const npy_intp *shape, PyObject *stream)
{
    PyArray_Descr *descr = call->bytes_only ? (PyArray_Descr *)Py_NewRef(call->in[0].descr) : dtype_descr(dtype);
    bool ok =
        descr && read_out(state, object, call->device, call_is_host(call), descr, ndim, shape, stream, &call->out);

    call->result = dtype;
    call->made = call->out.layout;
    Py_XDECREF(descr);
    return ok;
}

/* So many steps of a dimension that the parts have about `part` bytes: at least one, and a multiple of `multiple`,
 * if not all of it. */
static npy_intp step_of(npy_intp part, npy_intp bytes_a_step, npy_intp multiple)
{
    const npy_intp steps = part / (bytes_a_step ? bytes_a_step : 1);

    return steps < multiple ? multiple : steps / multiple * multiple;
}

/* Whether all from the first to the last of them are None. */
static bool are_none(PyObject *const *args, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (args[i] != Py_None)
            return false;
    return true;
}

/* ---- matmul ---- */

/* Where the matrices of a batch lie: dimensions of c's batch, with the steps of a and b, in matrices. */
struct batches {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], a_steps[NPY_MAXDIMS], b_steps[NPY_MAXDIMS];
};

static bool refuse_shapes(const struct operand *a, const struct operand *b, const char *expected)
{
    PyObject *shapes[2] = {shape_tuple(a->layout.ndim, a->layout.shape),
                           shape_tuple(b->layout.ndim, b->layout.shape)};

    if (shapes[0] && shapes[1])
        PyErr_Format(PyExc_ValueError, "x1, x2: expected %s, got %R and %R", expected, shapes[0], shapes[1]);
    Py_XDECREF(shapes[0]);
    Py_XDECREF(shapes[1]);
    return false;
}

/* A vector becomes a matrix of one row, or one column. */
static void as_matrix(struct layout *layout, bool column)
{
    if (layout->ndim != 1)
        return;
    layout->ndim = 2;
    layout->shape[!column] = layout->shape[0];
    layout->strides[!column] = layout->strides[0];
    layout->shape[column] = 1;
    layout->strides[column] = 0;
}

/* The shapes of a and b, both matrices or batches of them, broadcast; false where they do not fit. */
static bool broadcast(const struct layout *a, const struct layout *b, struct batches *batches, npy_intp *shape)
{
    npy_intp a_step = 1, b_step = 1;

    batches->ndim = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
    for (int i = batches->ndim - 1, from_end = 3; i >= 0; i--, from_end++) {
        const npy_intp in_a = a->ndim >= from_end ? a->shape[a->ndim - from_end] : 1;
        const npy_intp in_b = b->ndim >= from_end ? b->shape[b->ndim - from_end] : 1;

        if (in_a != in_b && in_a != 1 && in_b != 1)
            return false;
        shape[i] = batches->shape[i] = in_a == 1 ? in_b : in_a;
        batches->a_steps[i] = in_a == 1 ? 0 : a_step;
        batches->b_steps[i] = in_b == 1 ? 0 : b_step;
        a_step *= in_a;
        b_step *= in_b;
    }
    return true;
}

/* The shape of the product; 0 dimensions less for each operand that is a vector. -1 with an exception. */
static int matmul_shape(struct call *call, struct batches *batches, npy_intp *shape)
{
    struct layout *a = &call->as[0], *b = &call->as[1];
    const bool row = a->ndim == 1, column = b->ndim == 1;
    int ndim;

    if (a->ndim && b->ndim) {
        as_matrix(a, false);
        as_matrix(b, true);
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

static bool matmul_dtype(struct call *call, PyObject *object, enum dtype *dtype)
{
    if (object == Py_None) {
        *dtype = dtype_promoted(call->in[0].descr, call->in[1].descr);
        if (!*dtype && !PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%S and %S have no common dtype", call->in[0].descr, call->in[1].descr);
        return *dtype || blame("x1, x2");
    }
    if (!read_dtype(object, EVERY, dtype))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!dtype_casts(call->in[i].dtype, *dtype)) {
            PyErr_Format(PyExc_TypeError, "x%d: expected a dtype that can be cast to %s, got %S", i + 1,
                         dtype_name(*dtype), call->in[i].descr);
            return false;
        }
    }
    return true;
}

/* One launch for all matrices that lie evenly; the dimensions of the batch before those are counted through. */
static bool launch_matmul(struct call *call, struct matmul_args *args, const struct batches *batches)
{
    const int64_t element = dtype_bytes(args->dtype), outer = batches->ndim > 1 ? batches->ndim - 1 : 0;
    const struct matmul_args first = *args;
    npy_intp index[NPY_MAXDIMS] = {0};
    int64_t done = 0;

    for (;;) {
        int64_t a = 0, b = 0;
        int d = (int)outer - 1;

        for (int i = 0; i < outer; i++) {
            a += index[i] * batches->a_steps[i];
            b += index[i] * batches->b_steps[i];
        }
        args->a = (const char *)first.a + a * args->m * args->k * element;
        args->b = (const char *)first.b + b * args->k * args->n * element;
        args->c = (char *)first.c + done * args->m * args->n * element;
        if (!call_launch(call, call->kernel.row, args))
            return false;
        done += args->batches;
        while (d >= 0 && ++index[d] == batches->shape[d])
            index[d--] = 0;
        if (d < 0)
            return true;
    }
}

static bool run_matmul(struct call *part, void *unused)
{
    const struct layout *a = &part->as[0], *b = &part->as[1];
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    struct matmul_args args = {.a = part->memory[0],
                               .b = part->memory[1],
                               .c = part->out_memory,
                               .m = a->shape[a->ndim - 2],
                               .n = b->shape[b->ndim - 1],
                               .k = a->shape[a->ndim - 1],
                               .batches = 1,
                               .dtype = part->result,
                               .tile = part->kernel.size};

    (void)unused;
    (void)broadcast(a, b, &batches, shape);
    batches.ndim = merge_dimensions(batches.ndim, batches.shape, batches.a_steps, batches.b_steps);
    if (batches.ndim > 0) {
        args.batches = batches.shape[batches.ndim - 1];
        args.a_step = batches.a_steps[batches.ndim - 1] * args.m * args.k;
        args.b_step = batches.b_steps[batches.ndim - 1] * args.k * args.n;
    }
    return launch_matmul(part, &args, &batches);
}

/* out as a batch of matrices, whose rows and columns are there where an operand is a vector, too. */
static void make_matrices(struct call *call, int batches, npy_intp m, npy_intp n)
{
    struct layout *made = &call->made;
    const struct layout *out = &call->out.layout;
    const bool column = out->ndim > batches && n > 1 ? out->ndim == batches + 1 && m == 1 : false;

    made->ndim = batches + 2;
    made->shape[batches] = m;
    made->shape[batches + 1] = n;
    if (out->ndim == batches + 2)
        return;
    made->strides[batches] = made->strides[batches + 1] = 0;
    if (out->ndim == batches + 1)
        made->strides[batches + (column ? 1 : 0)] = out->strides[batches];
}

/* The loops of a product that is done in parts. Inner: rows of a, which meet all of b; or, in a batch, matrices.
 * Outer: columns of b, if the device has no room for all; or the matrices of a batch, if they are large. An
 * element of the result comes out the same in any case, for no part knows less of its row and its column. */
static void cut_matmul(struct call *call, int batches)
{
    enum { ROWS = 32, MANY_ROWS = 256, DEPTH = 3 };
    const struct layout *a = &call->as[0], *b = &call->as[1], *made = &call->made;
    const npy_intp m = made->shape[batches], n = made->shape[batches + 1], k = a->shape[a->ndim - 1];
    const npy_intp element = dtype_bytes(call->result);
    npy_intp matrices = (m * k + k * n + m * n) * element;
    const npy_intp part = call_part_bytes(call, (m > n ? m : n) * k * element / 2);
    struct cut *inner = &call->cuts[1], *outer = &call->cuts[0];
    npy_intp rows = step_of(part, (k > n ? k : n) * element, ROWS);

    *inner = (struct cut){m, rows > MANY_ROWS ? rows / MANY_ROWS * MANY_ROWS : rows, {a->ndim - 2, -1}, batches};
    if (batches) {
        struct cut *cut = matrices / 2 > part ? outer : inner;

        for (int d = 1; d < batches; d++) /* a step has all of the dimensions after the first */
            matrices *= made->shape[d];
        *cut = (struct cut){made->shape[0], step_of(part, matrices, 1), {-1, -1}, 0};
        for (int i = 0; i < 2; i++)
            if (call->as[i].ndim == made->ndim && call->as[i].shape[0] > 1)
                cut->in[i] = 0;
        return;
    }
    if (part < NPY_MAX_INTP) {
        const size_t room = call_room(call) / 10 * 9;
        const size_t line = (size_t)((k + n) * inner->step * element) * 2 * DEPTH;
        const size_t column = (size_t)(k * element) * (call->in[1].dtype == call->result ? 1 : 2);

        *outer = (struct cut){n, n, {-1, b->ndim - 1}, batches + 1};
        if (room <= line || (size_t)n > (room - line) / column)
            outer->step = step_of(room > line ? (npy_intp)((room - line) / column) : 0, 1, MANY_ROWS);
    }
}

enum { M_X1, M_X2, M_DTYPE, M_PRECISION, M_KERNEL, M_TILE, M_OUT, M_DEVICE, M_STREAM };

static bool is_highest(PyObject *precision)
{
    return PyUnicode_CheckExact(precision) && PyUnicode_CompareWithASCIIString(precision, "highest") == 0;
}

static PyObject *matmul(const struct module_state *state, PyObject *const *args, struct plan_note *note)
{
    const bool own_out = args[M_OUT] != Py_None;
    struct call call = {.inputs = 2, .note = note};
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    enum dtype dtype;
    int ndim;

    if (!read_operand(state, args[M_X1], "x1", args[M_STREAM], &call.in[0]) ||
        !read_operand(state, args[M_X2], "x2", args[M_STREAM], &call.in[1]) ||
        !matmul_dtype(&call, args[M_DTYPE], &dtype))
        return call_refused(&call);
    for (int i = 0; i < 2; i++) {
        call.as[i] = call.in[i].layout;
        call.dtype[i] = dtype;
    }
    ndim = matmul_shape(&call, &batches, shape);
    if (ndim < 0 || !read_device(state, args[M_DEVICE], call.in, 2, &call.device) ||
        !read_kernel(OP_matmul, args[M_KERNEL], "tile", args[M_TILE], Py_None, args[M_DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x1", dtype) || !read_precision(args[M_PRECISION], &call.kernel) ||
        !read_stream(state, args[M_STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[M_OUT], dtype, ndim, shape, args[M_STREAM]))
        return call_refused(&call);

    if (call.out.size && (!call.in[0].size || !call.in[1].size)) /* k is 0 */
        return call_filled(state, &call, Py_False, own_out);
    if (call.out.size) {
        make_matrices(&call, batches.ndim, call.as[0].shape[call.as[0].ndim - 2],
                      call.as[1].shape[call.as[1].ndim - 1]);
        cut_matmul(&call, batches.ndim);
    }
    return call_run(state, &call, run_matmul, NULL, own_out);
}

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct plan_note note = {.launches = 0};
    PyObject *result;

    if (!read_count("matmul", count, M_STREAM + 1))
        return NULL;
    const bool plain = args[M_OUT] != Py_None && args[M_DTYPE] == Py_None && is_highest(args[M_PRECISION]) &&
                       are_none(args, M_KERNEL, M_TILE) && are_none(args, M_DEVICE, M_STREAM);
    PyObject *const operands[] = {args[M_X1], args[M_X2], args[M_OUT]};
    if (plain && plan_run(state, OP_matmul, operands, 3, &result))
        return result;
    result = matmul(state, args, plain ? &note : NULL);
    if (plain && result)
        plan_keep(state, OP_matmul, operands, 3, &note, 0, result);
    return result;
}

/* ---- reduce ---- */

/* (outer, n, inner) elements, n of which become one. */
struct extent {
    int64_t outer, n, inner;
};

static enum dtype real_part(enum dtype dtype)
{
    return dtype == COMPLEX64 ? FLOAT32 : dtype == COMPLEX128 ? FLOAT64 : dtype;
}

/* What a sum is added up in. One that is left to smemkit is added in double precision, so that its error is half
 * an ulp and n * 2^-53 of the sum of |x|; a rung that was named computes in single precision, if x has no more. */
static enum dtype sum_accumulator(enum dtype dtype, bool chosen)
{
    if (dtype & UNSIGNED)
        return UINT64;
    if (dtype & (BOOL | SIGNED))
        return INT64;
    if (dtype & COMPLEX)
        return chosen || dtype == COMPLEX128 ? COMPLEX128 : COMPLEX64;
    return chosen || dtype == FLOAT64 ? FLOAT64 : FLOAT32;
}

/* sum, prod and mean: `asked` is 0 or the dtype that the elements are cast to first. */
static void sum_types(struct call *call, enum dtype asked, struct reduce_args *args)
{
    const enum dtype in = call->in[0].dtype, integers = BOOL | SIGNED | UNSIGNED;

    if (asked == BOOL && args->op != REDUCE_PROD) { /* the sum of truths is their "or"; so is their mean, cast */
        args->op = REDUCE_ANY;
        args->result = BOOL;
        return;
    }
    if (args->op == REDUCE_MEAN && in & integers && (!asked || asked == FLOAT64)) {
        args->accumulator = args->result = FLOAT64;
        return;
    }
    if (asked && !(in & integers && asked & (SIGNED | UNSIGNED) && args->op != REDUCE_MEAN))
        /* sums of integers wrap around at the end as well as before */
        call->dtype[0] = asked;
    args->accumulator = sum_accumulator(call->dtype[0], call->kernel.chosen);
    args->result = asked ? asked : in & (BOOL | SIGNED) ? INT64 : in & UNSIGNED ? UINT64 : in;
}

/* The dtype that holds the elements and those of `out`; 0 where there is none, no out, or one that cannot take it.
 */
static enum dtype dtype_with_out(const struct module_state *state, const struct operand *x, PyObject *out)
{
    struct operand other = {NULL};
    PyArray_Descr *descr = NULL;
    enum dtype dtype = 0;

    if (PyArray_Check(out))
        descr = PyArray_DESCR((PyArrayObject *)out);
    else if (Py_IS_TYPE(out, state->array_type))
        descr = ((struct array *)out)->descr;
    else if (out != Py_None && read_foreign(state, out, "out", Py_None, &other) > 0)
        descr = other.descr;
    if (descr && dtype_of(descr))
        dtype = dtype_promoted(x->descr, descr);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* what is no out at all is refused later */
    if (dtype && !dtype_casts(dtype, dtype_of(descr)))
        dtype = 0;
    drop_operand(&other);
    return dtype;
}

static bool reduce_types(const struct module_state *state, struct call *call, const char *op, PyObject *dtype,
                         PyObject *out, struct reduce_args *args)
{
    static const unsigned moments = FLOATING | COMPLEX;
    enum dtype asked = 0, with_out;

    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_PROD:
    case REDUCE_MEAN:
        if (args->op != REDUCE_MEAN || call->in[0].dtype & moments)
            asked = dtype_with_out(state, &call->in[0], out); /* as NumPy, which adds up in it */
        if (!(call->in[0].dtype & COMPLEX))
            asked = real_part(asked);
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &asked))
            return false;
        sum_types(call, asked, args);
        break;
    case REDUCE_VAR:
    case REDUCE_STD:
        if (!read_dtype(dtype, moments, &asked))
            return false;
        if (asked && !(asked == FLOAT64 && call->in[0].dtype & ~moments))
            call->dtype[0] = asked;
        args->result = asked ? asked : call->in[0].dtype & ~moments ? FLOAT64 : real_part(call->in[0].dtype);
        with_out = asked ? 0 : dtype_with_out(state, &call->in[0], out);
        if (with_out & FLOATING && args->result & FLOATING) /* it is computed in double anyway */
            args->result = with_out;
        break;
    case REDUCE_MIN:
    case REDUCE_MAX:
        if (!read_dtype(dtype, EVERY, &asked))
            return false;
        call->dtype[0] = args->result = asked ? asked : call->in[0].dtype;
        break;
    default:
        if (!read_none(dtype, "dtype", op))
            return false;
        args->result = args->op == REDUCE_ANY || args->op == REDUCE_ALL ? BOOL : INT64;
    }
    args->dtype = call->dtype[0];
    if (!args->accumulator)
        args->accumulator = args->dtype;
    return warn_complex(call->in[0].dtype, asked ? asked : call->in[0].dtype);
}

/* For a choice that is left to smemkit: few elements a row, a thread does them all; else no more threads than
 * elements. It depends on shape alone, so that the bits are the same every time. */
static void plan_reduce(struct kernel_choice *choice, int64_t n)
{
    const int *sizes;

    if (!choice->chosen)
        return;
    if (n <= 16) {
        choice->row = find_row(OP_reduce, "rowwise");
        choice->size = 0;
        return;
    }
    sizes = choice->row->sizes;
    for (int i = 0; sizes[i] >= 0; i++)
        if (sizes[i] >= n && sizes[i] < choice->size)
            choice->size = sizes[i];
}

/* The one rung that takes no partial results wider than what an atomic can change. */
static bool is_atomic(const struct kernel_row *row)
{
    return strcmp(row->name, "atomic") == 0;
}

static bool check_rung(const struct kernel_choice *choice, const struct reduce_args *args, const char *op)
{
    const bool pair =
        args->op == REDUCE_VAR || args->op == REDUCE_STD || args->op == REDUCE_ARGMIN || args->op == REDUCE_ARGMAX;

    if (pair && is_atomic(choice->row)) {
        PyErr_Format(PyExc_ValueError,
                     "kernel: 'atomic' has no '%s', whose partial results are more than one number; expected "
                     "another kernel",
                     op);
        return false;
    }
    return check_kernel_dtype(choice, "x", args->dtype);
}

enum {
    R_X,
    R_OP,
    R_AXIS,
    R_DTYPE,
    R_KEEPDIMS,
    R_INITIAL,
    R_DDOF,
    R_KERNEL,
    R_BLOCK_SIZE,
    R_OUT,
    R_DEVICE,
    R_STREAM
};

/* One reduction, as it was asked for. */
struct reduction {
    const char *op;
    bool folds; /* one more element makes sense to it */
    struct reduce_args args;
    bool reduced[NPY_MAXDIMS], keepdims;
    PyArrayObject *initial;
    int ndim; /* of the result */
    npy_intp shape[NPY_MAXDIMS];
    struct extent extent;
    int outer_ndim, reduced_ndim;                     /* dimensions of `as` that make it up */
    enum { NOTHING, OUTER, REDUCED, INNER } along[2]; /* what the loops over the parts cut */
};

/* How many times a group of dimensions that are reduced begins, in this order of the dimensions. */
static int groups(const struct layout *layout, const int *order, const bool *reduced)
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

/* The dimensions in the order in which the elements lie, if what is kept stays in its order, and, for places, what
 * is reduced as well: the same reduction then, without a conversion. */
static bool order_as_it_lies(const struct layout *layout, const bool *reduced, bool places, int *order)
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
        if ((places || !reduced[d]) && d < last[reduced[d]])
            return false;
        last[reduced[d]] = d;
    }
    return true;
}

/* An order of the dimensions in which those that are reduced lie side by side: as the array lies, as it is, or
 * with the reduced ones last. */
static void choose_order(const struct call *call, const bool *reduced, bool places, int *order)
{
    const struct layout *layout = &call->in[0].layout;
    struct layout lies;
    int kept = 0;

    if (order_as_it_lies(layout, reduced, places, order) && groups(layout, order, reduced) <= 1) {
        lies = layout_permuted(layout, order);
        if (layout_is_contiguous(&lies, dtype_bytes(call->in[0].dtype)))
            return;
    }
    for (int i = 0; i < layout->ndim; i++)
        order[i] = i;
    if (groups(layout, order, reduced) <= 1)
        return;
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i])
            order[kept++] = i;
    for (int i = 0; i < layout->ndim; i++)
        if (reduced[i])
            order[kept++] = i;
}

/* The dimensions of one group, appended to `as`, and those of out to `made` where the group is kept; in as few as
 * can be. Returns how many elements the group has. */
static npy_intp append_group(struct call *call, const struct layout *out, const int *order, int count, bool kept)
{
    struct layout *as = &call->as[0], *made = &call->made;
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
        as->shape[as->ndim] = shape[i];
        as->strides[as->ndim++] = steps[i];
        if (kept) {
            made->shape[made->ndim] = shape[i];
            made->strides[made->ndim++] = out_steps[i];
        }
    }
    return size;
}

/* x as (outer, n, inner), and out as (outer, inner). */
static void split_axes(struct call *call, struct reduction *reduction)
{
    const bool places = reduction->args.op == REDUCE_ARGMIN || reduction->args.op == REDUCE_ARGMAX;
    const bool *reduced = reduction->reduced;
    const struct layout *in = &call->in[0].layout;
    struct extent *extent = &reduction->extent;
    struct layout out = {.ndim = in->ndim};
    int order[NPY_MAXDIMS], begin = 0, end;

    for (int i = 0, at = 0; i < in->ndim; i++)
        if (!reduced[i] || reduction->keepdims)
            out.strides[i] = call->out.layout.strides[at++];
    choose_order(call, reduced, places, order);
    while (begin < in->ndim && (!reduced[order[begin]] || in->shape[order[begin]] == 1))
        begin++;
    for (end = begin; end < in->ndim && (reduced[order[end]] || in->shape[order[end]] == 1);)
        end++;
    call->as[0].ndim = call->made.ndim = 0;
    extent->outer = append_group(call, &out, order, begin, true);
    reduction->outer_ndim = call->as[0].ndim;
    extent->n = append_group(call, &out, order + begin, end - begin, false);
    reduction->reduced_ndim = call->as[0].ndim - reduction->outer_ndim;
    extent->inner = append_group(call, &out, order + end, in->ndim - end, true);
}

static bool read_axes_of(struct call *call, PyObject *const *args, struct reduction *reduction)
{
    const enum reduce_op op = reduction->args.op;
    const bool is_arg = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool is_moment = op == REDUCE_MEAN || op == REDUCE_VAR || op == REDUCE_STD;
    const struct layout *layout = &call->in[0].layout;
    const bool *reduced = reduction->reduced;

    if (!read_axis(args[R_AXIS], layout->ndim, !is_arg, !is_moment, reduction->reduced) ||
        !read_flag(args[R_KEEPDIMS], "keepdims", &reduction->keepdims))
        return false;
    want_natural(call, 0);
    reduction->extent.n = 1;
    for (int i = 0; i < layout->ndim; i++) {
        if (reduced[i])
            reduction->extent.n *= layout->shape[i];
        if (!reduced[i] || reduction->keepdims)
            reduction->shape[reduction->ndim++] = reduced[i] ? 1 : layout->shape[i];
    }
    return true;
}

static bool read_initial_of(PyObject *object, struct reduction *reduction)
{
    if (object == Py_None)
        return true;
    if (!reduction->folds)
        return read_none(object, "initial", reduction->op);
    reduction->initial = read_initial(object, reduction->args.result, &reduction->args.initial);
    reduction->args.has_initial = true;
    return reduction->initial != NULL;
}

static bool read_op(PyObject *object, struct reduction *reduction)
{
    const enum reduce_op *op = &reduction->args.op;

    if (!read_reduce_op(object, &reduction->args.op))
        return false;
    reduction->op = PyUnicode_AsUTF8(object);
    reduction->folds = *op == REDUCE_SUM || *op == REDUCE_PROD || *op == REDUCE_MIN || *op == REDUCE_MAX;
    return reduction->op != NULL;
}

static bool read_reduction(const struct module_state *state, PyObject *const *args, struct call *call,
                           struct reduction *reduction)
{
    struct reduce_args *reduce = &reduction->args;

    return read_operand(state, args[R_X], "x", args[R_STREAM], &call->in[0]) && read_op(args[R_OP], reduction) &&
           read_axes_of(call, args, reduction) && read_double(args[R_DDOF], "ddof", &reduce->ddof) &&
           read_device(state, args[R_DEVICE], call->in, 1, &call->device) &&
           read_kernel(OP_reduce, args[R_KERNEL], "block_size", args[R_BLOCK_SIZE], Py_None, args[R_DEVICE],
                       call_is_host(call), &call->device, &call->kernel) &&
           reduce_types(state, call, reduction->op, args[R_DTYPE], args[R_OUT], reduce) &&
           read_initial_of(args[R_INITIAL], reduction) && check_rung(&call->kernel, reduce, reduction->op) &&
           read_stream(state, args[R_STREAM], call->device, &call->stream);
}

/* What no elements reduce to. NULL with an exception where there is no such thing. */
static PyObject *reduce_nothing(const struct reduction *reduction)
{
    if (reduction->initial)
        return Py_NewRef((PyObject *)reduction->initial);
    switch (reduction->args.op) {
    case REDUCE_SUM:
    case REDUCE_ANY:
    case REDUCE_COUNT_NONZERO:
        return PyLong_FromLong(0);
    case REDUCE_PROD:
    case REDUCE_ALL:
        return PyLong_FromLong(1);
    case REDUCE_MEAN:
        if (!warn(PyExc_RuntimeWarning, "Mean of empty slice."))
            return NULL;
        /* fall through */
    case REDUCE_VAR:
    case REDUCE_STD: /* the degrees of freedom have been warned of */
        return reduction->args.result & COMPLEX && reduction->args.op == REDUCE_MEAN
                   ? PyComplex_FromDoubles(NAN, NAN)
                   : PyFloat_FromDouble(NAN);
    default:
        return PyErr_Format(PyExc_ValueError, "x: expected at least one element for '%s', got none",
                            reduction->op);
    }
}

/* argmin and argmax give places, which no other kind of number holds. */
static bool check_places(const struct call *call, const struct reduce_args *args)
{
    if ((args->op != REDUCE_ARGMIN && args->op != REDUCE_ARGMAX) || call->out.dtype & SIGNED)
        return true;
    PyErr_Format(PyExc_TypeError, "out: expected dtype int64 or one that it can be cast to, got %S",
                 call->out.descr);
    return false;
}

static bool warn_freedom(const struct reduction *reduction)
{
    const bool moments = reduction->args.op == REDUCE_VAR || reduction->args.op == REDUCE_STD;

    return !moments || (double)reduction->extent.n > reduction->args.ddof ||
           warn(PyExc_RuntimeWarning, "Degrees of freedom <= 0 for slice.");
}

/* The loops of a reduction that is done in parts. Rows are reduced some at a time, where one is not too much. A
 * row that is goes through in parts: those that lie side by side (inner) some columns at a time, if they are wide
 * enough; else some of its elements at a time, whole blocks of the tree, so that the partial results are those of
 * one launch.
 */
static void cut_reduce(struct call *call, struct reduction *reduction)
{
    enum { RUN = 1024 };
    struct extent *extent = &reduction->extent;
    const struct layout *as = &call->as[0];
    const npy_intp element = dtype_bytes(call->in[0].dtype), row = extent->n * extent->inner * element;
    const npy_intp bytes = extent->outer * row, part = call_part_bytes(call, bytes), block = call->kernel.size;
    const int outer = 0, n = reduction->outer_ndim, inner = n + reduction->reduced_ndim;
    struct cut *cuts = call->cuts;

    if (bytes <= part)
        return;
    if (reduction->outer_ndim) {
        const int loop = row > part ? 0 : 1;

        cuts[loop] = (struct cut){as->shape[outer], 1, {outer, -1}, 0};
        cuts[loop].step = step_of(part, bytes / as->shape[outer], 1);
        reduction->along[loop] = OUTER;
    }
    if (row <= part)
        return;
    if (block && reduction->reduced_ndim == 1 && extent->inner * element * block <= part) {
        cuts[1] = (struct cut){as->shape[n], step_of(part, extent->inner * element, block), {n, -1}, -1};
        reduction->along[1] = REDUCED;
    } else if (inner < as->ndim) {
        cuts[1] = (struct cut){as->shape[inner], 1, {inner, -1}, reduction->outer_ndim};
        cuts[1].step = step_of(part, row / as->shape[inner], 1);
        if (cuts[1].step * (extent->inner / as->shape[inner]) * element < RUN)
            cuts[1].step = RUN / element;
        reduction->along[1] = INNER;
    }
}

/* Bytes of scratch for the largest part. */
static void scratch_of(struct call *call, struct reduction *reduction)
{
    struct reduce_args args = {.n = reduction->extent.n, .block_size = call->kernel.size};
    const struct cut *cuts = call->cuts;
    int64_t rows = reduction->extent.outer * reduction->extent.inner;

    for (int loop = 0; loop < 2; loop++)
        if ((reduction->along[loop] == OUTER || reduction->along[loop] == INNER) &&
            cuts[loop].step < cuts[loop].length)
            rows = rows / cuts[loop].length * cuts[loop].step;
    args.outer = rows;
    args.inner = 1;
    if (args.block_size || is_atomic(call->kernel.row))
        call->scratch_bytes = reduce_scratch(&args);
}

static bool run_reduce(struct call *part, void *context)
{
    const struct reduction *reduction = context;
    struct reduce_args args = reduction->args;
    int64_t *const sizes[] = {[OUTER] = &args.outer, [REDUCED] = &args.count, [INNER] = &args.inner};

    args.outer = reduction->extent.outer;
    args.n = args.count = reduction->extent.n;
    args.inner = reduction->extent.inner;
    for (int loop = 0; loop < 2; loop++)
        if (reduction->along[loop] != NOTHING)
            *sizes[reduction->along[loop]] =
                *sizes[reduction->along[loop]] / part->cuts[loop].length * part->taken[loop];
    args.first = reduction->along[1] == REDUCED ? part->at[1] : 0;
    args.block_size = part->kernel.size;
    args.x = part->memory[0];
    args.out = part->out_memory;
    args.scratch = part->scratch;
    return call_launch(part, part->kernel.row, &args);
}

/* Where one number is made on a GPU, by a single store, the caller will probably want to read it. */
static bool reduce_out(const struct module_state *state, struct call *call, PyObject *const *args,
                       const struct reduction *reduction)
{
    const enum dtype result = reduction->args.result;
    const bool one = args[R_OUT] == Py_None && !call_is_host(call) && call->kernel.chosen && !call->stream &&
                     !(result & COMPLEX) && !stream_is_entered();
    PyArray_Descr *descr = NULL;
    struct array *array = NULL;
    bool ok;

    for (int i = 0; one && i < reduction->ndim; i++)
        if (reduction->shape[i] != 1)
            return call_out(state, call, Py_None, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (!one)
        return call_out(state, call, args[R_OUT], result, reduction->ndim, reduction->shape, args[R_STREAM]);
    descr = dtype_descr(result);
    array = descr ? array_new_result(state, call->device, descr, reduction->ndim, reduction->shape) : NULL;
    ok = array &&
         call_out(state, call, (PyObject *)array, result, reduction->ndim, reduction->shape, args[R_STREAM]);
    if (ok && array->result != NO_RESULT)
        array->result = reduction->extent.n ? AWAITED : SETTLED;
    Py_XDECREF(array);
    Py_XDECREF(descr);
    return ok;
}

static PyObject *reduce(const struct module_state *state, PyObject *const *args, struct plan_note *note,
                        size_t *scratch_bytes)
{
    struct call call = {.inputs = 1, .note = note};
    struct reduction reduction = {0};
    struct reduce_args *of = &reduction.args;
    PyObject *result = NULL, *value = NULL;
    bool own_out;

    own_out = args[R_OUT] != Py_None;
    if (!read_reduction(state, args, &call, &reduction) || !warn_freedom(&reduction) ||
        !reduce_out(state, &call, args, &reduction) || !check_places(&call, of)) {
        call_refused(&call);
    } else if (reduction.extent.n == 0) {
        value = reduce_nothing(&reduction);
        result = call_filled(state, &call, value, own_out);
    } else {
        if (call.out.size) {
            split_axes(&call, &reduction);
            plan_reduce(&call.kernel, reduction.extent.n);
            cut_reduce(&call, &reduction);
            call_choose_parts(&call);
            scratch_of(&call, &reduction);
        }
        *scratch_bytes = call.scratch_bytes;
        result = call_run(state, &call, run_reduce, &reduction, own_out);
    }
    Py_XDECREF(value);
    Py_XDECREF(reduction.initial);
    return result;
}

/* What a plan has to know of the options; 0 where there are some of which it knows nothing. */
static unsigned reduce_options(PyObject *const *args)
{
    int overflow = 0;
    enum reduce_op op;
    long axis = -128, ddof;

    if (args[R_DTYPE] != Py_None || args[R_KEEPDIMS] != Py_False || !are_none(args, R_KERNEL, R_BLOCK_SIZE) ||
        args[R_INITIAL] != Py_None || !are_none(args, R_DEVICE, R_STREAM) || !PyUnicode_CheckExact(args[R_OP]) ||
        !PyLong_CheckExact(args[R_DDOF]))
        return 0;
    ddof = PyLong_AsLongAndOverflow(args[R_DDOF], &overflow);
    if (args[R_AXIS] != Py_None) {
        if (!PyLong_CheckExact(args[R_AXIS]) || overflow)
            return 0;
        axis = PyLong_AsLongAndOverflow(args[R_AXIS], &overflow);
        if (axis < -64 || axis > 63)
            return 0;
    }
    if (overflow || ddof || !find_reduce_op(args[R_OP], &op))
        return 0;
    return OP_reduce | (unsigned)(op + 1) << 4 | (unsigned)(axis + 128) << 8;
}

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct plan_note note = {.launches = 0};
    size_t scratch_bytes = 0;
    PyObject *result;

    if (!read_count("reduce", count, R_STREAM + 1))
        return NULL;
    const unsigned what = reduce_options(args);
    PyObject *const operands[] = {args[R_X], args[R_OUT] == Py_None ? NULL : args[R_OUT]};
    if (what && plan_run(state, what, operands, 2, &result))
        return result;
    result = reduce(state, args, what ? &note : NULL, &scratch_bytes);
    if (what && result)
        plan_keep(state, what, operands, 2, &note, scratch_bytes, result);
    return result;
}

/* ---- transpose ---- */

/* The loops over the parts of a transposition: matrices of a batch; of one matrix, columns of x or its rows,
 * whichever come in longer runs on the side where they have gaps. */
static void cut_transpose(struct call *call)
{
    enum { RUN = 1024 };
    const struct layout *made = &call->made;
    const int last = made->ndim - 1;
    const npy_intp element = dtype_bytes(call->in[0].dtype), bytes = call->in[0].size * element;
    const npy_intp part = call_part_bytes(call, bytes), columns = last > 0 ? made->shape[last - 1] : 1;
    const npy_intp rows = last > 0 ? made->shape[last] : 1, matrix = rows * columns * element;
    struct cut *cuts = call->cuts;

    if (bytes <= part || made->ndim == 0)
        return;
    if (call->as_it_lies || call->kernel.row->ceiling || made->ndim == 1) {
        cuts[1] = (struct cut){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
        return;
    }
    if (made->ndim > 2) {
        const int loop = matrix > part ? 0 : 1;

        cuts[loop] = (struct cut){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
    }
    if (matrix > part) {
        const bool by_columns = rows <= columns;
        const npy_intp length = by_columns ? columns : rows, step = step_of(part, matrix / length, 1);

        cuts[1] = (struct cut){length, step, {by_columns ? last : last - 1, -1}, by_columns ? last - 1 : last};
        if (step * element < RUN)
            cuts[1].step = RUN / element;
    }
}

/* The elements of out, in as few dimensions as can be: what is left of the permutation. A rung turns matrices, the
 * last two of those dimensions; where x has them in another place, or does not lie side by side, `convert` brings
 * it to where the rung can turn it. Left to smemkit, a permutation that is no turn is done by `convert` alone. */
static void plan_transpose(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *as = &call->as[0], *made = &call->made;

    call->dtype[0] = call->in[0].dtype;
    if (call->kernel.row->ceiling)
        view = call->in[0].layout;
    view.ndim = merge_dimensions(view.ndim, view.shape, view.strides, made->strides);
    made->ndim = view.ndim;
    memcpy(made->shape, view.shape, sizeof made->shape);
    *as = view;
    if (call->kernel.row->ceiling)
        return;
    if (view.ndim > 1) { /* the last two exchanged, for the rung to exchange them again */
        const int last = view.ndim - 1;

        as->shape[last] = view.shape[last - 1];
        as->shape[last - 1] = view.shape[last];
        as->strides[last] = view.strides[last - 1];
        as->strides[last - 1] = view.strides[last];
    }
    if (!call->kernel.chosen || (view.ndim > 1 && layout_is_contiguous(as, element)))
        return;
    *as = view;
    call->as_it_lies = !layout_is_contiguous(as, element);
    call->kernel.row = find_row(OP_transpose, "copy");
}

static bool run_transpose(struct call *part, void *unused)
{
    const struct layout *as = &part->as[0];
    struct transpose_args args = {.x = part->memory[0],
                                  .out = part->out_memory,
                                  .batches = 1,
                                  .rows = 1,
                                  .columns = layout_size(as),
                                  .element_size = dtype_bytes(part->in[0].dtype),
                                  .tile = part->kernel.size,
                                  .pad = part->kernel.pad};

    if (as->ndim > 1 && !part->kernel.row->ceiling) {
        args.rows = as->shape[as->ndim - 2];
        args.columns = as->shape[as->ndim - 1];
        args.batches = layout_size(as) / (args.rows * args.columns);
    }
    (void)unused;
    return call_launch(part, part->kernel.row, &args);
}

enum { T_X, T_AXES, T_KERNEL, T_TILE, T_PAD, T_OUT, T_DEVICE, T_STREAM };

static PyObject *transpose(const struct module_state *state, PyObject *const *args, struct plan_note *note)
{
    const bool own_out = args[T_OUT] != Py_None;
    struct call call = {.inputs = 1, .bytes_only = true, .note = note};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    int axes[NPY_MAXDIMS];

    if (!read_operand(state, args[T_X], "x", args[T_STREAM], &call.in[0]) ||
        !read_axes(args[T_AXES], layout->ndim, axes) ||
        !read_device(state, args[T_DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[T_KERNEL], "tile", args[T_TILE], args[T_PAD], args[T_DEVICE],
                     call_is_host(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(state, args[T_STREAM], call.device, &call.stream))
        return call_refused(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->ceiling ? i : axes[i]];
    if (!call_out(state, &call, args[T_OUT], call.in[0].dtype, layout->ndim, shape, args[T_STREAM]))
        return call_refused(&call);

    if (call.out.size) {
        plan_transpose(&call, axes);
        cut_transpose(&call);
    }
    return call_run(state, &call, call.as_it_lies ? NULL : run_transpose, NULL, own_out);
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct plan_note note = {.launches = 0};
    PyObject *result;

    if (!read_count("transpose", count, T_STREAM + 1))
        return NULL;
    const bool plain =
        args[T_OUT] != Py_None && are_none(args, T_AXES, T_PAD) && are_none(args, T_DEVICE, T_STREAM);
    PyObject *const operands[] = {args[T_X], args[T_OUT]};
    if (plain && plan_run(state, OP_transpose, operands, 2, &result))
        return result;
    result = transpose(state, args, plain ? &note : NULL);
    if (plain && result)
        plan_keep(state, OP_transpose, operands, 2, &note, 0, result);
    return result;
}

/* ---- the tutorials' first kernels ---- */

static bool run_reverse(struct call *part, void *unused)
{
    struct reverse_args args = {.x = part->memory[0],
                                .out = part->out_memory,
                                .n = layout_size(&part->as[0]),
                                .element_size = dtype_bytes(part->in[0].dtype)};

    (void)unused;
    return call_launch(part, part->kernel.row, &args);
}

PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, KERNEL, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1, .bytes_only = true};

    if (!read_count("reverse", count, ARGUMENTS) ||
        !read_operand(state, args[X], "x", args[STREAM], &call.in[0]) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_reverse, args[KERNEL], "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, Py_None, call.in[0].dtype, call.in[0].layout.ndim, call.in[0].layout.shape,
                  args[STREAM]))
        return call_refused(&call);

    want_natural(&call, 0);
    return call_run(state, &call, run_reverse, NULL, false);
}

static bool run_add_one(struct call *part, void *unused)
{
    struct add_one_args args = {
        .x = part->memory[0], .out = part->out_memory, .n = layout_size(&part->as[0]), .dtype = part->result};

    (void)unused;
    return call_launch(part, part->kernel.row, &args);
}

PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1};

    if (!read_count("add_one", count, ARGUMENTS) || !read_operand(state, args[X], "x", args[STREAM], &call.in[0]))
        return call_refused(&call);
    want_natural(&call, 0);
    if (call.dtype[0] == BOOL) /* one more than True is 2 */
        call.dtype[0] = INT64;
    if (!read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_add_one, Py_None, "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], call.dtype[0], call.in[0].layout.ndim, call.in[0].layout.shape,
                  args[STREAM]))
        return call_refused(&call);

    return call_run(state, &call, run_add_one, NULL, own_out);
}

/* ---- convert ---- */

PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, DTYPE, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1};
    enum dtype dtype;

    if (!read_count("convert", count, ARGUMENTS) || !read_operand(state, args[X], "x", args[STREAM], &call.in[0]))
        return call_refused(&call);
    want_natural(&call, 0);
    dtype = call.in[0].dtype;
    if (!read_dtype(args[DTYPE], EVERY, &dtype) || !warn_complex(call.in[0].dtype, dtype) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_convert, Py_None, "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], dtype, call.in[0].layout.ndim, call.in[0].layout.shape, args[STREAM]))
        return call_refused(&call);

    return call_run_convert(state, &call, own_out);
}

/* ---- add, the + of Array ---- */

/* The shape that NumPy's broadcasting gives the two, and both of them repeated to it. -1 with an exception. */
static int broadcast_both(struct call *call, npy_intp *shape)
{
    const struct layout *const of[2] = {&call->in[0].layout, &call->in[1].layout};
    const int ndim = of[0]->ndim > of[1]->ndim ? of[0]->ndim : of[1]->ndim;

    for (int d = 0; d < ndim; d++) {
        npy_intp lengths[2];

        for (int i = 0; i < 2; i++) {
            const int own = d - (ndim - of[i]->ndim);

            lengths[i] = own < 0 ? 1 : of[i]->shape[own];
            call->as[i].strides[d] = lengths[i] == 1 ? 0 : of[i]->strides[own];
        }
        if (lengths[0] != lengths[1] && lengths[0] != 1 && lengths[1] != 1) {
            refuse_shapes(&call->in[0], &call->in[1], "shapes that can be broadcast");
            return -1;
        }
        shape[d] = lengths[0] == 1 ? lengths[1] : lengths[0];
        call->as[0].shape[d] = call->as[1].shape[d] = shape[d];
    }
    return call->as[0].ndim = call->as[1].ndim = ndim;
}

static bool run_add(struct call *part, void *unused)
{
    struct add_args args = {.a = part->memory[0],
                            .b = part->memory[1],
                            .out = part->out_memory,
                            .n = layout_size(&part->as[0]),
                            .dtype = part->result};

    (void)unused;
    return call_launch(part, part->kernel.row, &args);
}

PyObject *core_add(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X1, X2, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 2};
    npy_intp shape[NPY_MAXDIMS];
    enum dtype dtype;
    int ndim;

    if (!read_count("add", count, ARGUMENTS) || !read_operand(state, args[X1], "x1", args[STREAM], &call.in[0]) ||
        !read_operand(state, args[X2], "x2", args[STREAM], &call.in[1]) || !matmul_dtype(&call, Py_None, &dtype) ||
        (ndim = broadcast_both(&call, shape)) < 0 || !read_device(state, args[DEVICE], call.in, 2, &call.device) ||
        !read_kernel(OP_add, Py_None, "size", Py_None, Py_None, args[DEVICE], call_is_host(&call), &call.device,
                     &call.kernel) ||
        !read_stream(state, args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], dtype, ndim, shape, args[STREAM]))
        return call_refused(&call);

    call.dtype[0] = call.dtype[1] = dtype;
    return call_run(state, &call, run_add, NULL, own_out);
}
