/* Multiplications of warpgroups, wgmma: their operands in shared memory and their registers.
 *
 * A multiplication reads shared memory through the async proxy, like a bulk copy (bulk.c), as a thread of its own,
 * numbered MULTIPLICATIONS + the first thread of the warpgroup. Each of the four warps that issue it must be
 * ordered after the stores to what it reads: to all of b, and to its own 16 rows of a. Each warp that waits for it
 * is ordered after its reads.
 *
 * Registers are the kernel's local variables, whose accesses the hooks pass on once a block has used wgmma. From
 * the issue to the wait no thread may access accumulators, or write registers of a. A register that was written
 * before the issue needs a wgmma.fence after the write. To check this, the fences of each thread are numbered, and
 * each word of a stack has the number of the last fence before it was written. (PTX ISA, "wgmma.fence")
 */
#define _GNU_SOURCE
#include "executor/wgmma.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/schedule.h"
#include "shadow.h"

enum { STACK_WORDS = STACK_BYTES / 4, CHUNK = 16 };

struct local_write {
    uint32_t fence, item;
};

struct local_writes {
    uint32_t fences, begun;       /* so far; and when the block began */
    uint32_t fenced[MAX_THREADS]; /* number of each thread's last fence */
    struct local_write *words;    /* (MAX_THREADS, STACK_WORDS) */
};

static const size_t WORDS_BYTES = (size_t)MAX_THREADS * STACK_WORDS * sizeof(struct local_write);

void locals_dispose(struct tracer *t)
{
    if (t->locals)
        munmap(t->locals->words, WORDS_BYTES);
    free(t->locals);
    t->locals = NULL;
}

void locals_begin(struct tracer *t)
{
    if (t->locals)
        t->locals->begun = t->locals->fences;
    t->locals_used = t->locals_by_coverage = false;
}

/* Starts recording accesses to local variables. False if out of memory. */
static bool use_locals(struct tracer *t)
{
    struct local_writes *locals = t->locals;

    t->locals_used = true;
    if (locals)
        return true;
    locals = calloc(1, sizeof *locals);
    if (locals) {
        void *words =
            mmap(NULL, WORDS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        locals->words = words;
        if (words == MAP_FAILED) {
            free(locals);
            locals = NULL;
        }
    }
    t->locals = locals;
    t->locals_used = locals != NULL;
    t->trace->observed.out_of_memory |= !locals;
    return locals != NULL;
}

/* The entry of a word of a thread's own stack, or NULL. */
static struct local_write *word_of(const struct tracer *t, unsigned thread, uintptr_t address)
{
    const struct worker *w = t->worker;
    const uintptr_t offset = address - (uintptr_t)stack_bottom(w, w->stack_of[thread]);

    if (offset >= STACK_BYTES)
        return NULL;
    return &t->locals->words[w->stack_of[thread] * (size_t)STACK_WORDS + offset / 4];
}

/* ---- registers ---- */

static struct code_location location_of(const struct tracer *t, const struct wgmma *item)
{
    return (struct code_location){.item = item_of(t, item->form.code, ITEM_ACCESS)};
}

static void report_register(struct tracer *t, struct code_location here, struct code_location other,
                            enum hazard hazard, enum registers what, enum access_kind kind, unsigned thread)
{
    struct checked_fault *fault = trace_fault(t, KIND_RACE, here, other, hazard);

    if (fault && fault->count == 1) {
        memcpy(fault->thread[0], &t->worker->indices[thread], sizeof fault->thread[0]);
        fault->registers = what;
        fault->access = kind;
        fault->space = SPACE_NONE;
    }
    trace_fault_done();
}

void smemkit_trace_local(struct tracer *t, uintptr_t address, unsigned bytes, enum access_kind kind, uint32_t item)
{
    const unsigned me = t->worker->current;
    const bool store = kind != ACCESS_LOAD;
    struct local_write *word = word_of(t, me, address);
    const struct wgmma *used;

    if (!word)
        return;
    used = wgmma_register(t->worker, me, (const char *)address, bytes, store);
    if (used) {
        trace_check_log(t, me); /* for its context */
        report_register(t, (struct code_location){.item = item, .context = t->context[me]}, location_of(t, used),
                        store ? HAZARD_WAW : HAZARD_RAW, REGISTERS_IN_FLIGHT, kind, me);
    }
    for (unsigned i = 0; store && i < (bytes + 3) / 4; i++)
        word[i] = (struct local_write){t->locals->fenced[me], item};
}

/* A register that a thread has written since its last fence */
static void check_fence(struct tracer *t, const struct wgmma *item, unsigned thread, const void *at)
{
    const struct local_write *word = at ? word_of(t, thread, (uintptr_t)at) : NULL;

    if (word && word->fence == t->locals->fenced[thread])
        report_register(t, location_of(t, item), (struct code_location){.item = word->item}, HAZARD_RAW,
                        REGISTERS_UNFENCED, ACCESS_LOAD, thread);
}

static void check_registers(struct tracer *t, const struct wgmma *item, unsigned lane)
{
    const unsigned thread = item->first + lane, count = item->form.registers;

    if (t->locals->fenced[thread] <= t->locals->begun) {
        report_register(t, location_of(t, item), (struct code_location){0}, HAZARD_RAW, REGISTERS_UNFENCED,
                        ACCESS_LOAD, thread);
        return;
    }
    for (unsigned r = 0; r < count; r++)
        check_fence(t, item, thread, item->d[lane * count + r]);
    for (unsigned r = 0; item->a_at && r < WGMMA_A_REGISTERS; r++) {
        const void *at = item->a_at[lane * WGMMA_A_REGISTERS + r];
        const struct wgmma *used = at ? wgmma_register(t->worker, thread, at, 4, false) : NULL;

        check_fence(t, item, thread, at);
        if (used)
            report_register(t, location_of(t, item), location_of(t, used), HAZARD_RAW, REGISTERS_IN_FLIGHT,
                            ACCESS_LOAD, thread);
    }
}

void wgmma_fence(struct tracer *t, unsigned warp)
{
    if (!use_locals(t))
        return;
    for (unsigned lane = 0; lane < LANES; lane++)
        t->locals->fenced[warp * LANES + lane] = ++t->locals->fences;
}

/* ---- operands in shared memory ---- */

struct reads {
    struct tracer *tracer;
    struct access now;
    uint32_t epoch; /* 0: the reads are recorded already */
    const struct wgmma *item;
};

static void read_chunk(void *context, char *chunk)
{
    const struct reads *reads = context;
    struct tracer *t = reads->tracer;
    struct access now = reads->now;
    uint64_t space;
    struct region *region;

    if (!trace_is_in_bounds(t, (uintptr_t)chunk, CHUNK)) /* the thread must not end while its warp multiplies */
        worker_fail(
            t->worker, KIND_OUT_OF_BOUNDS,
            "out of bounds: wgmma.mma_async reads beyond the shared arrays of its block: the descriptor, or its "
            "leading and stride byte offsets, are wrong (PTX ISA, \"Matrix Descriptor Format\")",
            reads->item->file, reads->item->line);
    space = smemkit_trace_slow_access(t, (uintptr_t)chunk, CHUNK, ACCESS_LOAD, now.item);
    if (space == SPACE_UNKNOWN)
        return;
    now.space = (enum space)(space >> SPACE_SHIFT);
    region = &t->shared[now.space];
    if (now.space == SPACE_GLOBAL || !region->cells)
        return;
    now.size = 1u << region->shift;
    for (unsigned i = 0; i < CHUNK; i += now.size) {
        now.address = (uintptr_t)chunk + i;
        shadow_operand_access(t, region, &now, reads->epoch);
    }
}

static void read_operands(struct tracer *t, const struct wgmma *item, unsigned warp, uint32_t epoch)
{
    const unsigned thread = item->first + warp * LANES;
    struct reads reads = {t,
                          {.thread = thread,
                           .block = t->block_number,
                           .epoch = t->threads[thread].epoch,
                           .item = location_of(t, item).item,
                           .context = t->context[thread],
                           .position = shadow_position(t, thread),
                           .kind = ACCESS_LOAD,
                           .reads = true,
                           .async = true,
                           .multiplies = true},
                          epoch,
                          item};

    if (!item->a)
        wgmma_each_chunk(t->worker, item, false, (int)warp, read_chunk, &reads);
    reads.epoch = warp ? 0 : epoch;
    wgmma_each_chunk(t->worker, item, true, -1, read_chunk, &reads);
}

uint32_t wgmma_access(struct tracer *t, const struct wgmma *item)
{
    const uint32_t epoch = ++t->clock;

    if (use_locals(t))
        for (unsigned lane = 0; lane < GROUP_THREADS; lane++)
            check_registers(t, item, lane);
    for (unsigned warp = 0; warp < GROUP_WARPS; warp++)
        read_operands(t, item, warp, epoch);
    for (unsigned lane = 0; lane < GROUP_THREADS; lane++)
        t->threads[item->first + lane].epoch = ++t->clock;
    return epoch;
}

void wgmma_see(struct tracer *t, const struct wgmma *item, unsigned warp)
{
    const uintptr_t own = (uintptr_t)&t->threads[item->first] + 1 + warp % GROUP_WARPS; /* of the warp's waits */

    clock_release(t, own, t->block_number, MULTIPLICATIONS + item->first, item->epoch);
    for (unsigned lane = 0; lane < LANES; lane++)
        clock_acquire(t, warp * LANES + lane, own);
}
