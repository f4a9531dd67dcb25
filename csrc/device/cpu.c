/* The CPU device: implements device/device.h with the executor. Memory is allocated between guard pages; every
 * call is complete when it returns. */
#define _GNU_SOURCE
#include "device.h"
#include "launches.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/scope.h"
#include "executor/block.h"
#include "executor/executor.h"
#include "executor/memory.h"
#include "checker/trace.h"

enum { BYTES_PER_SIGNAL_CHECK = 32 << 20 }; /* a tenth of a second, if the memory is touched for the first time */

static bool cpu_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                         struct failure *failure)
{
    (void)device;
    (void)stream;
    *memory = memory_allocate(bytes);
    if (!*memory)
        failure_set(failure, FAILURE_MEMORY, "cpu: no memory for %zu bytes", bytes);
    return *memory != NULL;
}

static void cpu_release(struct device *device, void *memory, device_stream stream)
{
    (void)device;
    (void)stream;
    memory_release(memory);
}

/* A large copy checks for signals now and then, because gigabytes take seconds. */
static bool copy_segments(const struct segments *segments, char *dense, bool gather, struct failure *failure)
{
    const size_t bytes = segments_bytes(segments);

    for (size_t begin = 0, end; begin < bytes; begin = end) {
        end = bytes - begin > BYTES_PER_SIGNAL_CHECK ? begin + BYTES_PER_SIGNAL_CHECK : bytes;
        segments_copy(segments, begin, end, dense + begin, gather);
        if (end < bytes && smemkit_interrupted && smemkit_interrupted()) {
            failure_set(failure, FAILURE_INTERRUPTED, "interrupted");
            return false;
        }
    }
    return true;
}

static bool cpu_upload_begin(struct device *device, void *to, const struct segments *from, device_event free_,
                             device_stream stream, struct transfer **transfer, struct failure *failure)
{
    (void)device;
    (void)free_;
    (void)stream;
    *transfer = NULL;
    return copy_segments(from, to, true, failure);
}

static bool cpu_upload_end(struct device *device, struct transfer *transfer, device_stream stream,
                           struct interval *interval, struct failure *failure)
{
    (void)device;
    (void)transfer;
    (void)stream;
    (void)interval;
    (void)failure;
    return true;
}

static bool cpu_download_begin(struct device *device, const struct segments *to, const void *from,
                               device_stream stream, struct transfer **transfer, struct failure *failure)
{
    (void)device;
    (void)stream;
    *transfer = NULL;
    return copy_segments(to, (char *)from, false, failure);
}

static bool cpu_download_end(struct device *device, struct transfer *transfer, struct interval *span,
                             struct failure *failure)
{
    (void)device;
    (void)transfer;
    (void)span;
    (void)failure;
    return true;
}

/* Unlimited: Linux commits memory when it is first touched. */
static size_t cpu_available_bytes(struct device *device, size_t enough)
{
    (void)device;
    (void)enough;
    return SIZE_MAX;
}

static bool cpu_copy(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                     struct failure *failure)
{
    (void)device;
    (void)stream;
    (void)failure;
    memmove(to, from, bytes);
    return true;
}

static bool cpu_fill(struct device *device, void *to, int byte, size_t bytes, device_stream stream,
                     struct failure *failure)
{
    (void)device;
    (void)stream;
    (void)failure;
    memset(to, byte, bytes);
    return true;
}

/* A host rung runs as a launch of one thread, so that Ctrl-C ends it like a kernel, and its loops need no checks.
 */
struct host_rung {
    kernel_launcher run;
    const void *args;
    int error;
};

static void run_host_rung(void *closure)
{
    struct host_rung *rung = closure;

    rung->error = rung->run(rung->args, NULL);
}

static int launch_host_rung(const struct kernel_row *row, const void *args)
{
    struct host_rung rung = {.run = cpu_launchers[row->index], .args = args};
    const struct smemkit_launch launch = {
        .kernel = row->name, .grid = {1, 1, 1}, .block = {1, 1, 1}, .run = run_host_rung, .closure = &rung};
    const int error = smemkit_run(&launch);

    return error ? error : rung.error;
}

static bool cpu_launch(struct device *device, const struct kernel_row *row, const void *args, device_stream stream,
                       struct failure *failure)
{
    struct checking *check = current_scope()->checking;
    const kernel_launcher *launchers = check ? checked_launchers : cpu_launchers;
    int error;

    (void)device;
    (void)stream;
    launch_counted();
    if (check)
        check->all_blocks = check->all_blocks_rows && check->all_blocks_rows[row->index];
    if (!launchers[row->index]) {
        failure_set(failure, FAILURE_KERNEL, "kernel: '%s' of %s needs hardware that the CPU device does not have",
                    row->name, op_names[row->op]);
        return false;
    }
    smemkit_forget();
    error = row->needs == HOST && !check ? launch_host_rung(row, args) : launchers[row->index](args, NULL);
    failure->ran = smemkit_ran();
    if (error == ERROR_UNKNOWN)
        failure_set(failure, FAILURE_INTERRUPTED, "interrupted");
    else if (error == ERROR_MEMORY_ALLOCATION)
        failure_set(failure, FAILURE_MEMORY, "%s", smemkit_last_message());
    else if (error && !*smemkit_last_message())
        failure_set(failure, FAILURE_KERNEL, "the launcher of '%s' of %s has no kernel for these arguments",
                    row->name, op_names[row->op]);
    else if (error)
        failure_set(failure, FAILURE_KERNEL, "%s", smemkit_last_message());
    return error == ERROR_NONE;
}

static bool cpu_synchronize_stream(struct device *device, device_stream stream, struct failure *failure)
{
    (void)device;
    (void)stream;
    (void)failure;
    return true;
}

static bool cpu_synchronize_device(struct device *device, struct failure *failure)
{
    return cpu_synchronize_stream(device, NULL, failure);
}

static bool cpu_is_capturing(struct device *device, device_stream stream)
{
    (void)device;
    (void)stream;
    return false;
}

static bool cpu_stream_wait_stream(struct device *device, device_stream later, device_stream earlier,
                                   struct failure *failure)
{
    (void)later;
    (void)earlier;
    return cpu_synchronize_device(device, failure);
}

static bool cpu_query_stream(struct device *device, device_stream stream, bool *done, struct failure *failure)
{
    *done = true;
    return cpu_synchronize_stream(device, stream, failure);
}

static bool cpu_stream_wait_event(struct device *device, device_stream stream, device_event event,
                                  struct failure *failure)
{
    (void)event;
    return cpu_synchronize_stream(device, stream, failure);
}

/* An event is a time of the monotonic clock. One thread may record it while another one reads it. */
struct cpu_event {
    _Atomic int64_t nanoseconds;
};

static bool cpu_record_event(struct device *device, device_stream stream, device_event event,
                             struct failure *failure)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store(&((struct cpu_event *)event)->nanoseconds, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    return cpu_synchronize_stream(device, stream, failure);
}

static bool cpu_record_new_event(struct device *device, device_stream stream, device_event *event,
                                 struct failure *failure)
{
    *event = malloc(sizeof(struct cpu_event));
    if (!*event) {
        failure_set(failure, FAILURE_MEMORY, "cpu: no memory for an event");
        return false;
    }
    return cpu_record_event(device, stream, *event, failure);
}

static bool cpu_query_event(struct device *device, device_event event, bool *done, struct failure *failure)
{
    (void)event;
    return cpu_query_stream(device, NULL, done, failure);
}

static bool cpu_synchronize_event(struct device *device, device_event event, struct failure *failure)
{
    (void)event;
    return cpu_synchronize_stream(device, NULL, failure);
}

static bool cpu_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                                struct failure *failure)
{
    struct cpu_event *from = earlier, *to = later;

    (void)device;
    (void)failure;
    *seconds = 1e-9 * (double)(atomic_load(&to->nanoseconds) - atomic_load(&from->nanoseconds));
    return true;
}

static void cpu_destroy_event(struct device *device, device_event event)
{
    (void)device;
    free(event);
}

/* "AMD EPYC 9654", from /proc/cpuinfo; otherwise the architecture. */
static void cpu_model(char *text, size_t length)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(text, length, "%s", fiber_kind);
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon) {
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(text, length, "%s", colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

static bool cpu_properties(struct device *device, struct device_properties *properties, struct failure *failure)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)device;
    (void)failure;
    memset(properties, 0, sizeof *properties);
    cpu_model(properties->description, sizeof properties->description);
    properties->multiprocessors = smemkit_workers();
    properties->max_threads_per_block = MAX_THREADS;
    properties->max_threads_per_multiprocessor = MAX_THREADS; /* a worker runs one block at a time */
    properties->warp_size = 32;
    properties->shared_per_block = 48 * 1024;
    properties->shared_per_block_optin = MAX_SHARED_BYTES;
    properties->shared_per_multiprocessor = MAX_SHARED_BYTES;
    properties->memory_bytes = page * (size_t)sysconf(_SC_PHYS_PAGES);
#ifdef _SC_AVPHYS_PAGES
    properties->free_bytes = page * (size_t)sysconf(_SC_AVPHYS_PAGES);
#endif
    return true;
}

static bool cpu_memory_stats(struct device *device, struct memory_stats *stats, struct failure *failure)
{
    (void)device;
    (void)failure;
    memory_usage(&stats->used, &stats->peak);
    stats->reserved = stats->used;
    return true;
}

static bool cpu_empty_cache(struct device *device, struct failure *failure)
{
    (void)device;
    (void)failure;
    return true;
}

static bool cpu_create_stream(struct device *device, device_stream *stream, struct failure *failure)
{
    (void)device;
    (void)failure;
    *stream = NULL;
    return true;
}

static void cpu_destroy_stream(struct device *device, device_stream stream)
{
    (void)device;
    (void)stream;
}

static const struct device_type cpu_type = {
    .allocate = cpu_allocate,
    .release = cpu_release,
    .upload_begin = cpu_upload_begin,
    .upload_end = cpu_upload_end,
    .download_begin = cpu_download_begin,
    .download_end = cpu_download_end,
    .properties = cpu_properties,
    .memory_stats = cpu_memory_stats,
    .empty_cache = cpu_empty_cache,
    .available_bytes = cpu_available_bytes,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .launch = cpu_launch,
    .synchronize_stream = cpu_synchronize_stream,
    .create_stream = cpu_create_stream,
    .destroy_stream = cpu_destroy_stream,
    .synchronize_device = cpu_synchronize_device,
    .is_capturing = cpu_is_capturing,
    .stream_wait_stream = cpu_stream_wait_stream,
    .query_stream = cpu_query_stream,
    .stream_wait_event = cpu_stream_wait_event,
    .record_new_event = cpu_record_new_event,
    .record_event = cpu_record_event,
    .query_event = cpu_query_event,
    .synchronize_event = cpu_synchronize_event,
    .seconds_between = cpu_seconds_between,
    .destroy_event = cpu_destroy_event,
};

struct device *cpu_device(void)
{
    static struct device device = {.name = "cpu",
                                   .ordinal = -1,
                                   .capability = 90,
                                   .multiprocessors = 132,
                                   .l2_bytes = (size_t)60 << 20,
                                   .type = &cpu_type};

    return &device;
}
