/* Rehearsals: calls that go all the way to their launches and note them, on a device where nothing happens.
 *
 * That device is a third implementation of the interface in device.h, beside the GPUs and the CPU: it has memory
 * that is nowhere, copies that move nothing, launches that are written down. So what plan() tells is what a call
 * would do, decided by the code that does it.
 */
#include "smemkit.h"

#include <stdlib.h>

struct note {
    const struct kernel_row *row;
    int size, pad;
    const char *precision; /* of a product of float32; else NULL */
    long long times;       /* in a row */
};

struct rehearsal {
    struct device device; /* the other one's name and number */
    struct device *real;
    uintptr_t allocated; /* up to there */
    struct note *notes;
    size_t count, room;
    bool lacks_memory;
};

static _Thread_local struct rehearsal *rehearsing; /* NULL: what is called is done */

bool is_rehearsal(void)
{
    return rehearsing != NULL;
}

/* ---- the device ---- */

static bool allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    struct rehearsal *of = (struct rehearsal *)device;
    const uintptr_t page = 4096;

    (void)stream, (void)failure;
    of->allocated += page; /* no two of them at one place, which would be taken for work in place */
    *memory = (void *)of->allocated;
    of->allocated += bytes / page * page;
    return true;
}

static void release(struct device *device, void *memory, device_stream stream)
{
    (void)device, (void)memory, (void)stream;
}

static bool copy_in(struct device *device, void *to, const struct runs *from, device_event free,
                    device_stream stream, struct transfer **made, struct failure *failure)
{
    (void)device, (void)to, (void)from, (void)free, (void)stream, (void)failure;
    *made = NULL;
    return true;
}

static bool copy_in_end(struct device *device, struct transfer *transfer, device_stream stream,
                        struct interval *interval, struct failure *failure)
{
    (void)device, (void)transfer, (void)stream, (void)interval, (void)failure;
    return true;
}

static bool copy_out(struct device *device, const struct runs *to, const void *from, device_stream stream,
                     struct transfer **made, struct failure *failure)
{
    (void)device, (void)to, (void)from, (void)stream, (void)failure;
    *made = NULL;
    return true;
}

static bool copy_out_end(struct device *device, struct transfer *transfer, struct interval *interval,
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
    return true; /* call_launch has noted it */
}

static bool follow(struct device *device, device_stream later, device_stream earlier, struct failure *failure)
{
    (void)device, (void)later, (void)earlier, (void)failure;
    return true;
}

static bool mark(struct device *device, device_stream stream, device_event *event, struct failure *failure)
{
    (void)device, (void)stream, (void)failure;
    *event = NULL;
    return true;
}

static bool record(struct device *device, device_stream stream, device_event event, struct failure *failure)
{
    (void)device, (void)stream, (void)event, (void)failure;
    return true;
}

static void drop(struct device *device, device_event event)
{
    (void)device, (void)event;
}

/* As large as it is: what is done in parts depends on it. */
static size_t room(struct device *device, size_t enough)
{
    struct device *real = ((struct rehearsal *)device)->real;

    return real->type->room(real, enough);
}

/* What a call asks of its device between its arguments and its result, and no more. */
static const struct device_type nowhere = {
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_in_end = copy_in_end,
    .copy_out = copy_out,
    .copy_out_end = copy_out_end,
    .copy = copy,
    .fill = fill,
    .launch = launch,
    .follow = follow,
    .mark = mark,
    .record = record,
    .drop = drop,
    .room = room,
};

struct device *rehearsal_device(struct device *real)
{
    _Static_assert(offsetof(struct rehearsal, device) == 0, "room() goes back from one to the other");
    if (!rehearsing)
        return real;
    rehearsing->real = real;
    rehearsing->device = *real;
    rehearsing->device.type = &nowhere;
    return &rehearsing->device;
}

/* All kernels of matmul multiply and add float32 in float32 or more. */
static const char *precision_of(const struct kernel_row *row, const void *args)
{
    return row->op == OP_matmul && ((const struct matmul_args *)args)->dtype == FLOAT32 ? "highest" : NULL;
}

void rehearsal_note(const struct kernel_row *row, const struct kernel_choice *choice, const void *args)
{
    struct rehearsal *of = rehearsing;
    const bool chosen = row == choice->row;
    const struct note note = {row, chosen ? choice->size : 0, chosen ? choice->pad : 0, precision_of(row, args),
                              1};
    struct note *last = of->count ? &of->notes[of->count - 1] : NULL;

    if (last && last->row == row && last->size == note.size && last->pad == note.pad &&
        last->precision == note.precision) {
        last->times++;
        return;
    }
    if (of->count == of->room) {
        const size_t room = of->room ? 2 * of->room : 8;
        struct note *notes = realloc(of->notes, room * sizeof *notes);

        if (!notes) {
            of->lacks_memory = true;
            return;
        }
        of->notes = notes;
        of->room = room;
    }
    of->notes[of->count++] = note;
}

static PyObject *told(const struct rehearsal *of)
{
    PyObject *list = PyList_New((Py_ssize_t)of->count);

    for (size_t i = 0; list && i < of->count; i++) {
        const struct note *note = &of->notes[i];
        PyObject *item = Py_BuildValue("(ssiizL)", op_names[note->row->op], note->row->name, note->size, note->pad,
                                       note->precision, note->times);

        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *core_rehearse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct rehearsal rehearsal = {.count = 0}, *outer = rehearsing;
    PyObject *done, *list = NULL;

    (void)module;
    if (!read_count("rehearse", count, 3))
        return NULL;
    rehearsing = &rehearsal;
    done = PyObject_Call(args[0], args[1], args[2]);
    rehearsing = outer;
    if (done)
        list = rehearsal.lacks_memory ? PyErr_NoMemory() : told(&rehearsal);
    Py_XDECREF(done);
    free(rehearsal.notes);
    return list;
}
