/* Bulk copies and the async proxy: what the hardware reads and writes for a thread, after the thread has moved on.
 *
 * The copy itself counts as a thread of its own, numbered COPIES + the thread that started it, with an epoch for
 * its read and the next one for its write. No thread is ordered after them, not even by a barrier, until there is
 * a wait: the phase of the copy's mbarrier releases them, and a wait for its bulk group orders the waiting thread
 * after them. It accesses memory through proxies of its own: proxies.c.
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

/* Checks that the running thread may access these bytes, as if it accessed them itself. False if they must not be
 * checked for races, because the thread continues with poison. */
static bool may_access(struct tracer *t, uintptr_t address, size_t bytes, enum access_kind kind, uint32_t item)
{
    bool known = true;

    for (size_t at = 0, step; at < bytes; at += step) {
        step = GRAIN;
        while (step > bytes - at || (address + at) % step)
            step /= 2;
        known &= smemkit_trace_slow_access(t, address + at, (unsigned)step, kind, item) != SPACE_UNKNOWN;
    }
    return known;
}

static void access_range(struct tracer *t, struct access now, uint32_t epoch, uintptr_t address, size_t bytes)
{
    struct region *region;

    now.space = space_of(t, address);
    region = now.space == SPACE_GLOBAL ? find_region(t, address) : &t->shared[now.space];
    if (!region || !region->cells)
        return;
    if ((address | bytes) % 4)
        shadow_refine(t, region);
    if (bytes > region->start + region->bytes - address)
        bytes = region->start + region->bytes - address;
    for (size_t at = 0; at < bytes; at += now.size) {
        now.address = address + at;
        now.size = now.address % 4 || bytes - at < 4 ? 1 : 4;
        shadow_copy_access(t, region, &now, epoch);
    }
}

/* The copy counts its bytes at its mbarrier. This is a use of the mbarrier that needs no proxy fence before it. */
static void use_mbarrier(struct tracer *t, const struct bulk *bulk, struct access now, uint32_t epoch)
{
    if (!bulk->copy.mbarrier)
        return;
    now.kind = ACCESS_ATOMIC;
    now.same_proxy = true;
    access_range(t, now, epoch, (uintptr_t)bulk->copy.mbarrier, 8);
}

/* The copy reads its tensor map, if a thread may have written it: a kernel's argument is in no region. */
static void read_map(struct tracer *t, const struct bulk *bulk, struct access now, uint32_t epoch)
{
    if (!bulk->copy.tensor)
        return;
    now.map = (uintptr_t)bulk->copy.tensor;
    t->map_acquires.reported = false;
    access_range(t, now, epoch, now.map, SMEMKIT_TENSOR_MAP_BYTES);
}

/* The accesses of a copy to one of its two ends. */
struct end {
    struct tracer *tracer;
    struct access now;
    uint32_t epoch;
    bool global;
    bool tests;     /* that they are allowed; otherwise checks for races */
    bool known;     /* all of them are allowed */
    bool registers; /* the source is in registers */
};

static void access_piece(void *context, const struct bulk_piece *piece)
{
    struct end *end = context;
    const uintptr_t address = (uintptr_t)(end->global ? piece->global : piece->shared);

    if (!address || (!piece->global && end->now.kind == ACCESS_LOAD) || (end->registers && end->global))
        return;
    if (end->tests)
        end->known &= may_access(end->tracer, address, piece->bytes, end->now.kind, end->now.item);
    else
        access_range(end->tracer, end->now, end->epoch, address, piece->bytes);
}

uint32_t bulk_access(struct tracer *t, const struct bulk *bulk, const void *code)
{
    const unsigned thread = t->worker->current;
    const bool loads = bulk->copy.mbarrier != NULL;
    const bool registers = bulk_is_of_registers(&bulk->copy);
    struct end read = {.tracer = t, .global = loads, .tests = true, .known = true, .registers = registers};
    struct end write = read;

    write.global = !loads;
    read.now.item = write.now.item = item_of(t, code, ITEM_ACCESS);
    read.now.kind = ACCESS_LOAD;
    write.now.kind = bulk->copy.combine ? ACCESS_ATOMIC : ACCESS_STORE;
    t->copying = thread + 1;
    bulk_each_piece(bulk, access_piece, &read);
    bulk_each_piece(bulk, access_piece, &write);
    t->copying = 0;
    trace_check_log(t, thread);
    read.now = (struct access){.thread = thread,
                               .block = t->block_number,
                               .epoch = t->threads[thread].epoch,
                               .item = read.now.item,
                               .context = t->context[thread],
                               .position = shadow_position(t, thread),
                               .kind = ACCESS_LOAD,
                               .reads = true,
                               .async = true,
                               .same_proxy = registers};
    read.epoch = ++t->clock;
    write.now = read.now;
    write.now.kind = bulk->copy.combine ? ACCESS_ATOMIC : ACCESS_STORE;
    write.now.reads = false;
    write.epoch = ++t->clock;
    read_map(t, bulk, read.now, read.epoch);
    read.tests = write.tests = false;
    if (read.known)
        bulk_each_piece(bulk, access_piece, &read);
    if (write.known)
        bulk_each_piece(bulk, access_piece, &write);
    remote_copy(t, (uintptr_t)bulk->copy.to, write.epoch,
                (struct code_location){.item = write.now.item, .context = write.now.context});
    use_mbarrier(t, bulk, write.now, write.epoch);
    t->threads[thread].epoch = ++t->clock;
    return read.epoch;
}

void bulk_see(struct tracer *t, const struct bulk *bulk, bool written)
{
    const void *mbarrier = bulk->copy.mbarrier;
    const uintptr_t own = (uintptr_t)&t->threads[bulk->thread]; /* of the groups of a thread */

    clock_copy(t, t->worker->current, mbarrier ? (uintptr_t)mbarrier : own, !mbarrier, COPIES + bulk->thread,
               bulk->epoch, written);
}
