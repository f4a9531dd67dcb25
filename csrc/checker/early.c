/* Programmatic dependent launch: a launch may begin before the one before it has ended, so that what it does
 * before griddepcontrol.wait is ordered with nothing that one does. (PTX ISA, griddepcontrol)
 *
 * The launches of a check run one after the other. The shadow memory of each is kept, and every access that is not
 * ordered after a wait is held against it. The end of an earlier launch counts as an epoch of a block that no grid
 * has, which a wait acquires; a launch that ends without any wait may leave the one before it running.
 */
#define _GNU_SOURCE
#include "shadow.h"

#include <string.h>

#include "executor/block.h"

/* The end of the launch so many before this one */
static struct access end_of(unsigned before)
{
    return (struct access){.block = UINT32_MAX - before, .epoch = 1};
}

void early_awaited(struct tracer *t)
{
    struct trace *trace = t->trace;
    const uintptr_t here = (uintptr_t)trace;
    unsigned before = 1;

    if (!trace->earlier)
        return;
    pthread_mutex_lock(&trace_lock);
    if (!trace->awaited) {
        clock_release(t, here, end_of(1).block, 0, 1);
        for (const struct trace *one = trace->earlier; one->earlier && one->awaited; one = one->earlier)
            clock_release(t, here, end_of(++before).block, 0, 1);
    }
    trace->awaited = true;
    pthread_mutex_unlock(&trace_lock);
    clock_acquire(t, t->worker->current, here);
}

static void thread_index(const unsigned block[3], unsigned thread, unsigned *index)
{
    index[0] = thread % block[0];
    index[1] = thread / block[0] % block[1];
    index[2] = thread / block[0] / block[1];
}

/* An access of an earlier launch, as its shadow has it. */
struct former {
    const struct trace *trace;
    unsigned before, thread;
    enum access_kind kind;
    const struct origin *origin;
};

static void report(struct tracer *t, const struct access *now, const struct former *former)
{
    const enum hazard hazard = now->kind == ACCESS_LOAD      ? HAZARD_RAW
                               : former->kind == ACCESS_LOAD ? HAZARD_WAR
                                                             : HAZARD_WAW;
    struct checked_fault *fault =
        trace_fault(t, KIND_RACE, (struct code_location){.item = now->item, .context = now->context},
                    (struct code_location){
                        .item = former->origin->item, .context = former->origin->context, .trace = former->trace},
                    hazard);

    if (fault && fault->count == 1) {
        fault->threads = 2;
        memcpy(fault->thread[0], &t->worker->indices[now->thread % COPIES], sizeof fault->thread[0]);
        thread_index(former->trace->block, former->thread % COPIES, fault->thread[1]);
        block_index(former->trace->grid, former->origin->block, fault->other_block);
        fault->access = now->kind;
        fault->other_access = former->kind;
        fault->copy = now->async;
        fault->size = (int)now->size;
        fault->launches_before = former->before;
        fault->other_trace = former->trace;
        trace_name(t, fault, now->address, now->space);
    }
    trace_fault_done();
}

/* Whether an access conflicts with a use; then `former` becomes that use. */
static bool use_conflicts(const struct access *now, const struct use *use, const struct origin *origin,
                          struct former *former)
{
    const enum access_kind kind = use->atomic ? ACCESS_ATOMIC : ACCESS_LOAD;

    if (!use->epoch || !use->lanes || kind == now->kind)
        return false;
    former->kind = kind;
    former->thread = use->warp * LANES + (unsigned)__builtin_ctz(use->lanes);
    former->origin = origin;
    return true;
}

static bool cell_conflicts(const struct access *now, const struct cell *cell, const struct origins *origins,
                           struct former *former)
{
    if (cell->epoch) {
        former->kind = ACCESS_STORE;
        former->thread = cell->thread;
        former->origin = &origins->store;
        return true;
    }
    if (!cell->uses[0].epoch)
        return false;
    for (int i = 0; i < USES; i++)
        if (use_conflicts(now, &cell->uses[i], &origins->uses[i], former))
            return true;
    for (const struct extra_uses *more = origins->more; more; more = more->next)
        if (use_conflicts(now, &more->use, &more->origin, former))
            return true;
    return false;
}

static void check_against(struct tracer *t, const struct access *now, struct former *former)
{
    const struct region *region = former->trace->regions;
    size_t at, end;

    while (region && now->address - region->start >= region->bytes)
        region = region->next;
    if (!region || !region->cells)
        return;
    at = (now->address - region->start) >> region->shift;
    end = (now->address - region->start + now->size + ((size_t)1 << region->shift) - 1) >> region->shift;
    for (; at < end; at++) {
        if (cell_conflicts(now, &region->cells[at], &region->origins[at], former)) {
            report(t, now, former);
            return;
        }
    }
}

void early_check(struct tracer *t, const struct access *now)
{
    struct former former = {.before = 1};

    for (const struct trace *one = t->trace->earlier; one; one = one->earlier, former.before++) {
        const struct access end = end_of(former.before);

        former.trace = one;
        if (!ordered(t, now, &end))
            check_against(t, now, &former);
    }
}
