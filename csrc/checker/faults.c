/* The faults of a launch, and the names of the memory that they are about. */
#define _GNU_SOURCE
#include "trace.h"

#include <stdio.h>
#include <string.h>

#include "executor/block.h"
#include "executor/memory.h"
#include "internal.h"

void smemkit_checked_dynamic(const char *name, size_t element)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (t && !t->dynamic_name) {
        t->dynamic_name = name;
        t->dynamic_element = element;
    }
}

/* Describes an address in or next to a shared array. */
static void name_shared(const struct tracer *t, struct checked_fault *fault, uintptr_t address)
{
    const struct shared_array *array = nearest_shared_array(t->worker, (const void *)address);
    const struct smemkit_shared *variable = array ? array->variable : NULL;
    const char *name = variable ? variable->name : array && t->dynamic_name ? t->dynamic_name : "";

    if (!array)
        return;
    snprintf(fault->variable, sizeof fault->variable, "%s", name);
    fault->before = address < (uintptr_t)array->start;
    fault->offset = fault->before ? (uintptr_t)array->start - address : address - (uintptr_t)array->start;
    fault->extent = (uint64_t)(array->end - array->start);
    fault->element = (unsigned)(variable ? variable->element_bytes : t->dynamic_element);
    fault->rank = variable ? variable->rank : 1;
    if (variable)
        memcpy(fault->dims, variable->dims, sizeof fault->dims);
}

void trace_name(struct tracer *t, struct checked_fault *fault, uintptr_t address, enum space space)
{
    uintptr_t start = 0, end = 0, nearest = 0;
    struct tracer *remote = remote_tracer(t, address);

    if (remote) {
        t = remote;
        space = address - t->spans[STATIC].start < t->spans[STATIC].bytes ? SPACE_STATIC : SPACE_DYNAMIC;
    }
    fault->space = space;
    fault->argument = -1;
    if (space == SPACE_STATIC || space == SPACE_DYNAMIC) {
        name_shared(t, fault, address);
        return;
    }
    if (trace_device_variable(address, fault))
        return;
    if (!memory_find((const void *)address, &start, &end)) {
        fault->offset = address;
        fault->space = SPACE_NONE;
        return;
    }
    for (int i = 0; i < t->trace->argument_count;
         i++) { /* the last one before the address, or else the first after it */
        const uintptr_t pointer = t->trace->arguments[i].pointer;
        const bool nearer = pointer <= address ? pointer > nearest || nearest > address : pointer < nearest;

        if (pointer >= start && pointer <= end && (fault->argument < 0 || nearer)) {
            fault->argument = t->trace->arguments[i].index;
            nearest = pointer;
        }
    }
    if (!nearest)
        nearest = start;
    fault->before = address < nearest;
    fault->offset = fault->before ? nearest - address : address - nearest;
    fault->extent = end - nearest;
    fault->bytes_before = nearest - start;
}

static bool same_location(const struct code_location *a, const struct code_location *b)
{
    if (a->trace != b->trace)
        return false;
    if (a->item || b->item)
        return a->item == b->item && a->context == b->context;
    return a->line == b->line && (a->file == b->file || (a->file && b->file && strcmp(a->file, b->file) == 0));
}

struct checked_fault *trace_fault(struct tracer *t, enum fault_kind kind, struct code_location location,
                                  struct code_location other, enum hazard hazard)
{
    struct trace *trace = t->trace;
    struct checked_fault *fault = NULL;
    const struct worker *w = t->worker;

    pthread_mutex_lock(&trace_lock);
    for (int i = 0; i < trace->fault_count; i++) {
        fault = &trace->faults[i];
        if (fault->kind == kind && fault->hazard == hazard && same_location(&fault->location, &location) &&
            same_location(&fault->other, &other)) {
            fault->count++;
            return fault;
        }
    }
    if (trace->fault_count == MAX_FAULTS) {
        trace->fault_more++;
        return NULL;
    }
    fault = &trace->faults[trace->fault_count++];
    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    fault->hazard = hazard;
    fault->location = location;
    fault->other = other;
    fault->count = 1;
    fault->argument = -1;
    fault->block[0] = w->block.x;
    fault->block[1] = w->block.y;
    fault->block[2] = w->block.z;
    fault->threads = 1;
    fault->thread[0][0] = w->indices[w->current].x;
    fault->thread[0][1] = w->indices[w->current].y;
    fault->thread[0][2] = w->indices[w->current].z;
    return fault;
}

void trace_fault_done(void)
{
    pthread_mutex_unlock(&trace_lock);
}

void trace_fault_message(struct worker *w, enum fault_kind kind, struct code_location location,
                         struct code_location other, const char *message, bool thread)
{
    struct checked_fault *fault = trace_fault(w->tracer, kind, location, other, HAZARD_NONE);

    if (fault && fault->count == 1) {
        snprintf(fault->message, sizeof fault->message, "%s", message);
        fault->space = SPACE_NONE;
        fault->threads = thread;
    }
    trace_fault_done();
}

void trace_compare(struct tracer *t, unsigned thread, uintptr_t address)
{
    struct trace *trace = t->trace;
    const uint32_t *controls = controls_of(t, thread), *item = t->control;
    const uint64_t *at = t->address;
    uint32_t found = 0;

    while (item > controls && !found) {
        item--;
        if ((*item & ((1u << ITEM_BITS) - 1)) != ITEM_ACCESS)
            continue;
        at--;
        if (address_of(*at) == address && (*at >> KIND_SHIFT & 15) == ACCESS_LOAD)
            found = *item;
    }
    if (!found)
        return;
    pthread_mutex_lock(&trace_lock);
    for (int i = 0; i < trace->guess_count; i++)
        if (trace->cas_loads[i] == found)
            found = 0;
    if (found && trace->guess_count < 64)
        trace->cas_loads[trace->guess_count++] = found;
    pthread_mutex_unlock(&trace_lock);
}

bool trace_is_cas_load(const struct trace *trace, const struct checked_fault *fault)
{
    const bool second = fault->access == ACCESS_LOAD && fault->other_access == ACCESS_ATOMIC;
    const bool first = fault->other_access == ACCESS_LOAD && fault->access == ACCESS_ATOMIC;

    if (fault->kind != KIND_RACE || !(first || second))
        return false;
    if (first && fault->other_trace)
        trace = fault->other_trace; /* the load is of another launch */
    for (int i = 0; i < trace->guess_count; i++)
        if (trace->cas_loads[i] == (second ? fault->location.item : fault->other.item))
            return true;
    return false;
}
