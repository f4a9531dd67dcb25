/* The slow path of the hooks, and the accesses that the dialect makes for a kernel: atomics, fences, copies. */
#define _GNU_SOURCE
#include "shadow.h"

#include <stdio.h>
#include <string.h>

#include "executor/block.h"
#include "executor/memory.h"
#include "internal.h"

void forget_shared(struct tracer *t, int space, const struct shared_array *array)
{
    memset(array->start, POISON, (size_t)(array->end - array->start));
    shadow_forget(&t->shared[space], (uintptr_t)array->start, (size_t)(array->end - array->start));
}

void trace_shared(struct tracer *t, unsigned slot)
{
    const struct shared_array *array = &t->worker->shared.slots[slot];

    t->statics[slot] = (struct span){.start = (uintptr_t)array->start,
                                     .bytes = array->variable->bytes,
                                     .space = (uint64_t)SPACE_STATIC << SPACE_SHIFT};
    t->shared[STATIC].used = (size_t)t->worker->shared.count << t->static_shift;
    forget_shared(t, STATIC, array);
}

/* Makes the buffer or library variable at `address` the most recent span. */
static bool find_span(struct tracer *t, uintptr_t address)
{
    const struct trace *trace = t->trace;
    uintptr_t start, end;

    if (library_has_data(&trace->library, address)) {
        find_data(trace, address, &start, &end);
    } else if (!memory_find((const void *)address, &start, &end) || address < start || address >= end) {
        return false;
    }
    for (int i = SPANS - 1; i > RECENT; i--)
        t->spans[i] = t->spans[i - 1];
    t->spans[RECENT] =
        (struct span){.start = start, .bytes = end - start, .space = (uint64_t)SPACE_GLOBAL << SPACE_SHIFT};
    return true;
}

static enum space space_near(const struct tracer *t, uintptr_t address)
{
    const struct shared_array *array = nearest_shared_array(t->worker, (const void *)address);

    return !array ? SPACE_GLOBAL : array->variable ? SPACE_STATIC : SPACE_DYNAMIC;
}

/* Whether it is a built-in variable such as threadIdx, to which a kernel may have a reference. */
static bool is_index(uintptr_t address)
{
    const uintptr_t indices[] = {(uintptr_t)&smemkit_thread_index, (uintptr_t)&smemkit_block_index,
                                 (uintptr_t)&smemkit_block_dim, (uintptr_t)&smemkit_grid_dim};

    for (int i = 0; i < 4; i++)
        if (address - indices[i] < sizeof smemkit_thread_index)
            return true;
    return false;
}

/* The recent span that contains an address, or NULL. */
static const struct span *span_at(const struct tracer *t, uintptr_t address)
{
    for (int i = 0; i < SPANS; i++)
        if (address - t->spans[i].start < t->spans[i].bytes)
            return i == STATIC ? &t->statics[(address - t->spans[STATIC].start) >> t->static_shift] : &t->spans[i];
    return NULL;
}

bool trace_is_in_bounds(struct tracer *t, uintptr_t address, unsigned bytes)
{
    const struct span *span = span_at(t, address);

    if (!span && find_span(t, address))
        span = &t->spans[RECENT];
    return span && address - span->start < span->bytes && bytes <= span->bytes - (address - span->start);
}

/* Records how far past the end of its shared array an access goes. */
static void note_reach(struct tracer *t, struct checked_fault *fault, uintptr_t address, unsigned bytes)
{
    const struct shared_array *array = nearest_shared_array(t->worker, (const void *)address);
    const uint64_t reach =
        array && address >= (uintptr_t)array->start ? address + bytes - (uintptr_t)array->start : 0;

    if (fault->reach < reach)
        fault->reach = reach;
}

/* Lets the running thread continue after a read out of bounds, which returns poison, so that later faults are
 * found too. */
static bool go_on(struct tracer *t, struct code_location here, uintptr_t address, unsigned bytes)
{
    const void *memory = (const void *)address;
    const unsigned thread = t->worker->current;

    if (t->poisoned[thread] >= MAX_POISONED)
        return false;
    if (!memory_poison_guard(memory, bytes) && !shared_poison_guard(t->worker, memory, bytes))
        return false;
    if (t->poisoned[thread]++ == 0)
        t->poison[thread] = here;
    t->block_poisoned = true;
    return true;
}

struct code_location trace_poison(const struct tracer *t)
{
    const unsigned thread = t->worker->current;

    return t->poisoned[thread] ? t->poison[thread] : t->ended_poison;
}

/* Whether an address is in the value of one of the launch's arguments, which a thread copies when it begins. */
static bool is_argument(const struct smemkit_launch *launch, uintptr_t address, unsigned bytes)
{
    for (unsigned i = 0; i < launch->argument_count; i++) {
        const uintptr_t start = (uintptr_t)launch->arguments[i];

        if (address >= start && address + bytes <= start + launch->argument_bytes[i])
            return true;
    }
    return false;
}

static bool is_load(enum access_kind kind)
{
    return kind == ACCESS_LOAD || kind == ACCESS_READ_ONLY;
}

uint64_t smemkit_trace_slow_access(struct tracer *t, uintptr_t address, unsigned bytes, enum access_kind kind,
                                   uint32_t item)
{
    const struct trace *trace = t->trace;
    const struct code_location nowhere = {0};
    struct code_location here = {.item = item};
    const struct span *span;
    struct tracer *remote;
    bool misaligned = address & (bytes - 1), constant;
    struct checked_fault *fault;

    /* kernel arguments, the compiler's tables, and constants are not checked */
    if (is_load(kind) && (address - trace->frame < LAUNCH_FRAMES || is_argument(trace->launch, address, bytes)))
        return SPACE_UNKNOWN;
    if (library_holds(&trace->library, address) && !library_has_data(&trace->library, address))
        return SPACE_UNKNOWN;
    if (is_index(address))
        return SPACE_UNKNOWN;
    constant = library_has_data(&trace->library, address) && is_constant(address);
    if (constant && is_load(kind))
        return SPACE_UNKNOWN;
    span = span_at(t, address);
    remote = span ? NULL : remote_tracer(t, address);
    if (remote && !misaligned) {
        trace_check_log(t, t->worker->current);
        here.context = t->context[t->worker->current];
        if (remote_access(t, remote, address, bytes, here))
            return (uint64_t)SPACE_GLOBAL << SPACE_SHIFT;
    }
    if (!span && !constant && !remote && find_span(t, address))
        span = &t->spans[RECENT];
    if (!misaligned && span && address - span->start < span->bytes &&
        bytes <= span->bytes - (address - span->start))
        return span->space;
    if (t->worker->tracer != t) /* host code */
        return SPACE_UNKNOWN;

    misaligned &= span && address - span->start < span->bytes;
    trace_check_log(t, t->worker->current);
    here.context = t->context[t->worker->current];
    fault = trace_fault(t, misaligned ? KIND_MISALIGNED : KIND_OUT_OF_BOUNDS, here, nowhere, HAZARD_NONE);
    if (fault && fault->count == 1) {
        fault->access = is_load(kind) ? ACCESS_LOAD : kind == ACCESS_OBJECT ? ACCESS_STORE : kind;
        fault->size = (int)bytes;
        trace_name(t, fault, address, space_near(t, address));
        if (constant)
            snprintf(fault->message, sizeof fault->message, "writes constant memory");
        else if (memory_is_freed((const void *)address))
            snprintf(fault->message, sizeof fault->message, "%s memory that the kernel has freed",
                     is_load(kind) ? "reads" : "writes");
    }
    if (fault)
        note_reach(t, fault, address, bytes);
    trace_fault_done();
    if (!misaligned && is_load(kind) && go_on(t, here, address, bytes))
        return SPACE_UNKNOWN;
    worker_terminate_thread(t->worker);
}

void smemkit_trace_bounds(struct tracer *t, const char *file, int line, const char *type, int64_t index)
{
    const struct code_location here = {.file = file, .line = line}, nowhere = {0};
    struct checked_fault *fault = trace_fault(t, KIND_OUT_OF_BOUNDS, here, nowhere, HAZARD_NONE);

    if (fault && fault->count == 1) {
        fault->space = SPACE_NONE;
        snprintf(fault->message, sizeof fault->message, "uses index %lld of an array of type %s", (long long)index,
                 type);
    }
    trace_fault_done();
}

void smemkit_trace_full(struct tracer *t)
{
    const unsigned thread = t->worker->current;

    worker_suspend(t->worker);
    if (!t->poisoned[thread] && !t->ended_poison.item)
        return;
    if (++t->poisoned_logs[thread] >= (t->poisoned[thread] ? MAX_POISONED_LOGS : MAX_LOGS_BESIDE)) {
        if (!t->ended_poison.item)
            t->ended_poison = t->poison[thread];
        worker_terminate_thread(t->worker);
    }
}

void smemkit_trace_yield(struct tracer *t)
{
    if (t->schedule == SCHEDULE_LOCKSTEP || trace_random(t) % 8 == 0)
        worker_yield(t->worker);
}

void *smemkit_trace_move(void *to, const void *from, size_t bytes)
{
    return memmove(to, from, bytes);
}

void *smemkit_trace_fill(void *to, int byte, size_t bytes)
{
    return memset(to, byte, bytes);
}

/* Logs an access that the dialect makes for the kernel, as the hooks do. */
static struct tracer *note_access(const volatile void *memory, unsigned bytes, enum access_kind kind,
                                  const void *code)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;
    const uintptr_t address = (uintptr_t)memory;
    uint32_t item;
    uint64_t space;

    if (!t)
        return NULL;
    item = item_of(t, code, ITEM_ACCESS);
    if (address - (uintptr_t)smemkit_stacks < STACKS_BYTES) { /* a thread's locals */
        if (t->locals_used)
            smemkit_trace_local(t, address, bytes, kind == ACCESS_READ_ONLY ? ACCESS_LOAD : kind, item);
        return NULL;
    }
    space = smemkit_trace_slow_access(t, address, bytes, kind, item);
    if (space == SPACE_UNKNOWN)
        return NULL;
    if (t->yield)
        smemkit_trace_yield(t);
    *t->address++ = tag_address(address, space, bytes, kind);
    log_item(t, item);
    return t;
}

void smemkit_checked_access(const volatile void *memory, unsigned bytes, int how, const void *code)
{
    static const enum access_kind kinds[] = {ACCESS_LOAD, ACCESS_STORE, ACCESS_READ_ONLY, ACCESS_OBJECT};

    note_access(memory, bytes, kinds[how], code);
}

/* Counts an access of a copy. Its item is `before` bytes less than the copy's, which is still inside the call
 * instruction, so that no other access has it. */
static void count_copy(struct tracer *t, uint32_t item, unsigned before, uintptr_t address, uint64_t space,
                       unsigned bytes, unsigned kind)
{
    trace_count(t, item - (before << ITEM_BITS), tag_address(address, space, bytes, kind));
}

uint32_t trace_async(struct tracer *t, void *to, const void *from, unsigned read, unsigned bytes,
                     enum smemkit_copy_path path, const void *code)
{
    const uint32_t item = item_of(t, code, ITEM_ACCESS);
    const uint64_t space = smemkit_trace_slow_access(t, (uintptr_t)to, bytes, ACCESS_STORE, item);
    uint32_t position;

    trace_check_log(t, t->worker->current);
    position = shadow_position(t, t->worker->current); /* the copy's, whatever it logs */
    if (read & (read - 1))
        read = bytes; /* not a power of two: treated as a full read */
    if (space != SPACE_UNKNOWN) {
        /* a wild pointer may have more bits than an address in a log */
        count_copy(t, item, 2, read ? address_of((uintptr_t)from) : 0, space, bytes, ACCESS_SOURCE);
        count_copy(t, item, 1, (uintptr_t)to, space, bytes, ACCESS_COPY + (unsigned)path);
    }
    if (read)
        note_access(from, read, ACCESS_LOAD, code);
    trace_check_log(t, t->worker->current);
    t->passes[t->worker->current].tried_epoch = 0; /* the copy may be to an mbarrier */
    shadow_async(t, t->worker->current, to, bytes, item, position, false);
    return item;
}

void smemkit_checked_atomic(const volatile void *memory, unsigned bytes, int reads, const void *code)
{
    struct tracer *t = note_access(memory, bytes, reads ? ACCESS_ATOMIC : ACCESS_ATOMIC_STORE, code);

    if (t) {
        trace_check_log(t, t->worker->current);
        clock_atomic_begin(t);
    }
}

void smemkit_checked_atomic_done(const volatile void *memory, unsigned bytes, int wrote, int order)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    (void)bytes;
    if (t && t->in_atomic) {
        if (order & 4)
            trace_compare(t, t->worker->current, (uintptr_t)memory);
        clock_atomic(t, t->worker->current, (uintptr_t)memory, wrote, order & ~4);
    }
}

void smemkit_checked_try_again(const void *code)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (!t)
        return;
    if (t->yield)
        smemkit_trace_yield(t);
    log_item(t, item_of(t, code, ITEM_BLOCK)); /* once the log is full, other threads of the warp run */
    trace_check_log(t, t->worker->current);
}

void smemkit_checked_fence(int scope)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (t) {
        trace_check_log(t, t->worker->current);
        clock_fence(t, t->worker->current, scope);
    }
}
