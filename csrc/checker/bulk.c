/* Bulk copies and the async proxy: what the hardware reads and writes for a thread, after the thread has gone on.
 *
 * The copy itself counts as a thread of its own, numbered COPIES + the thread that started it, with an epoch for
 * its read and the next one for its write. Nothing orders anybody after them, not even a barrier, until a wait:
 * the phase of its mbarrier releases them there, and a wait for its bulk group gives them to the waiting thread.
 *
 * It reads through the async proxy. What a thread has written before with ordinary stores (the generic proxy) it
 * may miss, unless that thread has executed fence.proxy.async after the store and before it handed over. (PTX ISA,
 * "Memory Consistency Model: Proxies")
 */
#define _GNU_SOURCE
#include "executor/bulk.h"

#include <stdlib.h>
#include <string.h>

#include "shadow.h"

enum { GRAIN = 16 };

static enum space space_of(const struct tracer *t, uintptr_t address)
{
    for (int space = SPACE_STATIC; space <= SPACE_DYNAMIC; space++)
        if (address - t->spans[space].start < t->spans[space].bytes)
            return (enum space)space;
    return SPACE_GLOBAL;
}

/* Tests that the running thread may access these bytes, as one of its own accesses. False if they are unchecked:
 * the thread goes on with poison. */
static bool may_access(struct tracer *t, uintptr_t address, size_t bytes, enum access_kind kind, uint32_t item)
{
    bool known = true;

    for (size_t at = 0; at < bytes; at += GRAIN)
        known &= smemkit_trace_unusual(t, address + at, GRAIN, kind, item) != SPACE_UNKNOWN;
    return known;
}

/* What a copy reads or writes at one instruction. */
struct side {
    struct access now;
    uint32_t epoch;
};

static void access_range(struct tracer *t, const struct side *side, uintptr_t address, size_t bytes)
{
    struct access now = side->now;
    struct region *region;

    now.space = space_of(t, address);
    region = now.space == SPACE_GLOBAL ? find_region(t, address) : &t->shared[now.space];
    if (!region || !region->cells)
        return;
    now.size = 1u << region->shift;
    for (size_t at = 0; at < bytes; at += now.size) {
        now.address = address + at;
        shadow_copy_access(t, region, &now, side->epoch);
    }
}

uint32_t bulk_access(struct tracer *t, const struct bulk *bulk, const void *code)
{
    const struct smemkit_bulk *copy = &bulk->copy;
    const uint32_t item = (uint32_t)(((uintptr_t)code - t->base) << ITEM_BITS | ITEM_ACCESS);
    const uintptr_t from = (uintptr_t)copy->from, to = (uintptr_t)copy->to;
    const unsigned thread = t->worker->current;
    const enum access_kind write = copy->combine ? ACCESS_ATOMIC : ACCESS_STORE;
    struct side side = {0};
    bool reads, writes;

    reads = may_access(t, from, copy->bytes, ACCESS_LOAD, item);
    writes = may_access(t, to, copy->bytes, write, item);
    trace_check_log(t, thread);
    side.epoch = ++t->clock;
    t->clock++;
    side.now = (struct access){.thread = thread,
                               .block = t->block_number,
                               .epoch = t->threads[thread].epoch,
                               .item = item,
                               .context = t->context[thread],
                               .position = shadow_position(t, thread),
                               .kind = ACCESS_LOAD,
                               .reads = true,
                               .async = true};
    if (reads)
        access_range(t, &side, from, copy->bytes);
    side.now.kind = write;
    side.now.reads = false;
    side.epoch++;
    if (writes)
        access_range(t, &side, to, copy->bytes);
    t->threads[thread].epoch = ++t->clock;
    return side.epoch - 1;
}

void bulk_see(struct tracer *t, const struct bulk *bulk, bool written)
{
    const void *mbarrier = bulk->copy.mbarrier;
    const uintptr_t own = (uintptr_t)&t->threads[bulk->thread]; /* of the groups of a thread */

    clock_copy(t, t->worker->current, mbarrier ? (uintptr_t)mbarrier : own, !mbarrier, COPIES + bulk->thread,
               bulk->epoch, written);
}

/* ---- the proxy fence ---- */

void smemkit_checked_proxy_fence(void)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (t) {
        trace_check_log(t, t->worker->current);
        clock_proxy_fence(t, t->worker->current);
    }
}
