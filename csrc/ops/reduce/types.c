/* The dtypes of a reduction: of its accumulator and of its result. */
#include "python/state.h"

#include "array/array.h"
#include "array/foreign.h"
#include "array/operand.h"
#include "call/call.h"
#include "kernels.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"
#include "reduce.h"

bool find_reduce_op(PyObject *object, enum reduce_op *op)
{
    static const char *const names[REDUCE_OPS] = {
        [REDUCE_SUM] = "sum",       [REDUCE_PROD] = "prod",     [REDUCE_MIN] = "min",
        [REDUCE_MAX] = "max",       [REDUCE_MEAN] = "mean",     [REDUCE_VAR] = "var",
        [REDUCE_STD] = "std",       [REDUCE_ANY] = "any",       [REDUCE_ALL] = "all",
        [REDUCE_ARGMIN] = "argmin", [REDUCE_ARGMAX] = "argmax", [REDUCE_COUNT_NONZERO] = "count_nonzero"};

    for (int i = 0; i < REDUCE_OPS; i++) {
        if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
            *op = (enum reduce_op)i;
            return true;
        }
    }
    return false;
}

bool read_reduce_op(PyObject *object, enum reduce_op *op)
{
    if (find_reduce_op(object, op))
        return true;
    PyErr_Format(
        PyExc_ValueError,
        "op: expected 'sum', 'prod', 'min', 'max', 'mean', 'var', 'std', 'any', 'all', 'argmin', 'argmax' "
        "or 'count_nonzero', got %R",
        object);
    return false;
}

static enum dtype real_dtype(enum dtype dtype)
{
    return dtype == COMPLEX64 ? FLOAT32 : dtype == COMPLEX128 ? FLOAT64 : dtype;
}

/* The accumulator of a sum. kernel=None adds in double precision: the error is half an ulp plus n * 2^-53 of the
 * sum of |x|. Rungs add in single precision if x has no more, like textbook reductions. */
static enum dtype sum_accumulator_dtype(enum dtype dtype, bool widest)
{
    if (dtype & UNSIGNED)
        return UINT64;
    if (dtype & (BOOL | SIGNED))
        return INT64;
    if (dtype & COMPLEX)
        return widest || dtype == COMPLEX128 ? COMPLEX128 : COMPLEX64;
    return widest || dtype == FLOAT64 ? FLOAT64 : FLOAT32;
}

/* The dtypes of sum, prod and mean; `requested` is 0 or the dtype that elements are cast to first. */
static void choose_sum_dtypes(struct call *call, enum dtype requested, struct reduce_args *args)
{
    const enum dtype in = call->in[0].dtype, integers = BOOL | SIGNED | UNSIGNED;
    const bool widest = call->kernel.row->role != RUNG;
    const bool as_accumulated =
        widest && ((in & FLOATING && requested == FLOAT64) || (in & COMPLEX && requested == COMPLEX128));

    if (requested == BOOL && args->op == REDUCE_SUM) { /* the sum of bools is their "or" */
        args->op = REDUCE_ANY;
        args->result = BOOL;
        return;
    }
    if (args->op == REDUCE_MEAN && in & integers && (!requested || requested == FLOAT64)) {
        args->accumulator = args->result = FLOAT64;
        return;
    }
    if (requested && !as_accumulated &&
        !(in & integers && requested & (SIGNED | UNSIGNED) && args->op != REDUCE_MEAN))
        /* wrapping at the end is the same as wrapping at each step */
        call->dtype[0] = requested;
    args->accumulator = sum_accumulator_dtype(call->dtype[0], widest);
    args->result = requested ? requested : in & (BOOL | SIGNED) ? INT64 : in & UNSIGNED ? UINT64 : in;
}

PyArray_Descr *get_out_descr(const struct module_state *state, PyObject *out)
{
    struct operand other = {NULL};
    PyArray_Descr *descr = NULL;

    if (PyArray_Check(out))
        descr = PyArray_DESCR((PyArrayObject *)out);
    else if (Py_IS_TYPE(out, state->array_type))
        descr = ((struct array *)out)->descr;
    else if (out != Py_None && read_foreign(state, out, "out", Py_None, &other) > 0)
        descr = other.descr;
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    Py_XINCREF(descr);
    drop_operand(&other);
    return descr;
}

/* The promoted dtype of the elements and `out`; 0 if there is none, no out, or one that cannot hold the result.
 */
static enum dtype dtype_with_out(const struct operand *x, PyArray_Descr *out)
{
    int type_num;
    enum dtype dtype = out && dtype_of(out) ? dtype_promoted(x->descr, out, &type_num) : 0;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return dtype && dtype_casts(dtype, dtype_of(out)) ? dtype : 0;
}

/* NumPy adds up a mean in the requested dtype, and divides in out's. */
static bool divides_in_out_dtype(enum dtype requested, const PyArray_Descr *out)
{
    return requested & (BOOL | SIGNED | UNSIGNED) && out && dtype_of(out) & (FLOATING | COMPLEX);
}

bool choose_reduce_dtypes(struct call *call, const char *op, PyObject *dtype, PyArray_Descr *out,
                          struct reduce_args *args)
{
    static const unsigned variance = FLOATING | COMPLEX;
    enum dtype requested = 0, with_out;
    int unused;

    call->type_num = call->in[0].descr->type_num;
    switch (args->op) {
    case REDUCE_SUM:
    case REDUCE_PROD:
    case REDUCE_MEAN:
        if (args->op != REDUCE_MEAN || call->in[0].dtype & variance)
            requested = dtype_with_out(&call->in[0], out); /* as NumPy does, which adds up in out's dtype */
        if (!(call->in[0].dtype & COMPLEX))
            requested = real_dtype(requested);
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &requested, &call->type_num))
            return false;
        choose_sum_dtypes(call, requested, args);
        if (args->op == REDUCE_MEAN && divides_in_out_dtype(requested, out))
            args->result = FLOAT64;
        break;
    case REDUCE_VAR:
    case REDUCE_STD:
        if (!read_dtype(dtype, variance, &requested, &unused))
            return false;
        if (requested && !(requested == FLOAT64 && call->in[0].dtype & ~variance))
            call->dtype[0] = requested;
        args->result = requested                       ? requested
                       : call->in[0].dtype & ~variance ? FLOAT64
                                                       : real_dtype(call->in[0].dtype);
        with_out = requested ? 0 : dtype_with_out(&call->in[0], out);
        if (with_out & FLOATING && args->result & FLOATING) /* it is computed in double anyway */
            args->result = with_out;
        break;
    case REDUCE_MIN:
    case REDUCE_MAX:
        if (args->has_initial) /* converted to out's dtype, not x's */
            requested = dtype_with_out(&call->in[0], out) & call->kernel.row->dtypes;
        if (PyErr_Occurred() || !read_dtype(dtype, EVERY, &requested, &call->type_num))
            return false;
        call->dtype[0] = args->result = requested ? requested : call->in[0].dtype;
        break;
    default:
        if (!read_none(dtype, "dtype", op))
            return false;
        args->result = args->op == REDUCE_ANY || args->op == REDUCE_ALL ? BOOL : INT64;
        call->type_num = NPY_NOTYPE;
    }
    args->dtype = call->dtype[0];
    if (!args->accumulator)
        args->accumulator = args->dtype;
    return warn_complex(call->in[0].dtype, requested ? requested : call->in[0].dtype);
}
