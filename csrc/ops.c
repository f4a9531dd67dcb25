/* The operations: read the arguments, choose the kernel, bring the operands to the device, launch, bring the
 * result back. One function an operation; the way of the data is the same for all, and stands once, above them. */
#include "smemkit.h"

#include <stdatomic.h>
#include <string.h>

/* How many launchers have been called in this process. */
static atomic_ullong launches;

unsigned long long launch_count(void)
{
    return atomic_load(&launches);
}

/* ---- the way of the data ---- */

enum { MAX_INPUTS = 2, STAGES = 4 };

struct call {
    struct device *device;
    device_stream stream;
    struct kernel_choice kernel;
    struct operand in[MAX_INPUTS], out;
    int inputs;

    void *memory[MAX_INPUTS]; /* of the operands, on the device */
    void *out_memory, *scratch;
    device_event stages[STAGES]; /* start, uploaded, computed, downloaded; where timed() listens */
    struct failure failure;
};

static bool is_host(const struct call *call)
{
    return call->in[0].array == NULL;
}

/* Whether the result must not be written where it belongs before all has been read. */
static bool overlaps(const struct call *call)
{
    const char *out = call->out.data;

    for (int i = 0; i < call->inputs; i++) {
        const char *in = call->in[i].data;

        if (out < in + call->in[i].bytes && in < out + call->out.bytes)
            return true;
    }
    return false;
}

static bool mark(struct call *call, int stage)
{
    return !current_timing() ||
           call->device->type->mark(call->device, call->stream, &call->stages[stage], &call->failure);
}

/* Device memory for all, with the operands in it. Without the GIL. */
static bool call_begin(struct call *call, size_t scratch_bytes)
{
    const struct device_type *type = call->device->type;
    const bool host = is_host(call);
    bool ok = mark(call, 0);

    /* Arrays are filled on the default stream */
    if (!host)
        ok = ok && type->follow(call->device, call->stream, NULL, &call->failure);
    for (int i = 0; ok && i < call->inputs; i++) {
        call->memory[i] = call->in[i].data;
        if (!host)
            continue;
        call->memory[i] = NULL;
        ok = type->allocate(call->device, call->in[i].bytes, call->stream, &call->memory[i], &call->failure) &&
             type->copy_in(call->device, call->memory[i], call->in[i].data, call->in[i].bytes, call->stream,
                           &call->failure);
    }
    if (host || overlaps(call))
        ok = ok && type->allocate(call->device, call->out.bytes, call->stream, &call->out_memory, &call->failure);
    else
        call->out_memory = call->out.data;
    if (scratch_bytes)
        ok = ok && type->allocate(call->device, scratch_bytes, call->stream, &call->scratch, &call->failure);
    return ok && mark(call, 1);
}

static bool call_launch(struct call *call, const void *args)
{
    atomic_fetch_add(&launches, 1);
    return call->device->type->launch(call->device, call->kernel.row, args, call->stream, &call->failure) &&
           mark(call, 2);
}

static void add_times(struct call *call)
{
    struct timing *timing = current_timing();
    double *parts[STAGES - 1];

    if (!timing)
        return;
    parts[0] = &timing->upload;
    parts[1] = &timing->kernel;
    parts[2] = &timing->download;
    for (int i = 0; i < STAGES - 1 && call->stages[i + 1]; i++) {
        struct failure ignored = {0};
        double seconds = 0;

        if (call->device->type->seconds_between(call->device, call->stages[i], call->stages[i + 1], &seconds,
                                                &ignored))
            *parts[i] += seconds;
    }
    for (int i = 0; i < STAGES; i++)
        if (call->stages[i])
            call->device->type->drop(call->device, call->stages[i]);
}

/* The result to where it belongs, and the device memory back. Without the GIL; after a failure too. */
static void call_end(struct call *call, bool ok)
{
    const struct device_type *type = call->device->type;
    const bool host = is_host(call);

    if (ok && host)
        ok = type->copy_out(call->device, call->out.data, call->out_memory, call->out.bytes, call->stream,
                            &call->failure);
    else if (ok && call->out_memory != call->out.data)
        ok = type->copy(call->device, call->out.data, call->out_memory, call->out.bytes, call->stream,
                        &call->failure);
    /* what comes next on the default stream, freeing the operands included, waits for this call */
    if (ok && !host)
        ok = type->follow(call->device, NULL, call->stream, &call->failure);
    if (ok)
        mark(call, 3);
    for (int i = 0; i < call->inputs; i++)
        if (host && call->memory[i])
            type->release(call->device, call->memory[i], call->stream);
    if (call->out_memory && call->out_memory != call->out.data)
        type->release(call->device, call->out_memory, call->stream);
    if (call->scratch)
        type->release(call->device, call->scratch, call->stream);
    add_times(call);
}

static void call_drop(struct call *call)
{
    for (int i = 0; i < call->inputs; i++)
        drop_operand(&call->in[i]);
    drop_operand(&call->out);
}

/* What the operation returns: `out`; a scalar where NumPy has one; NULL with the failure raised. */
static PyObject *call_result(const struct module_state *state, struct call *call, bool own_out)
{
    PyObject *result = NULL;

    if (call->failure.kind != FAILURE_NONE)
        raise_failure(state, &call->failure);
    else if (is_host(call) && !own_out)
        result = PyArray_Return((PyArrayObject *)Py_NewRef(call->out.owner));
    else
        result = Py_NewRef(call->out.owner);
    call_drop(call);
    return result;
}

static PyObject *call_refused(struct call *call)
{
    call_drop(call);
    return NULL;
}

/* ---- matmul ---- */

static bool check_matrices(const struct operand *a, const struct operand *b)
{
    PyObject *shapes[2] = {NULL, NULL};

    if (a->dtype != b->dtype) {
        PyErr_Format(PyExc_TypeError, "x2: expected dtype %s as x1, got %s", dtype_name(a->dtype),
                     dtype_name(b->dtype));
        return false;
    }
    if (a->ndim == 2 && b->ndim == 2 && a->shape[1] == b->shape[0])
        return true;
    shapes[0] = shape_tuple(a->ndim, a->shape);
    shapes[1] = shape_tuple(b->ndim, b->shape);
    if (shapes[0] && shapes[1])
        PyErr_Format(PyExc_ValueError, "x1, x2: expected shapes (m, k) and (k, n), got %R and %R", shapes[0],
                     shapes[1]);
    Py_XDECREF(shapes[0]);
    Py_XDECREF(shapes[1]);
    return false;
}

static void run_matmul(struct call *call)
{
    const npy_intp *a = call->in[0].shape, *b = call->in[1].shape;
    struct matmul_args args = {
        .m = a[0], .n = b[1], .k = a[1], .dtype = call->in[0].dtype, .tile = call->kernel.size};
    bool ok = call_begin(call, 0);

    args.a = call->memory[0];
    args.b = call->memory[1];
    args.c = call->out_memory;
    if (ok && args.k == 0)
        ok = call->device->type->fill(call->device, args.c, 0, call->out.bytes, call->stream, &call->failure);
    else if (ok)
        ok = call_launch(call, &args);
    call_end(call, ok);
}

PyObject *core_matmul(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X1, X2, DTYPE, PRECISION, KERNEL, TILE, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 2};
    enum dtype dtype;
    npy_intp shape[2];

    if (!read_count("matmul", count, ARGUMENTS) || !read_operand(state, args[X1], "x1", &call.in[0]) ||
        !read_operand(state, args[X2], "x2", &call.in[1]) || !check_matrices(&call.in[0], &call.in[1]))
        return call_refused(&call);
    dtype = call.in[0].dtype;
    shape[0] = call.in[0].shape[0];
    shape[1] = call.in[1].shape[1];
    if (!read_dtype(args[DTYPE], dtype, &dtype) || !read_device(state, args[DEVICE], call.in, 2, &call.device) ||
        !read_kernel(OP_matmul, args[KERNEL], "tile", args[TILE], Py_None, args[DEVICE], is_host(&call),
                     &call.device, &call.kernel) ||
        !read_precision(args[PRECISION], &call.kernel) || !read_stream(args[STREAM], call.device, &call.stream) ||
        !read_out(state, args[OUT], call.device, is_host(&call), dtype, 2, shape, &call.out))
        return call_refused(&call);

    if (call.out.size) {
        Py_BEGIN_ALLOW_THREADS
        run_matmul(&call);
        Py_END_ALLOW_THREADS
    }
    return call_result(state, &call, args[OUT] != Py_None);
}

/* ---- reduce ---- */

static bool read_reduce_op(PyObject *object, enum reduce_op *op)
{
    static const char *const names[] = {[REDUCE_SUM] = "sum", [REDUCE_MIN] = "min", [REDUCE_MAX] = "max"};

    for (int i = 0; i < 3; i++) {
        if (PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
            *op = (enum reduce_op)i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "op: expected 'sum', 'min' or 'max', got %R", object);
    return false;
}

/* The types that the sum, the least or the largest of `in` is computed and returned in. A sum of float32 that is
 * left to smemkit is computed in float64, so that its error is half an ulp and n * 2^-53 of the sum of |x|; a rung
 * that was named computes in the type of its operands. */
static bool read_reduce_types(PyObject *dtype, bool chosen, struct reduce_args *args)
{
    args->accumulator = args->result = args->dtype;
    if (args->op != REDUCE_SUM)
        return read_dtype(dtype, args->dtype, &args->result);
    if (args->dtype == INT32) {
        args->accumulator = args->result = INT64;
        return read_dtype(dtype, INT64, &args->result);
    }
    if (!read_dtype(dtype, FLOAT32 | FLOAT64, &args->result))
        return false;
    if (chosen || args->result == FLOAT64)
        args->accumulator = FLOAT64;
    return true;
}

static void run_reduce(struct call *call, struct reduce_args *args)
{
    const int block = args->block_size ? args->block_size : 256;
    bool ok = call_begin(call, 16 * (size_t)(call->in[0].size / block + 1));

    args->n = call->in[0].size;
    args->x = call->memory[0];
    args->out = call->out_memory;
    args->scratch = call->scratch;
    if (ok && args->n == 0) /* a sum of nothing */
        ok = call->device->type->fill(call->device, args->out, 0, call->out.bytes, call->stream, &call->failure);
    else if (ok)
        ok = call_launch(call, args);
    call_end(call, ok);
}

PyObject *core_reduce(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, OP, AXIS, DTYPE, KEEPDIMS, INITIAL, KERNEL, BLOCK_SIZE, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1};
    struct reduce_args reduce = {0};
    npy_intp shape[NPY_MAXDIMS];
    int keepdims, ndim;

    if (!read_count("reduce", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]) ||
        !read_reduce_op(args[OP], &reduce.op) || !read_all_axes(args[AXIS], call.in[0].ndim) ||
        (keepdims = PyObject_IsTrue(args[KEEPDIMS])) < 0 || !read_none(args[INITIAL], "initial") ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_reduce, args[KERNEL], "block_size", args[BLOCK_SIZE], Py_None, args[DEVICE],
                     is_host(&call), &call.device, &call.kernel))
        return call_refused(&call);
    reduce.dtype = call.in[0].dtype;
    reduce.block_size = call.kernel.size;
    ndim = keepdims ? call.in[0].ndim : 0;
    for (int i = 0; i < ndim; i++)
        shape[i] = 1;
    if (reduce.op != REDUCE_SUM && call.in[0].size == 0) {
        PyErr_Format(PyExc_ValueError, "x: expected at least one element for '%s', got none",
                     reduce.op == REDUCE_MIN ? "min" : "max");
        return call_refused(&call);
    }
    if (!read_reduce_types(args[DTYPE], call.kernel.chosen, &reduce) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !read_out(state, args[OUT], call.device, is_host(&call), reduce.result, ndim, shape, &call.out))
        return call_refused(&call);

    Py_BEGIN_ALLOW_THREADS
    run_reduce(&call, &reduce);
    Py_END_ALLOW_THREADS
    return call_result(state, &call, args[OUT] != Py_None);
}

/* ---- transpose ---- */

static void run_transpose(struct call *call)
{
    const npy_intp *shape = call->in[0].shape;
    struct transpose_args args = {.rows = shape[0],
                                  .columns = shape[1],
                                  .element_size = (int)dtype_bytes(call->in[0].dtype),
                                  .tile = call->kernel.size,
                                  .pad = call->kernel.pad};
    bool ok = call_begin(call, 0);

    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, &args));
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, AXES, KERNEL, TILE, PAD, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1};
    npy_intp shape[2];
    bool turned;

    if (!read_count("transpose", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]))
        return call_refused(&call);
    if (call.in[0].ndim != 2) {
        PyErr_Format(PyExc_NotImplementedError, "x: expected a matrix, got %d dimensions", call.in[0].ndim);
        return call_refused(&call);
    }
    if (!read_axes_reversed(args[AXES], 2) || !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[KERNEL], "tile", args[TILE], args[PAD], args[DEVICE], is_host(&call),
                     &call.device, &call.kernel))
        return call_refused(&call);
    turned = !call.kernel.row->ceiling;
    shape[0] = call.in[0].shape[turned];
    shape[1] = call.in[0].shape[!turned];
    if (!read_stream(args[STREAM], call.device, &call.stream) ||
        !read_out(state, args[OUT], call.device, is_host(&call), call.in[0].dtype, 2, shape, &call.out))
        return call_refused(&call);

    if (call.out.size) {
        Py_BEGIN_ALLOW_THREADS
        run_transpose(&call);
        Py_END_ALLOW_THREADS
    }
    return call_result(state, &call, args[OUT] != Py_None);
}

/* ---- the tutorials' first kernels ---- */

static void run_reverse(struct call *call)
{
    struct reverse_args args = {.n = call->in[0].size, .element_size = (int)dtype_bytes(call->in[0].dtype)};
    bool ok = call_begin(call, 0);

    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, &args));
}

PyObject *core_reverse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, KERNEL, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1};

    if (!read_count("reverse", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_reverse, args[KERNEL], "size", Py_None, Py_None, args[DEVICE], is_host(&call),
                     &call.device, &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !read_out(state, Py_None, call.device, is_host(&call), call.in[0].dtype, call.in[0].ndim, call.in[0].shape,
                  &call.out))
        return call_refused(&call);

    if (call.out.size) {
        Py_BEGIN_ALLOW_THREADS
        run_reverse(&call);
        Py_END_ALLOW_THREADS
    }
    return call_result(state, &call, false);
}

static void run_add_one(struct call *call)
{
    struct add_one_args args = {.n = call->in[0].size, .dtype = call->in[0].dtype};
    bool ok = call_begin(call, 0);

    args.x = call->memory[0];
    args.out = call->out_memory;
    call_end(call, ok && call_launch(call, &args));
}

PyObject *core_add_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { X, OUT, DEVICE, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct call call = {.inputs = 1};

    if (!read_count("add_one", count, ARGUMENTS) || !read_operand(state, args[X], "x", &call.in[0]) ||
        !read_device(state, args[DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_add_one, Py_None, "size", Py_None, Py_None, args[DEVICE], is_host(&call), &call.device,
                     &call.kernel) ||
        !read_stream(args[STREAM], call.device, &call.stream) ||
        !read_out(state, args[OUT], call.device, is_host(&call), call.in[0].dtype, call.in[0].ndim,
                  call.in[0].shape, &call.out))
        return call_refused(&call);

    if (call.out.size) {
        Py_BEGIN_ALLOW_THREADS
        run_add_one(&call);
        Py_END_ALLOW_THREADS
    }
    return call_result(state, &call, args[OUT] != Py_None);
}
