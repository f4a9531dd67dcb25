/* A third implementation of the interface in device.h, besides the GPUs and the CPU: memory is fictitious, copies
 * do nothing, launches are recorded. So plan() reports what a call would do, decided by the code that does it. */
#include "recorder.h"

#include <stdlib.h>

#include "base/failure.h"
#include "base/strided_copy.h"
#include "kernels.h"

static bool allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    struct recorder *recorder = (struct recorder *)device;
    const uintptr_t page = 4096;

    (void)stream, (void)failure;
    recorder->allocated += page; /* distinct addresses: equal ones would look like an in-place call */
    *memory = (void *)recorder->allocated;
    recorder->allocated += bytes / page * page;
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

/* `tile` or `block_size`, and `pad`, of a launch of a kernel that has them, 0 otherwise; and the dtype. */
static void read_sizes(const struct kernel_row *row, const void *args, struct recorded_launch *launch)
{
    switch (row->op) {
    case OP_matmul:
        launch->size = ((const struct matmul_args *)args)->tile;
        launch->dtypes = ((const struct matmul_args *)args)->dtype;
        if (((const struct matmul_args *)args)->dtype == FLOAT32)
            launch->precision = row->traits & TF32 ? "high" : "highest";
        break;
    case OP_reduce:
        launch->size = ((const struct reduce_args *)args)->block_size;
        launch->dtypes = ((const struct reduce_args *)args)->dtype;
        break;
    case OP_transpose:
        launch->size = ((const struct transpose_args *)args)->tile;
        launch->pad = ((const struct transpose_args *)args)->pad;
        break;
    default:
        break;
    }
}

/* Space for one more launch; NULL if out of memory. */
static struct recorded_launch *next_launch(struct recorder *recorder)
{
    if (recorder->count == recorder->capacity) {
        const size_t capacity = recorder->capacity ? 2 * recorder->capacity : 8;
        struct recorded_launch *launches = realloc(recorder->launches, capacity * sizeof *launches);

        if (!launches)
            return NULL;
        recorder->launches = launches;
        recorder->capacity = capacity;
    }
    return &recorder->launches[recorder->count++];
}

static bool launch(struct device *device, const struct kernel_row *row, const void *args, device_stream stream,
                   struct failure *failure)
{
    struct recorder *recorder = (struct recorder *)device;
    struct recorded_launch *last = recorder->count ? &recorder->launches[recorder->count - 1] : NULL;
    struct recorded_launch launch = {.row = row, .times = 1}, *next;

    (void)stream;
    read_sizes(row, args, &launch);
    if (last && last->row == row && last->size == launch.size && last->pad == launch.pad &&
        last->precision == launch.precision) {
        last->times++;
        return true;
    }
    next = next_launch(recorder);
    if (!next) {
        failure_set(failure, FAILURE_MEMORY, "out of memory on the host");
        return false;
    }
    *next = launch;
    return true;
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
    struct device *real = ((struct recorder *)device)->real;

    return real->type->available_bytes(real, enough);
}

/* Only what a call needs between reading its arguments and returning its result. */
static const struct device_type recorder_type = {
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

struct device *recorder_device(struct recorder *recorder, struct device *real)
{
    _Static_assert(offsetof(struct recorder, device) == 0, "the functions above cast one to the other");
    recorder->real = real;
    recorder->device = *real;
    recorder->device.type = &recorder_type;
    if (recorder->as) {
        recorder->device.capability = recorder->as->capability;
        recorder->device.multiprocessors = recorder->as->multiprocessors;
        recorder->device.l2_bytes = recorder->as->l2_bytes;
        recorder->device.ordinal = 0; /* a GPU, not the host */
    }
    return &recorder->device;
}

bool recorder_is_another(const struct device *device)
{
    return device->type == &recorder_type && ((const struct recorder *)device)->as;
}

const int64_t *recorder_thresholds(const struct device *device, enum op op)
{
    return recorder_is_another(device) ? ((const struct recorder *)device)->as->thresholds[op] : NULL;
}
