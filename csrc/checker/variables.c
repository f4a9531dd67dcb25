/* The __device__ and __constant__ variables of the kernels' libraries. */
#define _GNU_SOURCE
#include "trace.h"

#include <stdio.h>
#include <string.h>

#include "internal.h"

enum { MAX_GLOBALS = 1024 };

/* The __constant__ and __device__ variables of loaded libraries. Entries are only added, under trace_lock;
 * libraries are never unloaded. */
static struct global {
    char name[64];
    uintptr_t start;
    size_t bytes, element;
    bool constant;
} globals[MAX_GLOBALS];
static _Atomic int global_count;

static const struct global *global_at(uintptr_t address)
{
    for (int i = 0; i < global_count; i++)
        if (address - globals[i].start < globals[i].bytes)
            return &globals[i];
    return NULL;
}

void smemkit_checked_global(const char *name, const void *memory, size_t bytes, size_t element, int constant)
{
    pthread_mutex_lock(&trace_lock);
    if (!global_at((uintptr_t)memory) && global_count < MAX_GLOBALS) {
        struct global *global = &globals[global_count];

        snprintf(global->name, sizeof global->name, "%s", name);
        global->start = (uintptr_t)memory;
        global->bytes = bytes;
        global->element = element;
        global->constant = constant;
        global_count++;
    }
    pthread_mutex_unlock(&trace_lock);
}

bool is_constant(uintptr_t address)
{
    const struct global *global = global_at(address);

    return global && global->constant;
}

bool trace_device_variable(uintptr_t address, struct checked_fault *fault)
{
    const struct global *global = global_at(address);

    if (!global)
        return false;
    memcpy(fault->variable, global->name, sizeof fault->variable);
    fault->offset = address - global->start;
    fault->extent = global->bytes;
    fault->element = (unsigned)global->element;
    fault->rank = global->bytes > global->element;
    return true;
}

void find_data(const struct trace *trace, uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    *start = trace->library.data_start;
    *end = trace->library.data_end;
    for (int i = 0; i < global_count; i++) {
        const uintptr_t first = globals[i].start, last = first + globals[i].bytes;

        if (first <= address && first > *start)
            *start = first;
        if (last <= address && last > *start)
            *start = last;
        if (last > address && last < *end)
            *end = last;
        if (first > address && first < *end)
            *end = first;
    }
}
