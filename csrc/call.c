/* The way of the data, the same for every operation: to the device, into the order, dtype and byte order that the
 * kernel wants, through the kernel, and back.
 *
 * Layouts, byte orders and casts are handled here, by one kernel, `convert`; the kernels of the operations see
 * contiguous arrays of one dtype, but for those that take strides. The host only moves bytes: a NumPy array
 * travels in the order in which it lies, without the gaps between its elements where that is quicker, and is put
 * in order on the device.
 *
 * A call with large arrays of the host is done in parts, if its operation says how: while the kernel works on one
 * part, the next is on its way to the device and the one before on its way back, so that a call takes as long as
 * the slowest of the three, and as much of the device's memory as a few parts.
 */
#include "smemkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor.h"

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

/* Whether anything of it comes from the host or goes there. */
static bool touches_host(const struct call *call)
{
    bool host = !call->out.device;

    for (int i = 0; i < call->inputs; i++)
        host = host || !call->in[i].device;
    return host;
}

/* More than any device has, where a cast of an array that repeats its elements would overflow. */
static size_t bytes_of(npy_intp elements, enum dtype dtype)
{
    size_t bytes;

    return __builtin_mul_overflow((size_t)elements, (size_t)dtype_bytes(dtype), &bytes) ? SIZE_MAX : bytes;
}

/* ---- parts ---- */

/* Of the process, for tests: how many bytes a part has, on the CPU device too; 0: what is best on a GPU. If it is
 * negative, what is slow is not done in parts, as it is on a GPU. */
static atomic_llong part_bytes_asked;

PyObject *core_set_part_bytes(PyObject *module, PyObject *bytes)
{
    const long long asked = PyLong_AsLongLong(bytes);

    (void)module;
    if (asked == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLongLong(atomic_exchange(&part_bytes_asked, asked));
}

npy_intp call_part_bytes(const struct call *call, npy_intp bytes)
{
    const npy_intp asked = (npy_intp)atomic_load(&part_bytes_asked), least = 1 << 20, most = 1 << 25;

    if (!touches_host(call) || (!asked && call->device->ordinal < 0))
        return NPY_MAX_INTP;
    if (asked)
        return asked < 0 ? -asked : asked;
    return bytes / 8 < least ? least : bytes / 8 > most ? most : bytes / 8;
}

static bool is_cut(const struct cut *cut)
{
    return cut->step > 0 && cut->step < cut->length;
}

/* Whether all parts of the inner loop see the same elements of an operand. */
static bool is_held(const struct call *call, int i)
{
    return !is_cut(&call->cuts[1]) || call->cuts[1].in[i] < 0;
}

/* Whether the parts of the inner loop make one result, which is there with the last of them. */
static bool is_folded(const struct call *call)
{
    return is_cut(&call->cuts[1]) && call->cuts[1].made < 0;
}

/* Whether no part comes after it in the inner loop. */
static bool is_last(const struct call *part)
{
    return !is_cut(&part->cuts[1]) || part->at[1] + part->taken[1] == part->cuts[1].length;
}

static void slice(struct layout *layout, char **data, int dimension, npy_intp at, npy_intp length)
{
    if (dimension < 0)
        return;
    layout->shape[dimension] = length;
    *data += at * layout->strides[dimension];
}

/* One loop's share of what a part sees of the operands and of out. */
static void cut_part(struct call *part, int loop, npy_intp at)
{
    const struct cut *cut = &part->cuts[loop];

    if (!is_cut(cut)) {
        part->at[loop] = 0;
        part->taken[loop] = cut->length;
        return;
    }
    part->at[loop] = at;
    part->taken[loop] = cut->length - at < cut->step ? cut->length - at : cut->step;
    for (int i = 0; i < part->inputs; i++)
        slice(&part->as[i], &part->in[i].data, cut->in[i], at, part->taken[loop]);
    slice(&part->made, &part->out.data, cut->made, at, part->taken[loop]);
}

/* Whether the elements of a part would travel in runs that are too short to be copied fast. */
static bool is_slow(const struct layout *layout, const struct operand *operand, bool with_gaps)
{
    enum { SHORT = 256 };
    struct layout there;
    struct runs runs;
    npy_intp first;

    return !operand->device &&
           layout_travel(layout, dtype_bytes(operand->dtype), NULL, with_gaps, &runs, &there, &first) &&
           runs.ndim && runs.run < SHORT;
}

size_t call_room(const struct call *call, size_t enough)
{
    size_t room;

    Py_BEGIN_ALLOW_THREADS
    room = call->device->type->room(call->device, enough);
    Py_END_ALLOW_THREADS
    return room;
}

/* Takes back what the operation has said of parts where a call does better without: where the parts of an array
 * lie in small pieces, unless there is no room for all of it at once. */
void call_choose_parts(struct call *call)
{
    size_t bytes = bytes_of(call->out.size, call->result);
    struct call *part;
    bool slow = false;

    if ((!is_cut(&call->cuts[0]) && !is_cut(&call->cuts[1])) || atomic_load(&part_bytes_asked) > 0 ||
        !(part = malloc(sizeof *part)))
        return;
    *part = *call;
    for (int loop = 0; loop < 2; loop++)
        cut_part(part, loop, 0);
    for (int i = 0; i < call->inputs; i++) {
        bytes += bytes_of(call->in[i].size, call->in[i].dtype);
        slow = slow || is_slow(&part->as[i], &part->in[i], true);
    }
    slow = slow || is_slow(&part->made, &part->out, false);
    free(part);
    /* what is converted is there twice */
    if (slow && bytes < call_room(call, bytes < SIZE_MAX / 4 ? 4 * bytes : SIZE_MAX) / 3)
        call->cuts[0].step = call->cuts[1].step = 0;
}

/* ---- before ---- */

static PyArrayObject *numpy_like(PyArray_Descr *descr, const struct layout *layout)
{
    Py_INCREF(descr);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, layout->ndim, layout->shape, NULL, NULL, 0,
                                                 NULL);
}

static bool is_host_memory(const struct operand *operand)
{
    return !operand->device || operand->device->ordinal < 0;
}

/* Whether an operand and out have memory in common. */
static bool overlap(const struct operand *in, const struct operand *out)
{
    npy_intp low[2], high[2];

    if (is_host_memory(in) != is_host_memory(out) || !in->size || !out->size)
        return false;
    layout_extent(&in->layout, dtype_bytes(in->dtype), &low[0], &high[0]);
    layout_extent(&out->layout, dtype_bytes(out->dtype), &low[1], &high[1]);
    return in->data + low[0] < out->data + high[1] && out->data + low[1] < in->data + high[0];
}

static bool overlaps(const struct call *call)
{
    bool any = false;

    for (int i = 0; i < call->inputs; i++)
        any = any || overlap(&call->in[i], &call->out);
    return any;
}

/* With the GIL, before anything is launched. A result that is made in parts must not be written over what is still
 * to be read: it lands in memory of its own first. */
static bool prepare(struct call *call)
{
    npy_intp step = dtype_bytes(call->out.dtype);
    struct runs runs;
    struct layout there;
    npy_intp first;
    const bool parts = is_cut(&call->cuts[0]) || is_cut(&call->cuts[1]);

    for (int i = 0; i < call->inputs; i++)
        if (!operand_unchanged(&call->in[i]))
            return false;
    if (!operand_unchanged(&call->out))
        return false;
    if (call->out.device || (!(parts && call->overlapping) &&
                             layout_travel(&call->made, (int)step, NULL, false, &runs, &there, &first)))
        return true;
    call->landing = numpy_like(call->out.descr, &call->out.layout);
    if (!call->landing)
        return false;
    call->out.data = PyArray_BYTES(call->landing);
    for (int d = call->made.ndim - 1; d >= 0; d--) {
        call->made.strides[d] = step;
        step *= call->made.shape[d];
    }
    return true;
}

static bool mark(struct call *call, enum stage stage)
{
    return !current_timing() ||
           call->device->type->mark(call->device, call->stream, &call->stages[stage], &call->failure);
}

void *call_allocate(struct call *call, size_t bytes)
{
    void **memory = &call->temporaries[call->temporary_count];

    if (!device_allocate(call->device, bytes, call->stream, memory, &call->failure))
        return NULL;
    call->temporary_count++;
    return *memory;
}

static void release_temporaries(struct call *call)
{
    while (call->temporary_count)
        device_release(call->device, call->temporaries[--call->temporary_count], call->stream);
}

/* Where the elements of a contiguous array lie. */
static struct convert_operand contiguous_side(void *data, enum dtype dtype, const struct layout *like)
{
    struct convert_operand side = {.data = data, .dtype = dtype, .aligned = true};
    int64_t step = dtype_bytes(dtype);

    for (int d = like->ndim - 1; d >= 0; d--) {
        side.strides[d] = step;
        step *= like->shape[d];
    }
    return side;
}

static struct convert_operand strided_side(void *data, enum dtype dtype, const struct layout *layout, bool swapped)
{
    const int element = dtype_bytes(dtype);
    struct convert_operand side = {.data = data, .dtype = dtype, .swapped = swapped};

    side.aligned = (uintptr_t)data % (uintptr_t)element == 0;
    for (int d = 0; d < layout->ndim; d++) {
        side.strides[d] = layout->strides[d];
        side.aligned = side.aligned && layout->strides[d] % element == 0;
    }
    return side;
}

/* Launches `convert` for elements of `shape`, in as few dimensions as can be. */
static bool launch_convert(struct call *call, const struct convert_operand *x, const struct convert_operand *out,
                           const struct layout *shape)
{
    struct convert_args args = {.x = *x, .out = *out, .size = layout_size(shape)};
    npy_intp lengths[NPY_MAXDIMS];

    if (x->dtype == out->dtype && x->swapped && out->swapped)
        args.x.swapped = args.out.swapped = false;
    memcpy(lengths, shape->shape, sizeof lengths);
    args.ndim = merge_dimensions(shape->ndim, lengths, args.x.strides, args.out.strides);
    for (int d = 0; d < args.ndim; d++)
        args.shape[d] = lengths[d];
    return call_launch(call, find_row(OP_convert, "strided"), &args);
}

/* The operands of a part on their way to the device. */
struct way {
    struct layout there[MAX_INPUTS]; /* how they lie on the device, where `memory` has element 0, …, 0 */
    struct transfer *uploads[MAX_INPUTS];
};

/* Memory for an operand that comes from the host. */
struct box {
    void *memory; /* NULL: to be taken */
    size_t bytes;
    device_event free; /* when it may be written; NULL: as the stream has it */
};

/* Sends an operand on its way to the device, if it is not there. */
static bool send_operand(struct call *part, struct call *keeper, struct way *way, int i, const struct box *box)
{
    const struct operand *in = &part->in[i];
    const int element = dtype_bytes(in->dtype);
    void *memory = box ? box->memory : NULL;
    struct runs runs;
    npy_intp first;

    way->there[i] = part->as[i];
    part->memory[i] = in->data;
    if (in->device)
        return true;
    (void)layout_travel(&part->as[i], element, in->data, true, &runs, &way->there[i], &first);
    if (memory && runs_bytes(&runs) > box->bytes) /* with gaps, which others left out */
        (void)layout_travel(&part->as[i], element, in->data, false, &runs, &way->there[i], &first);
    if (!memory && !(memory = call_allocate(keeper, runs_bytes(&runs)))) {
        part->failure = keeper->failure;
        return false;
    }
    part->memory[i] = (char *)memory + first;
    return part->device->type->copy_in(part->device, memory, &runs, box ? box->free : NULL, part->stream,
                                       &way->uploads[i], &part->failure);
}

/* What comes on the stream waits for the operands; the host's memory is not needed any more. */
static bool await_operands(struct call *part, struct way *way)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    for (int i = 0; i < part->inputs; i++) {
        struct failure failure = {0};

        if (!way->uploads[i])
            continue;
        if (!part->device->type->copy_in_end(part->device, way->uploads[i], part->stream,
                                             current_timing() ? &part->up[i] : NULL, &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        way->uploads[i] = NULL;
    }
    return ok;
}

/* Whether the bytes of an operand have to be turned round. */
static bool reads_swapped(const struct call *call, const struct operand *in)
{
    return in->swapped && !call->bytes_only;
}

static bool is_aligned(const void *memory, enum dtype dtype)
{
    return (uintptr_t)memory % (uintptr_t)dtype_bytes(dtype) == 0;
}

/* One operand in the order and the dtype that are wanted, from where the device has it. */
static bool arrange(struct call *part, struct call *keeper, int i, const struct layout *there)
{
    const struct operand *in = &part->in[i];
    const bool swapped = reads_swapped(part, in);
    struct convert_operand x, to;
    void *memory;

    if (part->as_it_lies) {
        part->lies = strided_side(part->memory[i], in->dtype, there, in->swapped);
        return true;
    }
    part->as[i].ndim = there->ndim;
    memcpy(part->as[i].strides, there->strides, sizeof there->strides);
    if (in->dtype == part->dtype[i] && !swapped && is_aligned(part->memory[i], in->dtype) &&
        (layout_is_contiguous(there, dtype_bytes(in->dtype)) ||
         (part->takes && part->takes(there, part->takes_context))))
        return true;
    x = strided_side(part->memory[i], in->dtype, there, swapped);
    memory = call_allocate(keeper, bytes_of(layout_size(there), part->dtype[i]));
    if (!memory) {
        part->failure = keeper->failure;
        return false;
    }
    to = contiguous_side(memory, part->dtype[i], there);
    memcpy(part->as[i].strides, to.strides, (size_t)there->ndim * sizeof *to.strides);
    part->memory[i] = memory;
    return launch_convert(part, &x, &to, there);
}

/* Whether the kernel can write its result where it belongs. */
static bool writes_through(const struct call *call)
{
    return call->out.device && call->result == call->out.dtype && is_aligned(call->out.data, call->result) &&
           call->out.swapped == (call->bytes_only && call->in[0].swapped) &&
           (call->strided_out || layout_is_contiguous(&call->made, dtype_bytes(call->result))) &&
           (!call->overlapping || call->in_place);
}

static bool make_room(struct call *part, struct call *keeper)
{
    if (part->as_it_lies)
        return true;
    if (writes_through(part))
        part->out_memory = part->out.data;
    else
        part->out_memory = call_allocate(keeper, bytes_of(layout_size(&part->made), part->result));
    if (keeper->failure.kind == FAILURE_NONE && part->scratch_bytes)
        part->scratch = call_allocate(keeper, part->scratch_bytes);
    part->failure = keeper->failure;
    return part->failure.kind == FAILURE_NONE;
}

void call_count_launch(void)
{
    atomic_fetch_add(&launches, 1);
}

bool call_launch(struct call *call, const struct kernel_row *row, const void *args)
{
    if (is_rehearsal())
        rehearsal_note(row, &call->kernel, args);
    else
        call_count_launch();
    if (call->note)
        plan_note_launch(call->note, row, args);
    const bool ok = call->device->type->launch(call->device, row, args, call->stream, &call->failure);

    call->ran = call->ran || ok || call->failure.ran;
    return ok;
}

/* To be said once a kernel was launched that writes to `memory`, whether or not it has come to its end. */
static void note_writing(struct call *part, const void *memory)
{
    part->touched = part->touched || (part->ran && part->out.device && memory == part->out.data);
}

/* ---- after ---- */

/* What is to be delivered, where it lies on the device. */
static bool find_made(struct call *part, struct convert_operand *made)
{
    struct convert_operand x = part->lies;

    if (!part->as_it_lies) {
        *made = contiguous_side(part->out_memory, part->result, &part->made);
        made->swapped = part->bytes_only && part->in[0].swapped;
        return true;
    }
    *made = x;
    if (part->result == part->out.dtype && !part->overlapping)
        return true;
    /* it goes through memory of its own */
    part->out_memory = call_allocate(part, bytes_of(layout_size(&part->made), part->result));
    *made = contiguous_side(part->out_memory, part->result, &part->made);
    return part->out_memory && launch_convert(part, &x, made, &part->made);
}

/* What the kernel has made, brought to where it belongs, or on its way there. */
static bool deliver(struct call *part)
{
    const int element = dtype_bytes(part->out.dtype);
    struct convert_operand made, to;
    struct layout there = part->made;
    struct runs runs;
    npy_intp first = 0;
    char *memory = part->out.data;
    bool ok;

    if (part->out.device && part->out_memory == part->out.data)
        return mark(part, COMPUTED);
    if (!find_made(part, &made))
        return false;
    if (!part->out.device) {
        (void)layout_travel(&part->made, element, part->out.data, false, &runs, &there, &first);
        memory = part->out_memory;
    }
    if (part->as_it_lies || part->out.device || made.dtype != part->out.dtype ||
        made.swapped != part->out.swapped || !layout_is_contiguous(&there, element)) {
        if (!part->out.device &&
            !(memory = call_allocate(part, bytes_of(layout_size(&part->made), part->out.dtype))))
            return false;
        to = strided_side(memory + first, part->out.dtype, &there, part->out.swapped);
        part->ran = false;
        ok = launch_convert(part, &made, &to, &there);
        note_writing(part, memory);
        if (!ok)
            return false;
    }
    if (!mark(part, COMPUTED))
        return false;
    if (part->out.device)
        return true;
    part->touched = true;
    part->delivered =
        part->device->type->copy_out(part->device, &runs, memory, part->stream, &part->download, &part->failure);
    return part->delivered && mark(part, FETCHED);
}

static void add_span(double *seconds, double *until, const struct interval *span)
{
    const double from = span->from > *until ? span->from : *until;

    if (span->to > from) {
        *seconds += span->to - from;
        *until = span->to;
    }
}

static double seconds_between(struct call *call, device_event earlier, device_event later)
{
    struct failure ignored = {0};
    double seconds = 0;

    if (!earlier || !later ||
        !call->device->type->seconds_between(call->device, earlier, later, &seconds, &ignored))
        return 0;
    return seconds;
}

static double stage_seconds(struct call *part, enum stage stage)
{
    return seconds_between(part, part->stages[stage], part->stages[stage + 1]);
}

/* How long a part was computed, but for the time that it shares with those before it. `before` has the end of
 * them, and of this one from then on. */
static double kernel_seconds(struct call *part, device_event *before)
{
    const double seconds = stage_seconds(part, BEGUN);
    const double since = *before ? seconds_between(part, *before, part->stages[COMPUTED]) : seconds;

    if (since < 0)
        return 0;
    part->device->type->drop(part->device, *before);
    *before = part->stages[COMPUTED];
    part->stages[COMPUTED] = NULL;
    return since < seconds ? since : seconds;
}

/* A copy that took a way beside the stream has told its own time. `before`: of the parts of one call; else NULL.
 */
static void add_times(struct call *part, device_event *before)
{
    struct timing *timing = current_timing();
    bool beside = false;

    if (!timing)
        return;
    for (int i = 0; i < part->inputs; i++) {
        beside = beside || part->up[i].to > 0;
        add_span(&timing->upload, &timing->uploaded, &part->up[i]);
    }
    if (!beside)
        timing->upload += stage_seconds(part, STARTED);
    if (part->down.to > 0)
        add_span(&timing->download, &timing->downloaded, &part->down);
    else
        timing->download += stage_seconds(part, COMPUTED);
    timing->kernel += before ? kernel_seconds(part, before) : stage_seconds(part, BEGUN);
    for (int i = 0; i < STAGES; i++)
        if (part->stages[i])
            part->device->type->drop(part->device, part->stages[i]);
    memset(part->stages, 0, sizeof part->stages);
}

/* Waits for what is on its way to the host, and gives the memory back. False where something failed. */
static bool end_part(struct call *part, device_event *before)
{
    bool ok = part->failure.kind == FAILURE_NONE;

    if (part->delivered && !part->out.device) {
        struct failure failure = {0};

        if (!part->device->type->copy_out_end(part->device, part->download, current_timing() ? &part->down : NULL,
                                              &failure) &&
            ok) {
            part->failure = failure;
            ok = false;
        }
        part->delivered = false;
    }
    release_temporaries(part);
    add_times(part, before);
    return ok;
}

/* ---- one part, and all of them ---- */

/* `keeper` has the memory of what the next part needs too: of the operands that it sees all of, and of a result
 * that the parts make together. `first` are those that bring it. */
static bool begin_part(struct call *part, struct call *keeper, struct way *way, bool first,
                       const struct box *boxes)
{
    bool ok = mark(part, STARTED);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (is_held(part, i))
            ok = !first || send_operand(part, keeper, way, i, NULL);
        else
            ok = send_operand(part, part, way, i, boxes ? &boxes[i] : NULL);
    }
    return ok && mark(part, SENT);
}

/* The memory of a result that the parts made together: on its way to the host it is the last part's. */
static void hand_on(struct call *keeper, struct call *part)
{
    while (keeper->temporary_count)
        part->temporaries[part->temporary_count++] = keeper->temporaries[--keeper->temporary_count];
}

static bool finish_part(struct call *part, struct call *keeper, struct way *way, bool first, call_launcher launch,
                        void *context)
{
    bool ok = await_operands(part, way) && mark(part, BEGUN);

    for (int i = 0; ok && i < part->inputs; i++) {
        if (!is_held(part, i)) {
            ok = arrange(part, part, i, &way->there[i]);
        } else if (first) {
            ok = arrange(part, keeper, i, &way->there[i]);
            keeper->memory[i] = part->memory[i];
        } else {
            part->memory[i] = keeper->memory[i];
        }
    }
    if (first) /* what stands on the stream until here is every part's */
        ok = ok && part->device->type->follow(part->device, part->beside, part->stream, &part->failure);
    if (first || !is_folded(part)) {
        ok = ok && make_room(part, is_folded(part) ? keeper : part);
        keeper->out_memory = part->out_memory;
        keeper->scratch = part->scratch;
    } else {
        part->out_memory = keeper->out_memory;
        part->scratch = keeper->scratch;
    }
    part->ran = part->delivered = false;
    ok = ok && (!launch || launch(part, context));
    note_writing(part, part->out_memory);
    if (is_folded(part) && !is_last(part))
        return ok && mark(part, COMPUTED);
    if (is_folded(part))
        hand_on(keeper, part);
    return ok && deliver(part);
}

/* The memory of a new result on the host is brought in while the kernel works: before, that would take the host's
 * memory's time from the operands. */
static void expect_result(struct call *call)
{
    if (call->fresh && !call->coming && !call->as_it_lies && !call->out.device && call->device->type->expect)
        call->device->type->expect(call->device, call->out.data, bytes_of(call->out.size, call->out.dtype),
                                   &call->coming);
}

static void run_whole(struct call *call, call_launcher launch, void *context)
{
    struct way way = {.uploads = {NULL, NULL}};

    for (int loop = 0; loop < 2; loop++) {
        call->at[loop] = 0;
        call->taken[loop] = call->cuts[loop].length;
    }
    if (begin_part(call, call, &way, true, NULL) && finish_part(call, call, &way, true, launch, context))
        expect_result(call);
    (void)await_operands(call, &way);
    (void)end_part(call, NULL);
}

/* How many parts are on their way at once. */
enum { DEPTH = 3 };

struct slot {
    struct call part;
    struct way way;
    struct box boxes[MAX_INPUTS];
    device_event computed; /* the boxes are free again */
    bool busy;
};

struct line {
    struct slot slots[DEPTH];
    int next; /* the slot whose part has been on its way longest */
    struct call keeper;
    device_event computed; /* the last part that was timed */
};

/* Memory for the operands of a slot's parts, of which the first has most. */
static bool make_boxes(struct call *call, struct slot *slot)
{
    for (int i = 0; i < call->inputs; i++) {
        const struct operand *in = &slot->part.in[i];
        struct box *box = &slot->boxes[i];
        struct runs runs;
        struct layout there;
        npy_intp first;

        if (is_held(call, i) || in->device || box->memory)
            continue;
        (void)layout_travel(&slot->part.as[i], dtype_bytes(in->dtype), in->data, true, &runs, &there, &first);
        box->bytes = runs_bytes(&runs);
        box->memory = call_allocate(call, box->bytes);
        if (!box->memory)
            return false;
    }
    if (!slot->computed && !call->device->type->mark(call->device, call->stream, &slot->computed, &call->failure))
        return false;
    for (int i = 0; i < call->inputs; i++)
        slot->boxes[i].free = slot->computed;
    return true;
}

/* Waits for the part that is in a slot. False where it failed, which is the call's failure then. */
static bool end_slot(struct call *call, struct line *line, struct slot *slot)
{
    bool ok = true;

    if (slot->busy) {
        slot->busy = false;
        ok = await_operands(&slot->part, &slot->way);
        ok = end_part(&slot->part, &line->computed) && ok;
        call->touched = call->touched || slot->part.touched;
        if (!ok && call->failure.kind == FAILURE_NONE)
            call->failure = slot->part.failure;
    }
    return ok;
}

/* A part takes a slot of the line, once the part that was there before is done, and is on its way to the device;
 * to be computed on the stream. */
static bool begin_slot(struct call *call, struct line *line, struct slot *slot, const npy_intp at[2],
                       device_stream stream)
{
    if (!end_slot(call, line, slot))
        return false;
    slot->part = *call;
    slot->part.stream = stream;
    slot->part.temporary_count = 0;
    for (int loop = 0; loop < 2; loop++)
        cut_part(&slot->part, loop, at[loop]);
    if (!make_boxes(call, slot))
        return false;
    slot->busy = true;
    return begin_part(&slot->part, &line->keeper, &slot->way, at[1] == 0, slot->boxes);
}

static bool finish_slot(struct call *call, struct line *line, struct slot *slot, call_launcher launch,
                        void *context)
{
    const struct device_type *type = call->device->type;
    struct call *part = &slot->part;

    if (!finish_part(part, &line->keeper, &slot->way, part->at[1] == 0, launch, context))
        return false;
    expect_result(call);
    type->drop(call->device, slot->computed);
    slot->computed = NULL;
    return type->mark(call->device, part->stream, &slot->computed, &part->failure);
}

/* A number that is another one ten times a second. */
static int64_t tenths(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 10 + now.tv_nsec / 100000000;
}

static bool interrupted(struct call *call, int64_t *asked)
{
    const int64_t now = tenths();

    if (now == *asked)
        return false;
    *asked = now;
    if (smemkit_interrupted())
        failure_set(&call->failure, FAILURE_INTERRUPTED, "interrupted");
    return call->failure.kind != FAILURE_NONE;
}

/* The inner loop: a part is sent before the one ahead of it is worked on. The last blocks of a part leave much of
 * the device to the next one, where that is on the other stream. */
static bool run_inner(struct call *call, struct line *line, npy_intp outer, call_launcher launch, void *context)
{
    const struct cut *cut = &call->cuts[1];
    const npy_intp step = is_cut(cut) ? cut->step : 1, length = is_cut(cut) ? cut->length : 1;
    npy_intp at[2] = {outer, 0};
    int64_t asked = tenths();
    bool odd = false;

    /* an outer step's first part takes the largest boxes, as that of the first step did; parts end in order */
    for (; line->next != 0; line->next = (line->next + 1) % DEPTH)
        if (!end_slot(call, line, &line->slots[line->next]))
            return false;
    if (!begin_slot(call, line, &line->slots[0], at, call->stream))
        return false;
    while (at[1] < length) {
        struct slot *slot = &line->slots[line->next];

        at[1] += step;
        line->next = (line->next + 1) % DEPTH;
        odd = !odd;
        if ((at[1] < length &&
             !begin_slot(call, line, &line->slots[line->next], at, odd ? call->beside : call->stream)) ||
            !finish_slot(call, line, slot, launch, context) || interrupted(call, &asked))
            return false;
    }
    return true;
}

/* What stands on the call's stream comes after all parts again. */
static bool rejoin(struct call *call)
{
    struct failure failure = {0};
    const bool ok = call->device->type->follow(call->device, call->stream, call->beside, &failure);

    if (!ok && call->failure.kind == FAILURE_NONE)
        call->failure = failure;
    if (!ok) /* what the parts on the other stream use is given back next */
        (void)call->device->type->wait(call->device, call->beside, &failure);
    return ok;
}

/* The outer loop. What the parts of the inner one have in common is given back after each step of it. */
static bool run_outer(struct call *call, struct line *line, call_launcher launch, void *context)
{
    const struct cut *cut = &call->cuts[0];
    const npy_intp step = is_cut(cut) ? cut->step : 1, length = is_cut(cut) ? cut->length : 1;

    for (npy_intp at = 0; at < length; at += step) {
        if (!run_inner(call, line, at, launch, context) || !rejoin(call))
            return false;
        release_temporaries(&line->keeper);
    }
    return true;
}

static void run_parts(struct call *call, call_launcher launch, void *context)
{
    struct line *line = calloc(1, sizeof *line);
    device_stream beside = NULL;
    bool ok = false;

    if (!line) {
        failure_set(&call->failure, FAILURE_MEMORY, "out of memory on the host");
    } else {
        line->keeper.device = call->device;
        line->keeper.stream = call->stream;
        if (call->apart && call->device->type->beside)
            beside = call->device->type->beside(call->device);
        if (beside)
            call->beside = beside;
        ok = run_outer(call, line, launch, context);
        for (int i = 0; i < DEPTH; i++) /* in any case: what is on its way uses the host's memory */
            if (line->slots[i].busy && !ok && call->failure.kind == FAILURE_NONE)
                call->failure = line->slots[i].part.failure;
        for (int i = 0; i < DEPTH; i++) {
            struct slot *slot = &line->slots[(line->next + i) % DEPTH];

            ok = end_slot(call, line, slot) && ok;
            call->device->type->drop(call->device, slot->computed);
        }
        call->device->type->drop(call->device, line->computed);
        ok = rejoin(call) && ok;
        release_temporaries(&line->keeper);
    }
    release_temporaries(call);
    free(line);
}

/* The device's memory is used in the order of the streams that it belongs to. */
static bool follow_homes(struct call *call, bool before)
{
    bool ok = true;

    for (int i = 0; i <= call->inputs; i++) {
        const struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->home != call->stream)
            ok = ok && call->device->type->follow(call->device, before ? call->stream : operand->home,
                                                  before ? operand->home : call->stream, &call->failure);
    }
    return ok;
}

/* The memory of the arrays is used in the order of their own streams again. Where that cannot be said to the
 * device, it is waited for: they may be given back next. */
static void return_to_homes(struct call *call)
{
    struct failure unheard = {0};

    if (!follow_homes(call, false))
        (void)call->device->type->wait(call->device, call->stream, &unheard);
}

static void run(struct call *call, call_launcher launch, void *context, bool own_out)
{
    struct device *device = call->device;

    call->device = rehearsal_device(device);
    call->beside = call->stream;
    call->fresh = !own_out;
    if (follow_homes(call, true)) {
        if (is_cut(&call->cuts[0]) || is_cut(&call->cuts[1]))
            run_parts(call, launch, context);
        else
            run_whole(call, launch, context);
        return_to_homes(call);
    }
    if (call->coming) {
        struct failure unheard = {0};

        (void)call->device->type->copy_out_end(call->device, call->coming, NULL, &unheard);
    }
    call->device = device;
}

/* ---- the whole call ---- */

static void drop(struct call *call)
{
    for (int i = 0; i < call->inputs; i++)
        drop_operand(&call->in[i]);
    Py_CLEAR(call->landing);
    drop_operand(&call->out);
}

PyObject *call_refused(struct call *call)
{
    drop(call);
    return NULL;
}

/* The host waits for what comes from it and goes to it, and no graph can. */
static bool check_capture(const struct module_state *state, const struct call *call)
{
    return !touches_host(call) ||
           refuse_capture(state, call->device, call->stream,
                          "nothing can come from the host or go there; expected arrays on the device");
}

/* The owners of other libraries' arrays, who cannot know of the work on them. */
static void retire_owners(struct call *call)
{
    PyObject *owners[MAX_RETIRED];
    int count = 0;

    _Static_assert(MAX_RETIRED == MAX_INPUTS + 1, "one for each operand, and one for out");
    for (int i = 0; i <= call->inputs; i++) {
        struct operand *operand = i < call->inputs ? &call->in[i] : &call->out;

        if (operand->device && operand->retire && operand->owner) {
            owners[count++] = Py_NewRef(operand->owner);
            operand->retire = false;
        }
    }
    if (count)
        foreign_retire(call->device, call->stream, owners, count);
}

static const char IN_PART[] = "out has been written in part";

/* Adds it to what a signal's handler has raised. */
static void add_in_part(void)
{
    PyObject *type, *error, *traceback, *args, *done = NULL;

    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    args = error ? PyObject_GetAttrString(error, "args") : NULL;
    if (args && PyTuple_Check(args) && !PyTuple_GET_SIZE(args)) {
        Py_SETREF(args, Py_BuildValue("(s)", IN_PART));
        if (args)
            (void)PyObject_SetAttrString(error, "args", args);
    } else if (args) {
        done = PyObject_CallMethod(error, "add_note", "s", IN_PART); /* which CPython 3.10 has not */
    }
    PyErr_Clear();
    Py_XDECREF(done);
    Py_XDECREF(args);
    PyErr_Restore(type, error, traceback);
}

void raise_failure_of(const struct module_state *state, struct failure *failure, bool touched)
{
    const bool raised = PyErr_Occurred() || failure->kind == FAILURE_INTERRUPTED;

    if (touched && !raised) {
        const size_t length = strlen(failure->text);

        snprintf(failure->text + length, sizeof failure->text - length, "; %s", IN_PART);
    }
    raise_failure(state, failure);
    if (touched && raised)
        add_in_part();
}

static PyObject *result_of(const struct module_state *state, struct call *call, bool own_out)
{
    PyObject *result;

    if (call->failure.kind != FAILURE_NONE) {
        raise_failure_of(state, &call->failure, call->touched && own_out && !call->landing);
        return call_refused(call);
    }
    if (call->landing && !is_rehearsal() && PyArray_CopyInto((PyArrayObject *)call->out.owner, call->landing) < 0)
        return call_refused(call);
    result = Py_NewRef(call->out.given ? call->out.given : call->out.owner);
    if (!call->out.device && !own_out && !call->keeps_array)
        result = PyArray_Return((PyArrayObject *)result);
    drop(call);
    return result;
}

PyObject *call_run(const struct module_state *state, struct call *call, call_launcher launch, void *context,
                   bool own_out)
{
    if (call->out.size) {
        call->overlapping = overlaps(call);
        call_choose_parts(call);
        if (!check_capture(state, call) || !prepare(call))
            return call_refused(call);
        Py_BEGIN_ALLOW_THREADS
        run(call, launch, context, own_out);
        Py_END_ALLOW_THREADS
        retire_owners(call);
    }
    return result_of(state, call, own_out);
}

/* ---- copies and conversions, which need no kernel but `convert` ---- */

/* `as` and `made`, in as few dimensions as both have in common. */
static void merge_both(struct call *call)
{
    struct layout *as = &call->as[0], *made = &call->made;

    *made = call->out.layout;
    as->ndim = merge_dimensions(as->ndim, as->shape, as->strides, made->strides);
    made->ndim = as->ndim;
    memcpy(made->shape, as->shape, sizeof made->shape);
}

PyObject *call_run_convert(const struct module_state *state, struct call *call, bool own_out)
{
    struct operand *in = &call->in[0];

    if (call->out.size) {
        npy_intp bytes = call->out.size * dtype_bytes(in->dtype), part = call_part_bytes(call, bytes);

        merge_both(call);
        call->as_it_lies = true;
        if (call->made.ndim)
            call->cuts[1] = (struct cut){.length = call->made.shape[0],
                                         .step = step_of(part, bytes / call->made.shape[0], 1),
                                         .in = {0, -1}};
    }
    return call_run(state, call, NULL, NULL, own_out);
}

/* Only bytes are moved, without a kernel. */
static void run_copy(struct call *call)
{
    const struct operand *in = &call->in[0], *out = &call->out;
    const size_t bytes = bytes_of(out->size, out->dtype);
    const struct device_type *type = call->device->type;
    struct runs runs = {.data = in->device ? out->data : in->data, .run = bytes};
    struct interval *interval = current_timing() ? (out->device ? &call->up[0] : &call->down) : NULL;
    struct transfer *transfer;

    if (!follow_homes(call, true) || !mark(call, STARTED))
        return;
    call->touched = true;
    if (in->device && out->device) {
        type->copy(call->device, out->data, in->data, bytes, call->stream, &call->failure);
    } else if (out->device) {
        if (type->copy_in(call->device, out->data, &runs, NULL, call->stream, &transfer, &call->failure) &&
            transfer)
            type->copy_in_end(call->device, transfer, call->stream, interval, &call->failure);
        (void)(call->failure.kind == FAILURE_NONE && mark(call, SENT));
    } else if (mark(call, COMPUTED) &&
               type->copy_out(call->device, &runs, in->data, call->stream, &transfer, &call->failure)) {
        type->copy_out_end(call->device, transfer, interval, &call->failure);
        (void)(call->failure.kind == FAILURE_NONE && mark(call, FETCHED));
    }
    return_to_homes(call);
    add_times(call, NULL);
}

PyObject *call_run_copy(const struct module_state *state, struct call *call, bool own_out)
{
    const struct operand *in = &call->in[0], *out = &call->out;
    const int element = dtype_bytes(out->dtype);

    if (in->dtype != out->dtype || in->swapped != out->swapped || !layout_is_contiguous(&call->as[0], element) ||
        !layout_is_contiguous(&out->layout, element) || overlap(in, out))
        return call_run_convert(state, call, own_out);
    if (out->size) {
        if (!check_capture(state, call) || !operand_unchanged(in) || !operand_unchanged(out))
            return call_refused(call);
        Py_BEGIN_ALLOW_THREADS
        if (!is_rehearsal())
            run_copy(call);
        Py_END_ALLOW_THREADS
        retire_owners(call);
    }
    return result_of(state, call, own_out);
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
    PyArrayObject *scalar = as_out(call, value), *target = NULL;
    struct call copy = {.device = call->device, .stream = call->stream, .inputs = 1};
    PyObject *result = NULL;

    if (!scalar)
        return call_refused(call);
    if (!call->out.device)
        target = (PyArrayObject *)Py_NewRef(call->out.owner);
    else
        target = numpy_like(call->out.descr, &call->out.layout);
    if (target && (is_rehearsal() || PyArray_CopyInto(target, scalar) == 0)) {
        if (!call->out.device)
            result = result_of(state, call, own_out);
        else if (read_operand(state, (PyObject *)target, "value", Py_None, &copy.in[0])) {
            copy.as[0] = copy.in[0].layout;
            copy.result = copy.in[0].dtype;
            copy.out = call->out; /* and its references */
            memset(&call->out, 0, sizeof call->out);
            result = call_run_copy(state, &copy, own_out);
        }
    }
    Py_DECREF(scalar);
    Py_XDECREF(target);
    call_refused(call);
    return result;
}
