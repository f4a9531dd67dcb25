/* The CPU device: csrc/device.h on the executor. Memory lies between guard pages, and every call is complete when
 * it returns. */
#define _GNU_SOURCE
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "block.h"
#include "executor.h"
#include "memory.h"
#include "trace.h"

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

static bool cpu_launch(struct device *device, const struct kernel_row *row, const void *args, device_stream stream,
                       struct failure *failure)
{
    struct checking *check = *trace_checking();
    const kernel_launcher *launchers = check ? checked_launchers : cpu_launchers;
    int error;

    (void)device;
    (void)stream;
    if (check)
        check->all_blocks = check->whole >> row->index & 1;
    if (!launchers[row->index]) {
        failure_set(failure, FAILURE_KERNEL, "kernel: '%s' of %s needs hardware that the CPU device has not",
                    row->name, op_names[row->op]);
        return false;
    }
    smemkit_forget();
    error = launchers[row->index](args, NULL);
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

static bool cpu_wait(struct device *device, device_stream stream, struct failure *failure)
{
    (void)device;
    (void)stream;
    (void)failure;
    return true;
}

static bool cpu_wait_all(struct device *device, struct failure *failure)
{
    return cpu_wait(device, NULL, failure);
}

static bool cpu_follow(struct device *device, device_stream later, device_stream earlier, struct failure *failure)
{
    (void)later;
    (void)earlier;
    return cpu_wait_all(device, failure);
}

/* An event is a moment of the monotonic clock. */
static bool cpu_mark(struct device *device, device_stream stream, device_event *event, struct failure *failure)
{
    struct timespec *now = malloc(sizeof *now);

    (void)device;
    (void)stream;
    *event = now;
    if (!now) {
        failure_set(failure, FAILURE_MEMORY, "cpu: no memory for an event");
        return false;
    }
    clock_gettime(CLOCK_MONOTONIC, now);
    return true;
}

static bool cpu_seconds_between(struct device *device, device_event earlier, device_event later, double *seconds,
                                struct failure *failure)
{
    const struct timespec *from = earlier, *to = later;

    (void)device;
    (void)failure;
    *seconds = (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
    return true;
}

static void cpu_drop(struct device *device, device_event event)
{
    (void)device;
    free(event);
}

static const struct device_type cpu_type = {
    .allocate = cpu_allocate,
    .release = cpu_release,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .launch = cpu_launch,
    .wait = cpu_wait,
    .wait_all = cpu_wait_all,
    .follow = cpu_follow,
    .mark = cpu_mark,
    .seconds_between = cpu_seconds_between,
    .drop = cpu_drop,
};

struct device *cpu_device(void)
{
    static struct device device = {.name = "cpu", .ordinal = -1, .type = &cpu_type};

    return &device;
}

/* "AMD EPYC 9654" from /proc/cpuinfo; the architecture where it does not say */
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

bool cpu_properties(struct device_properties *properties, struct failure *failure)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

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
