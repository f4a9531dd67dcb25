/* Dry runs: calls that do everything except allocate, copy and launch; they record their launches.
 *
 * The dry-run device is a third implementation of the interface in device.h, besides the GPUs and the CPU: its
 * memory is fictitious, copies do nothing, launches are recorded. So plan() reports what a call would do, decided
 * by the code that does it.
 */
#include "python/state.h"

#include <stdlib.h>

#include "array/stream.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "choice.h"
#include "device/device.h"
#include "dry_run.h"
#include "kernels.h"
#include "python/arguments.h"

struct launch_note {
    const struct kernel_row *row;
    int size, pad;
    const char *precision; /* of a float32 product; NULL for others */
    long long times;       /* consecutive launches */
};

struct dry_run {
    struct device device; /* with the name and ordinal of the real one */
    struct device *real;
    uintptr_t allocated; /* the last fictitious address */
    struct launch_note *notes;
    size_t count, capacity;
    bool out_of_memory;
};

static _Thread_local struct dry_run *current_dry_run; /* NULL: calls are executed */

bool is_dry_run(void)
{
    return current_dry_run != NULL;
}

/* ---- the device ---- */

static bool allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    struct dry_run *dry_run = (struct dry_run *)device;
    const uintptr_t page = 4096;

    (void)stream, (void)failure;
    dry_run->allocated += page; /* distinct addresses: equal ones would look like an in-place call */
    *memory = (void *)dry_run->allocated;
    dry_run->allocated += bytes / page * page;
    return true;
}

static void release(struct device *device, void *memory, device_stream stream)
{
    (void)device, (void)memory, (void)stream;
}

static bool upload_begin(struct device *device, void *to, const struct segments *from, device_event free,
                         device_stream stream, struct transfer **started, struct failure *failure)
{
    (void)device, (void)to, (void)from, (void)free, (void)stream, (void)failure;
    *started = NULL;
    return true;
}

static bool upload_end(struct device *device, struct transfer *transfer, device_stream stream,
                       struct interval *interval, struct failure *failure)
{
    (void)device, (void)transfer, (void)stream, (void)interval, (void)failure;
    return true;
}

static bool download_begin(struct device *device, const struct segments *to, const void *from,
                           device_stream stream, struct transfer **started, struct failure *failure)
{
    (void)device, (void)to, (void)from, (void)stream, (void)failure;
    *started = NULL;
    return true;
}

static bool download_end(struct device *device, struct transfer *transfer, struct interval *interval,
                         struct failure *failure)
{
    (void)device, (void)transfer, (void)interval, (void)failure;
    return true;
}

static bool copy(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                 struct failure *failure)
{
    (void)device, (void)to, (void)from, (void)bytes, (void)stream, (void)failure;
    return true;
}

static bool fill(struct device *device, void *to, int byte, size_t bytes, device_stream stream,
                 struct failure *failure)
{
    (void)device, (void)to, (void)byte, (void)bytes, (void)stream, (void)failure;
    return true;
}

static bool launch(struct device *device, const struct kernel_row *row, const void *args, device_stream stream,
                   struct failure *failure)
{
    (void)device, (void)row, (void)args, (void)stream, (void)failure;
    return true; /* call_launch has recorded it */
}

static bool stream_wait_stream(struct device *device, device_stream later, device_stream earlier,
                               struct failure *failure)
{
    (void)device, (void)later, (void)earlier, (void)failure;
    return true;
}

static bool record_new_event(struct device *device, device_stream stream, device_event *event,
                             struct failure *failure)
{
    (void)device, (void)stream, (void)failure;
    *event = NULL;
    return true;
}

static bool record_event(struct device *device, device_stream stream, device_event event, struct failure *failure)
{
    (void)device, (void)stream, (void)event, (void)failure;
    return true;
}

static void destroy_event(struct device *device, device_event event)
{
    (void)device, (void)event;
}

/* The real device's, because the division into parts depends on it. */
static size_t available_bytes(struct device *device, size_t enough)
{
    struct device *real = ((struct dry_run *)device)->real;

    return real->type->available_bytes(real, enough);
}

/* Only what a call needs between reading its arguments and returning its result. */
static const struct device_type dry_run_type = {
    .allocate = allocate,
    .release = release,
    .upload_begin = upload_begin,
    .upload_end = upload_end,
    .download_begin = download_begin,
    .download_end = download_end,
    .copy = copy,
    .fill = fill,
    .launch = launch,
    .stream_wait_stream = stream_wait_stream,
    .record_new_event = record_new_event,
    .record_event = record_event,
    .destroy_event = destroy_event,
    .available_bytes = available_bytes,
};

struct device *dry_run_device(struct device *real)
{
    _Static_assert(offsetof(struct dry_run, device) == 0, "free_memory() casts one to the other");
    if (!current_dry_run)
        return real;
    current_dry_run->real = real;
    current_dry_run->device = *real;
    current_dry_run->device.type = &dry_run_type;
    return &current_dry_run->device;
}

/* All matmul kernels compute float32 products in float32 or better. */
static const char *precision_of(const struct kernel_row *row, const void *args)
{
    return row->op == OP_matmul && ((const struct matmul_args *)args)->dtype == FLOAT32 ? "highest" : NULL;
}

void dry_run_add_launch(const struct kernel_row *row, const struct kernel_choice *choice, const void *args)
{
    struct dry_run *dry_run = current_dry_run;
    const bool chosen = row == choice->row;
    const struct launch_note note = {row, chosen ? choice->size : 0, chosen ? choice->pad : 0,
                                     precision_of(row, args), 1};
    struct launch_note *last = dry_run->count ? &dry_run->notes[dry_run->count - 1] : NULL;

    if (last && last->row == row && last->size == note.size && last->pad == note.pad &&
        last->precision == note.precision) {
        last->times++;
        return;
    }
    if (dry_run->count == dry_run->capacity) {
        const size_t capacity = dry_run->capacity ? 2 * dry_run->capacity : 8;
        struct launch_note *notes = realloc(dry_run->notes, capacity * sizeof *notes);

        if (!notes) {
            dry_run->out_of_memory = true;
            return;
        }
        dry_run->notes = notes;
        dry_run->capacity = capacity;
    }
    dry_run->notes[dry_run->count++] = note;
}

static PyObject *notes_list(const struct dry_run *dry_run)
{
    PyObject *list = PyList_New((Py_ssize_t)dry_run->count);

    for (size_t i = 0; list && i < dry_run->count; i++) {
        const struct launch_note *note = &dry_run->notes[i];
        PyObject *item = Py_BuildValue("(ssiizL)", op_names[note->row->op], note->row->name, note->size, note->pad,
                                       note->precision, note->times);

        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *core_dry_run(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct dry_run dry_run = {.count = 0}, *outer = current_dry_run;
    PyObject *done, *list = NULL;

    (void)module;
    if (!read_count("dry_run", count, 3))
        return NULL;
    current_dry_run = &dry_run;
    done = PyObject_Call(args[0], args[1], args[2]);
    current_dry_run = outer;
    if (done)
        list = dry_run.out_of_memory ? PyErr_NoMemory() : notes_list(&dry_run);
    Py_XDECREF(done);
    free(dry_run.notes);
    return list;
}
