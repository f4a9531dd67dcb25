/* The way of the data, the same for every operation: to the device, into the order, dtype and byte order that the
 * kernel wants, through the kernel, and back.
 *
 * Layouts, byte orders and casts are handled here and nowhere else, by one kernel, `convert`; the kernels of the
 * operations see contiguous arrays of one dtype. The host only moves bytes. A NumPy array travels as it lies, with
 * the gaps between its elements, and is put in order on the device; where the gaps are many times what lies
 * between them, the elements are collected for the way. What comes back travels without gaps, and the elements are
 * laid into an `out` that has some one by one: another thread may be writing beside them.
 */
#include "smemkit.h"

#include <stdatomic.h>

/* How many launchers have been called in this process. */
static atomic_ullong launches;

unsigned long long launch_count(void)
{
    return atomic_load(&launches);
}

bool call_is_host(const struct call *call)
{
    return call->in[0].device == NULL;
}

/* More than any device has, where a cast of an array that repeats its elements would overflow. */
static size_t bytes_of(npy_intp elements, enum dtype dtype)
{
    size_t bytes;

    return __builtin_mul_overflow((size_t)elements, (size_t)dtype_bytes(dtype), &bytes) ? SIZE_MAX : bytes;
}

/* ---- before ---- */

static PyArrayObject *numpy_like(PyArray_Descr *descr, const struct layout *layout, void *data, bool strided)
{
    Py_INCREF(descr);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, layout->ndim, layout->shape,
                                                 strided ? layout->strides : NULL, data, 0, NULL);
}

/* Whether so much lies between the elements that they had better travel without it. */
static bool is_sparse(const struct layout *layout, int element)
{
    npy_intp low, high;

    layout_extent(layout, element, &low, &high);
    return (high - low) / 4 > layout_size(layout) * element + 65536;
}

static bool pack(struct call *call, int i)
{
    struct operand *in = &call->in[i];
    PyArrayObject *view = numpy_like(in->descr, &call->as[i], in->data, true);
    npy_intp step = dtype_bytes(in->dtype);

    call->packed[i] = view ? (PyArrayObject *)PyArray_NewCopy(view, NPY_CORDER) : NULL;
    Py_XDECREF(view);
    if (!call->packed[i])
        return false;
    call->source[i] = PyArray_DATA(call->packed[i]);
    for (int d = call->as[i].ndim - 1; d >= 0; d--) {
        call->as[i].strides[d] = step;
        step *= call->as[i].shape[d];
    }
    return true;
}

/* What has to be allocated on the host before anything is launched. */
static bool prepare(struct call *call)
{
    for (int i = 0; i < call->inputs; i++)
        if (!operand_unchanged(&call->in[i]))
            return false;
    if (!operand_unchanged(&call->out))
        return false;
    for (int i = 0; call_is_host(call) && i < call->inputs; i++) {
        call->source[i] = call->in[i].data;
        if (is_sparse(&call->as[i], dtype_bytes(call->in[i].dtype)) && !pack(call, i))
            return false;
    }
    if (call->out.device || layout_is_contiguous(&call->out.layout, dtype_bytes(call->out.dtype)))
        return true;
    call->landing = numpy_like(call->out.descr, &call->out.layout, NULL, false);
    return call->landing != NULL;
}

static bool mark(struct call *call, int stage)
{
    return !current_timing() ||
           call->device->type->mark(call->device, call->stream, &call->stages[stage], &call->failure);
}

static void *allocate(struct call *call, size_t bytes)
{
    void **memory = &call->temporaries[call->temporary_count];

    if (!device_allocate(call->device, bytes, call->stream, memory, &call->failure))
        return NULL;
    call->temporary_count++;
    return *memory;
}

/* Where the device holds element 0, …, 0 of an operand, once its bytes are there. */
static bool upload(struct call *call, int i, const char **device)
{
    npy_intp low, high;
    char *memory;

    *device = call->in[i].data;
    if (!call_is_host(call))
        return true;
    layout_extent(&call->as[i], dtype_bytes(call->in[i].dtype), &low, &high);
    memory = allocate(call, (size_t)(high - low));
    if (!memory)
        return false;
    *device = memory - low;
    return call->device->type->copy_in(call->device, memory, call->source[i] + low, (size_t)(high - low),
                                       call->stream, &call->failure);
}

bool call_convert(struct call *call, const void *x, const struct layout *layout, enum dtype from, bool swapped,
                  void *out, enum dtype to)
{
    const struct layout merged = layout_merged(layout);
    const int element = dtype_bytes(from);
    struct convert_args args = {.x = x,
                                .out = out,
                                .size = layout_size(layout),
                                .ndim = merged.ndim,
                                .from = from,
                                .to = to,
                                .swapped = swapped,
                                .aligned = (uintptr_t)x % (uintptr_t)element == 0};

    for (int d = 0; d < merged.ndim; d++) {
        args.shape[d] = merged.shape[d];
        args.strides[d] = merged.strides[d];
        args.aligned = args.aligned && merged.strides[d] % element == 0;
    }
    return call_launch(call, find_row(OP_convert, "strided"), &args);
}

/* Whether the bytes of an operand have to be turned round. */
static bool reads_swapped(const struct call *call, const struct operand *in)
{
    return in->swapped && !call->bytes_only;
}

/* One operand in the order and the dtype that are wanted; `x` is its element 0, …, 0. */
static bool arrange(struct call *call, int i, const char *x)
{
    const struct operand *in = &call->in[i];
    const bool swapped = reads_swapped(call, in);

    call->memory[i] = (void *)x;
    if (call->as_it_lies ||
        (in->dtype == call->dtype[i] && !swapped && layout_is_contiguous(&call->as[i], dtype_bytes(in->dtype))))
        return true;
    call->memory[i] = allocate(call, bytes_of(in->size, call->dtype[i]));
    return call->memory[i] &&
           call_convert(call, x, &call->as[i], in->dtype, swapped, call->memory[i], call->dtype[i]);
}

/* Whether the result must not be written where it belongs before all has been read. */
static bool overlaps(const struct call *call)
{
    npy_intp low[2], high[2];

    if (!call->out.device)
        return false;
    layout_extent(&call->out.layout, dtype_bytes(call->out.dtype), &low[0], &high[0]);
    for (int i = 0; i < call->inputs; i++) {
        layout_extent(&call->in[i].layout, dtype_bytes(call->in[i].dtype), &low[1], &high[1]);
        if (call->in[i].device && call->out.data + low[0] < call->in[i].data + high[1] &&
            call->in[i].data + low[1] < call->out.data + high[0])
            return true;
    }
    return false;
}

bool call_begin(struct call *call)
{
    const char *uploaded[MAX_INPUTS];
    bool ok = mark(call, 0);

    if (call->out.device || !call_is_host(call)) /* Arrays are filled on the default stream */
        ok = ok && call->device->type->follow(call->device, call->stream, NULL, &call->failure);
    for (int i = 0; ok && i < call->inputs; i++)
        ok = upload(call, i, &uploaded[i]);
    ok = ok && mark(call, 1);
    for (int i = 0; ok && i < call->inputs; i++)
        ok = arrange(call, i, uploaded[i]);
    if (!ok)
        return false;
    if (!call->out.device || call->result != call->out.dtype || overlaps(call))
        call->out_memory = allocate(call, bytes_of(call->out.size, call->result));
    else
        call->out_memory = call->out.data;
    if (call->out_memory && call->scratch_bytes)
        call->scratch = allocate(call, call->scratch_bytes);
    return call->failure.kind == FAILURE_NONE;
}

bool call_launch(struct call *call, const struct kernel_row *row, const void *args)
{
    atomic_fetch_add(&launches, 1);
    return call->device->type->launch(call->device, row, args, call->stream, &call->failure);
}

/* ---- after ---- */

/* What the kernel has made, in out's dtype and byte order: *memory may be another one then. */
static bool finish(struct call *call, void **memory)
{
    struct layout line = {.ndim = 1, .shape = {call->out.size}, .strides = {0}};
    enum dtype dtype = call->result, wanted = call->out.dtype;
    bool swapped = call->bytes_only && call->in[0].swapped;

    *memory = call->out_memory;
    while (dtype != wanted || swapped != call->out.swapped) {
        /* a cast reads either byte order and writes the native one; a second step turns that round */
        void *next = allocate(call, bytes_of(call->out.size, wanted));

        line.strides[0] = dtype_bytes(dtype);
        if (!next || !call_convert(call, *memory, &line, dtype, dtype == wanted || swapped, next, wanted))
            return false;
        swapped = dtype == wanted ? !swapped : false;
        dtype = wanted;
        *memory = next;
    }
    return true;
}

static bool deliver(struct call *call)
{
    const struct device_type *type = call->device->type;
    const size_t bytes = bytes_of(call->out.size, call->out.dtype);
    void *memory;

    if (!finish(call, &memory) || !mark(call, 2))
        return false;
    if (!call->out.device)
        return type->copy_out(call->device, call->landing ? PyArray_DATA(call->landing) : (void *)call->out.data,
                              memory, bytes, call->stream, &call->failure);
    /* what comes next on the default stream, freeing the operands included, waits for this call */
    return (memory == call->out.data ||
            type->copy(call->device, call->out.data, memory, bytes, call->stream, &call->failure)) &&
           type->follow(call->device, NULL, call->stream, &call->failure);
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

void call_end(struct call *call, bool ok)
{
    if (ok && deliver(call))
        mark(call, 3);
    for (int i = 0; i < call->temporary_count; i++)
        device_release(call->device, call->temporaries[i], call->stream);
    add_times(call);
}

static void drop(struct call *call)
{
    for (int i = 0; i < call->inputs; i++) {
        Py_CLEAR(call->packed[i]);
        drop_operand(&call->in[i]);
    }
    Py_CLEAR(call->landing);
    drop_operand(&call->out);
}

PyObject *call_refused(struct call *call)
{
    drop(call);
    return NULL;
}

static PyObject *result_of(const struct module_state *state, struct call *call, bool own_out)
{
    PyObject *result;

    if (call->failure.kind != FAILURE_NONE) {
        raise_failure(state, &call->failure);
        return call_refused(call);
    }
    if (call->landing && PyArray_CopyInto((PyArrayObject *)call->out.owner, call->landing) < 0)
        return call_refused(call);
    result = Py_NewRef(call->out.owner);
    if (!call->out.device && !own_out)
        result = PyArray_Return((PyArrayObject *)result);
    drop(call);
    return result;
}

PyObject *call_run(const struct module_state *state, struct call *call, void (*run)(struct call *, void *),
                   void *context, bool own_out)
{
    if (call->out.size) {
        if (!prepare(call))
            return call_refused(call);
        Py_BEGIN_ALLOW_THREADS
        run(call, context);
        Py_END_ALLOW_THREADS
    }
    return result_of(state, call, own_out);
}

void call_run_convert(struct call *call, void *unused)
{
    const struct operand *x = &call->in[0];
    bool ok = call_begin(call);

    (void)unused;
    call_end(call, ok && call_convert(call, call->memory[0], &call->as[0], x->dtype, reads_swapped(call, x),
                                      call->out_memory, call->result));
}

/* `value`, any scalar, as out's dtype has it; in native byte order, which CopyInto turns where it has to. */
static PyArrayObject *as_out(const struct call *call, PyObject *value)
{
    PyArrayObject *scalar = value ? (PyArrayObject *)PyArray_FromAny(value, NULL, 0, 0, 0, NULL) : NULL;
    PyArray_Descr *descr = scalar ? dtype_descr(call->out.dtype) : NULL;
    PyObject *result = descr ? PyArray_CastToType(scalar, descr, 0) : NULL;

    Py_XDECREF(scalar);
    return (PyArrayObject *)result;
}

PyObject *call_filled(const struct module_state *state, struct call *call, PyObject *value, bool own_out)
{
    const struct device_type *type = call->device->type;
    PyArrayObject *scalar = as_out(call, value), *target;
    bool ok;

    if (!scalar)
        return call_refused(call);
    if (!call->out.device)
        target = (PyArrayObject *)Py_NewRef(call->out.owner);
    else
        target = numpy_like(call->out.descr, &call->out.layout, NULL, false);
    ok = target && PyArray_CopyInto(target, scalar) == 0;
    if (ok && call->out.device) {
        const size_t bytes = bytes_of(call->out.size, call->out.dtype);

        Py_BEGIN_ALLOW_THREADS
        if (type->follow(call->device, call->stream, NULL, &call->failure) &&
            type->copy_in(call->device, call->out.data, PyArray_DATA(target), bytes, call->stream, &call->failure))
            type->follow(call->device, NULL, call->stream, &call->failure);
        Py_END_ALLOW_THREADS /* result_of raises the failure, if there is one */
    }
    Py_XDECREF(scalar);
    Py_XDECREF(target);
    return ok ? result_of(state, call, own_out) : call_refused(call);
}
