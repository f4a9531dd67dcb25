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
                     int ndim, const npy_intp *shape)
{
    PyArray_Descr *descr = call->bytes_only ? (PyArray_Descr *)Py_NewRef(call->in[0].descr) : dtype_descr(dtype);
    bool ok = descr && read_out(state, object, call->device, call_is_host(call), descr, ndim, shape, &call->out);

    call->result = dtype;
    Py_XDECREF(descr);
    return ok;
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

static void run_matmul(struct call *call, void *context)
{
    struct batches *batches = context;
    const struct layout *a = &call->as[0], *b = &call->as[1];
    struct matmul_args args = {.m = a->shape[a->ndim - 2],
                               .n = b->shape[b->ndim - 1],
                               .k = a->shape[a->ndim - 1],
                               .batches = 1,
                               .dtype = call->result,
                               .tile = call->kernel.size};
    bool ok = call_begin(call);

    batches->ndim = merge_dimensions(batches->ndim, batches->shape, batches->a_steps, batches->b_steps);
    if (batches->ndim > 0) {
        args.batches = batches->shape[batches->ndim - 1];
        args.a_step = batches->a_steps[batches->ndim - 1] * args.m * args.k;
        args.b_step = batches->b_steps[batches->ndim - 1] * args.k * args.n;
    }
    args.a = call->memory[0];
    args.b = call->memory[1];
    args.c = call->out_memory;
    call_end(call, ok && launch_matmul(call, &args, batches));
}

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X1, X2, DTYPE, PRECISION, KERNEL, TILE, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 2};
    struct batches batches;
    npy_intp shape[NPY_MAXDIMS];
    enum dtype dtype;
    int ndim;

    if (!read_count("matmul", count, ARGUMENTS) || !read_operand(state, args[X1], "x1", &call.in[0]) ||
        !read_operand(state, args[X2], "x2", &call.in[1]) || !matmul_dtype(&call, args[DTYPE], &dtype))
        return call_refused(&call);
    for (int i = 0; i < 2; i++) {
        call.as[i] = call.in[i].layout;
        call.dtype[i] = dtype;
    }
    ndim = matmul_shape(&call, &batches, shape);
    if (ndim < 0 || !read_device(state, args[DEVICE], call.in, 2, &call.device) ||
        !read_kernel(OP_matmul, args[KERNEL], "tile", args[TILE], Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x1", dtype) || !read_precision(args[PRECISION], &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], dtype, ndim, shape))
        return call_refused(&call);

    if (call.out.size && (!call.in[0].size || !call.in[1].size)) /* k is 0 */
        return call_filled(state, &call, Py_False, own_out);
    return call_run(state, &call, run_matmul, &batches, own_out);
}

/* ---- reduce ---- */

/* x as (outer, n, inner), n of which become one. */
struct extent {
    int64_t outer, n, inner;
};

/* Where the axes to be reduced lie side by side the operand stays in its order; else they become the last ones. */
static struct extent split_axes(struct call *call, const bool *reduced)
{
    const struct layout *layout = &call->in[0].layout;
    struct extent extent = {1, 1, 1};
    int axes[NPY_MAXDIMS], kept = 0, changes = 0;
    bool inside = false;

    for (int i = 0; i < layout->ndim; i++) {
        if (layout->shape[i] == 1)
            continue;
        changes += reduced[i] && !inside;
        inside = reduced[i];
    }
    if (changes <= 1) {
        bool begun = false;

        for (int i = 0; i < layout->ndim; i++) {
            if (reduced[i])
                extent.n *= layout->shape[i];
            else
                *(begun ? &extent.inner : &extent.outer) *= layout->shape[i];
            begun = begun || (reduced[i] && layout->shape[i] != 1);
        }
        return extent;
    }
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i])
            axes[kept++] = i;
    for (int i = 0, last = kept; i < layout->ndim; i++) {
        if (reduced[i])
            axes[last++] = i;
        *(reduced[i] ? &extent.n : &extent.outer) *= layout->shape[i];
    }
    call->as[0] = layout_permuted(layout, axes);
    return extent;
}

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
    PyArray_Descr *descr = NULL;
    enum dtype dtype = 0;

    if (PyArray_Check(out))
        descr = PyArray_DESCR((PyArrayObject *)out);
    else if (Py_IS_TYPE(out, state->array_type))
        descr = ((struct array *)out)->descr;
    if (descr && dtype_of(descr))
        dtype = dtype_promoted(x->descr, descr);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return dtype && dtype_casts(dtype, dtype_of(descr)) ? dtype : 0;
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
    struct extent extent;
    PyArrayObject *initial;
    int ndim; /* of the result */
    npy_intp shape[NPY_MAXDIMS];
};

static bool read_extent(struct call *call, PyObject *const *args, struct reduction *reduction)
{
    const enum reduce_op op = reduction->args.op;
    const bool is_arg = op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    const bool is_moment = op == REDUCE_MEAN || op == REDUCE_VAR || op == REDUCE_STD;
    const struct layout *layout = &call->in[0].layout;
    bool reduced[NPY_MAXDIMS], keepdims;

    if (!read_axis(args[R_AXIS], layout->ndim, !is_arg, !is_moment, reduced) ||
        !read_flag(args[R_KEEPDIMS], "keepdims", &keepdims))
        return false;
    want_natural(call, 0);
    reduction->extent = split_axes(call, reduced);
    for (int i = 0; i < layout->ndim; i++)
        if (!reduced[i] || keepdims)
            reduction->shape[reduction->ndim++] = reduced[i] ? 1 : layout->shape[i];
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

    return read_operand(state, args[R_X], "x", &call->in[0]) && read_op(args[R_OP], reduction) &&
           read_extent(call, args, reduction) && read_double(args[R_DDOF], "ddof", &reduce->ddof) &&
           read_device(state, args[R_DEVICE], call->in, 1, &call->device) &&
           read_kernel(OP_reduce, args[R_KERNEL], "block_size", args[R_BLOCK_SIZE], Py_None, args[R_DEVICE],
                       call_is_host(call), &call->device, &call->kernel) &&
           reduce_types(state, call, reduction->op, args[R_DTYPE], args[R_OUT], reduce) &&
           read_initial_of(args[R_INITIAL], reduction) && check_rung(&call->kernel, reduce, reduction->op) &&
           read_stream(args[R_STREAM], call->device, &call->stream);
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

static void run_reduce(struct call *call, void *context)
{
    struct reduction *reduction = context;
    struct reduce_args *args = &reduction->args;
    bool ok;

    args->outer = reduction->extent.outer;
    args->n = reduction->extent.n;
    args->inner = reduction->extent.inner;
    args->block_size = call->kernel.size;
    if (args->block_size || is_atomic(call->kernel.row))
        call->scratch_bytes = reduce_scratch(args);
    ok = call_begin(call);
    args->x = call->memory[0];
    args->out = call->out_memory;
    args->scratch = call->scratch;
    call_end(call, ok && call_launch(call, call->kernel.row, args));
}

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1};
    struct reduction reduction = {0};
    struct reduce_args *reduce = &reduction.args;
    PyObject *result = NULL, *value = NULL;
    bool own_out;

    if (!read_count("reduce", count, R_STREAM + 1))
        return NULL;
    own_out = args[R_OUT] != Py_None;
    if (!read_reduction(state, args, &call, &reduction) || !warn_freedom(&reduction) ||
        !call_out(state, &call, args[R_OUT], reduce->result, reduction.ndim, reduction.shape) ||
        !check_places(&call, reduce)) {
        call_refused(&call);
    } else if (reduction.extent.n == 0) {
        value = reduce_nothing(&reduction);
        result = call_filled(state, &call, value, own_out);
    } else {
        plan_reduce(&call.kernel, reduction.extent.n);
        result = call_run(state, &call, run_reduce, &reduction, own_out);
    }
    Py_XDECREF(value);
    Py_XDECREF(reduction.initial);
    return result;
}

/* ---- transpose ---- */

/* out (batches, columns, rows) is x (batches, rows, columns) turned. */
struct turn {
    int64_t batches, rows, columns;
};

/* The elements of out, in as few dimensions as can be: what is left of the permutation. A rung turns matrices, the
 * last two of those dimensions; where x has them in another place, or does not lie side by side, `convert` brings
 * it to where the rung can turn it. Left to smemkit, a permutation that is no turn is done by `convert` alone. */
static struct turn plan_transpose(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *as = &call->as[0];
    struct turn turn = {1, 1, call->in[0].size};

    want_natural(call, 0);
    if (call->kernel.row->ceiling)
        return turn;
    *as = view = layout_merged(&view);
    if (view.ndim > 1) { /* the last two exchanged, for the rung to exchange them again */
        const int last = view.ndim - 1;

        as->shape[last] = turn.columns = view.shape[last - 1];
        as->shape[last - 1] = turn.rows = view.shape[last];
        as->strides[last] = view.strides[last - 1];
        as->strides[last - 1] = view.strides[last];
        turn.batches = call->in[0].size / (turn.rows * turn.columns);
    }
    if (!call->kernel.chosen || (view.ndim > 1 && layout_is_contiguous(as, element)))
        return turn;
    *as = view;
    call->as_it_lies = !layout_is_contiguous(as, element);
    call->kernel.row = find_row(OP_transpose, "copy");
    return (struct turn){1, 1, call->in[0].size};
}

static void run_transpose(struct call *call, void *context)
{
    const struct turn *turn = context;
    struct transpose_args args = {.batches = turn->batches,
                                  .rows = turn->rows,
                                  .columns = turn->columns,
                                  .element_size = dtype_bytes(call->in[0].dtype),
                                  .tile = call->kernel.size,
                                  .pad = call->kernel.pad};
    bool ok = call_begin(call);

    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, call->kernel.row, &args));
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, AXES, KERNEL, TILE, PAD, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1, .bytes_only = true};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    struct turn turn;
    int axes[NPY_MAXDIMS];

    if (!read_count("transpose", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]) ||
        !read_axes(args[AXES], layout->ndim, axes) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[KERNEL], "tile", args[TILE], args[PAD], args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(args[STREAM], call.device, &call.stream))
        return call_refused(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->ceiling ? i : axes[i]];
    if (!call_out(state, &call, args[OUT], call.in[0].dtype, layout->ndim, shape))
        return call_refused(&call);

    if (call.out.size)
        turn = plan_transpose(&call, axes);
    return call_run(state, &call, call.as_it_lies ? call_run_convert : run_transpose, &turn, own_out);
}

/* ---- the tutorials' first kernels ---- */

static void run_reverse(struct call *call, void *unused)
{
    struct reverse_args args = {.n = call->in[0].size, .element_size = dtype_bytes(call->in[0].dtype)};
    bool ok = call_begin(call);

    (void)unused;
    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, call->kernel.row, &args));
}

PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, KERNEL, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1, .bytes_only = true};

    if (!read_count("reverse", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_reverse, args[KERNEL], "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, Py_None, call.in[0].dtype, call.in[0].layout.ndim, call.in[0].layout.shape))
        return call_refused(&call);

    want_natural(&call, 0);
    return call_run(state, &call, run_reverse, NULL, false);
}

static void run_add_one(struct call *call, void *unused)
{
    struct add_one_args args = {.n = call->in[0].size, .dtype = call->result};
    bool ok = call_begin(call);

    (void)unused;
    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, call->kernel.row, &args));
}

PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1};

    if (!read_count("add_one", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]))
        return call_refused(&call);
    want_natural(&call, 0);
    if (call.dtype[0] == BOOL) /* one more than True is 2 */
        call.dtype[0] = INT64;
    if (!read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_add_one, Py_None, "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], call.dtype[0], call.in[0].layout.ndim, call.in[0].layout.shape))
        return call_refused(&call);

    return call_run(state, &call, run_add_one, NULL, own_out);
}

/* ---- convert ---- */

PyObject *core_convert(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, DTYPE, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    const bool own_out = count == ARGUMENTS && args[OUT] != Py_None;
    struct call call = {.inputs = 1, .as_it_lies = true};
    enum dtype dtype;

    if (!read_count("convert", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]))
        return call_refused(&call);
    want_natural(&call, 0);
    dtype = call.in[0].dtype;
    if (!read_dtype(args[DTYPE], EVERY, &dtype) || !warn_complex(call.in[0].dtype, dtype) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_convert, Py_None, "size", Py_None, Py_None, args[DEVICE], call_is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !call_out(state, &call, args[OUT], dtype, call.in[0].layout.ndim, call.in[0].layout.shape))
        return call_refused(&call);

    return call_run(state, &call, call_run_convert, NULL, own_out);
}
