/* Launches the kernels of the op `ceiling`, which measure the machine's limits; operations do not use them.
 */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "array/lookup.h"
#include "call/call.h"
#include "call/part.h"
#include "kernels.h"
#include "ops.h"
#include "python/arguments.h"
#include "python/dtypes.h"
#include "python/errors.h"

static bool read_positive(PyObject *object, const char *name, int64_t *value)
{
    *value = PyLong_Check(object) ? PyLong_AsLongLong(object) : 0;
    if (*value > 0)
        return true;
    PyErr_Clear(); /* a number that is too large is refused as well */
    PyErr_Format(PyExc_ValueError, "%s: expected a positive integer, got %R", name, object);
    return false;
}

static const struct kernel_row *read_row(PyObject *object)
{
    for (int i = 0; PyUnicode_Check(object) && i < ROW_COUNT; i++)
        if (kernel_rows[i].op == OP_ceiling && PyUnicode_CompareWithASCIIString(object, kernel_rows[i].name) == 0)
            return &kernel_rows[i];
    PyErr_Format(PyExc_ValueError, "kernel: expected a kernel of the op 'ceiling', got %R", object);
    return NULL;
}

/* One of the row's dtypes by name, since NumPy itself has no bfloat16. */
static bool read_row_dtype(const struct kernel_row *row, PyObject *object, enum dtype *dtype)
{
    PyObject *names;

    for (unsigned bit = 1; PyUnicode_Check(object) && bit <= row->dtypes; bit <<= 1) {
        *dtype = (enum dtype)bit;
        if (row->dtypes & bit && PyUnicode_CompareWithASCIIString(object, dtype_name(*dtype)) == 0)
            return true;
    }
    names = dtype_list(row->dtypes);
    if (names)
        PyErr_Format(PyExc_ValueError, "dtype: expected %U, got %R", names, object);
    Py_XDECREF(names);
    return false;
}

/* A contiguous, 16-byte aligned Array. */
static bool read_aligned_array(const struct module_state *state, PyObject *object, const char *name,
                               struct array **array)
{
    *array = (struct array *)object;
    if (Py_IS_TYPE(object, state->array_type) && array_is_contiguous(*array) &&
        (uintptr_t)(*array)->data % 16 == 0 && (*array)->bytes && (*array)->bytes % 16 == 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s: expected a contiguous Array of a multiple of 16 bytes, got %s", name,
                 Py_TYPE(object)->tp_name);
    return false;
}

/* The work of a launch: bytes moved or floating-point operations, and the sizes of its input and output. */
struct work {
    int64_t done, read, written;
};

static struct work count_work(const char *name, const struct ceiling_args *args)
{
    const int64_t threads = args->blocks * CEILING_BLOCK, tile = CEILING_M * CEILING_N;

    if (strcmp(name, "read") == 0)
        return (struct work){args->bytes, 16, 4 * threads};
    if (strcmp(name, "copy") == 0)
        return (struct work){2 * args->bytes, 16, args->bytes};
    if (strcmp(name, "fma") == 0)
        return (struct work){2 * CEILING_FMAS * threads * args->rounds, 128, 4 * threads};
    return (struct work){2 * tile * (128 / dtype_bytes(args->dtype)) * args->blocks * args->rounds,
                         (CEILING_M + CEILING_N) * 128, 4 * tile * args->blocks};
}

/* ceiling(kernel, dtype, x, out, blocks, in_flight, rounds, stream): one asynchronous launch; returns its work. */
PyObject *core_ceiling(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    enum { KERNEL, DTYPE, X, OUT, BLOCKS, IN_FLIGHT, ROUNDS, STREAM, ARGUMENTS };
    struct module_state *state = state_of(module);
    struct ceiling_args launch = {0};
    struct call call = {0};
    struct part part;
    struct array *x, *out;
    const struct kernel_row *row = count > KERNEL ? read_row(args[KERNEL]) : NULL;
    struct work work;
    int64_t in_flight;
    bool ok = true;

    if (!row || !read_count("ceiling", count, ARGUMENTS) || !read_row_dtype(row, args[DTYPE], &launch.dtype) ||
        !read_aligned_array(state, args[X], "x", &x) || !read_aligned_array(state, args[OUT], "out", &out) ||
        !read_positive(args[BLOCKS], "blocks", &launch.blocks) ||
        !read_positive(args[IN_FLIGHT], "in_flight", &in_flight) ||
        !read_positive(args[ROUNDS], "rounds", &launch.rounds))
        return NULL;
    launch.x = x->data;
    launch.out = out->data;
    launch.bytes = (int64_t)x->bytes;
    launch.loads_in_flight = (int)in_flight;
    work = count_work(row->name, &launch);
    if (launch.bytes < work.read) {
        PyErr_Format(PyExc_ValueError, "x: expected %lld bytes, got %zd", (long long)work.read,
                     (Py_ssize_t)x->bytes);
        return NULL;
    }
    if (out->device != x->device || (int64_t)out->bytes < work.written) {
        PyErr_Format(PyExc_ValueError, "out: expected %lld bytes on %s, got %zd on %s", (long long)work.written,
                     x->device->name, (Py_ssize_t)out->bytes, out->device->name);
        return NULL;
    }
    call.device = x->device;
    if (!read_stream(state, args[STREAM], call.device, &call.stream))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    part = part_of_call(&call);
    ok = part_launch(&part, row, &launch);
    Py_END_ALLOW_THREADS
    return ok ? PyLong_FromLongLong(work.done) : raise_failure(state, &part.failure);
}
