/* The proxies: paths to memory that do not see each other's accesses without a fence.
 *
 * Bulk copies and wgmma access memory through the async proxy. It may miss what a thread has written with ordinary
 * stores (the generic proxy), unless that thread executed fence.proxy.async after the store and before it
 * synchronised with the thread that starts the copy.
 *
 * A copy reads its tensor map through a proxy for tensor maps. A map that the kernel has written must be released
 * by the writer, and acquired by a thread of the block of the copy: after the release, and before the copy. Not
 * checked: releases by threads of other blocks, and maps that were written before the launch. (PTX ISA, "Memory
 * Consistency Model: Proxies", "membar/fence: fence.proxy.tensormap")
 */
#include <stdlib.h>
#include <string.h>

#include "executor/block.h"
#include "executor/ptx.h"
#include "shadow.h"

/* ---- fences ---- */

static void add_fence(struct tracer *t, struct proxy_fences *fences, uint32_t epoch)
{
    if (fences->count == fences->capacity) {
        const int capacity = fences->capacity ? fences->capacity * 2 : 16;
        uint32_t *larger = realloc(fences->epochs, (size_t)capacity * sizeof *larger);

        if (!larger) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        fences->epochs = larger;
        fences->capacity = capacity;
    }
    fences->epochs[fences->count++] = epoch;
}

void smemkit_checked_proxy_fence(int shared, int global)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;
    struct thread_clock *thread;

    if (!t)
        return;
    trace_check_log(t, t->worker->current);
    thread = &t->threads[t->worker->current];
    if (shared)
        add_fence(t, &thread->shared_fences, thread->epoch);
    if (global)
        add_fence(t, &thread->global_fences, thread->epoch);
    thread->epoch = ++t->clock;
}

void smemkit_checked_tensor_map_release(void)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;
    struct thread_clock *thread;

    if (!t)
        return;
    trace_check_log(t, t->worker->current);
    thread = &t->threads[t->worker->current];
    add_fence(t, &thread->map_releases, thread->epoch);
    thread->epoch = ++t->clock;
}

/* Whether a thread has executed one of these fences after an access of its own, and before `now`. */
static bool is_fenced(struct tracer *t, const struct proxy_fences *fences, const struct access *now,
                      const struct access *earlier)
{
    struct access fence = *earlier;
    int low = 0, high = fences->count;

    while (low < high) { /* the first fence that is not before the access */
        const int middle = (low + high) / 2;

        if (fences->epochs[middle] < earlier->epoch)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == fences->count)
        return false;
    fence.epoch = fences->epochs[low];
    return ordered(t, now, &fence);
}

static const struct proxy_fences *fences_of(const struct tracer *t, unsigned thread, enum space space)
{
    return space == SPACE_GLOBAL ? &t->threads[thread].global_fences : &t->threads[thread].shared_fences;
}

/* ---- the async proxy ---- */

static void report(struct tracer *t, const struct access *now, const struct access *last, enum proxy_fence missing,
                   bool doubtful)
{
    struct checked_fault *fault =
        trace_fault(t, KIND_RACE, (struct code_location){.item = now->item, .context = now->context},
                    (struct code_location){.item = last->item, .context = last->context}, HAZARD_PROXY);

    if (fault && fault->count == 1) {
        fault->threads = 2;
        memcpy(fault->thread[0], &t->worker->indices[now->thread], sizeof fault->thread[0]);
        memcpy(fault->thread[1], &t->worker->indices[last->thread], sizeof fault->thread[1]);
        block_index(t->trace->grid, last->block, fault->other_block);
        fault->access = now->kind;
        fault->other_access = last->kind;
        fault->size = (int)now->size;
        fault->doubtful = doubtful;
        fault->multiplies = now->multiplies;
        fault->missing = missing;
        trace_name(t, fault, now->address, now->space);
    }
    trace_fault_done();
}

/* The async proxy accesses what a thread has written through the generic one: a fence must come between. */
static void check_async(struct tracer *t, const struct access *now, const struct access *last)
{
    const struct proxy_fences *own = fences_of(t, now->thread, now->space);
    bool late;

    if (last->block != now->block || is_fenced(t, fences_of(t, last->thread, now->space), now, last))
        return;
    late = own->count && own->epochs[own->count - 1] > last->epoch;
    report(t, now, last, FENCE_ASYNC, late || now->kind != ACCESS_LOAD);
}

/* ---- the proxy of tensor maps ---- */

enum { MAP_WORDS = SMEMKIT_TENSOR_MAP_BYTES / 4 };

/* The last store to a word of a map; epoch 0: none. */
struct map_store {
    uint32_t block, epoch, thread;
};

/* An acquire of the map at this address, and the stores to its words that it comes after. */
struct map_acquire {
    uintptr_t map;
    unsigned thread;
    uint32_t epoch;
    struct map_store after[MAP_WORDS];
};

static bool has_acquired(struct tracer *t, const struct access *now, const struct access *last)
{
    for (int i = t->map_acquires.count; i-- > 0;) {
        const struct map_acquire *acquire = &t->map_acquires.items[i];
        const struct access fence = {.thread = acquire->thread, .block = now->block, .epoch = acquire->epoch};
        const struct map_store *after = &acquire->after[(now->address - now->map) / 4 % MAP_WORDS];

        if (acquire->map == now->map && after->epoch == last->epoch && after->thread == last->thread &&
            after->block == last->block && (acquire->thread == now->thread || ordered(t, now, &fence)))
            return true;
    }
    return false;
}

/* Whether a thread other than the writer has released what it had written, as can be read from the ISA. */
static bool is_released_by_another(struct tracer *t, const struct access *now, const struct access *last)
{
    for (unsigned i = 0; i < t->worker->count; i++) {
        const struct proxy_fences *fences = &t->threads[i].map_releases;
        const struct access fence = {
            .thread = i, .block = now->block, .epoch = fences->count ? fences->epochs[fences->count - 1] : 0};

        if (fence.epoch > last->epoch && ordered(t, now, &fence))
            return true;
    }
    return false;
}

static void check_map(struct tracer *t, const struct access *now, const struct access *last)
{
    const bool released =
        last->block != now->block || is_fenced(t, &t->threads[last->thread].map_releases, now, last);

    if (t->map_acquires.reported || (released && has_acquired(t, now, last)))
        return;
    t->map_acquires.reported = true;
    if (released)
        report(t, now, last, FENCE_MAP_ACQUIRE, false);
    else
        report(t, now, last, FENCE_MAP_RELEASE, is_released_by_another(t, now, last));
}

/* Notes the stores to a map that are ordered before an acquire. */
static void note_stores(struct tracer *t, struct map_acquire *acquire, const struct access *now)
{
    struct region *region = find_region(t, acquire->map);

    for (unsigned i = 0; region && region->cells && i < MAP_WORDS; i++) {
        const uintptr_t at = acquire->map + 4 * i;
        const unsigned stripe = (unsigned)(at >> 6) % STRIPES;
        struct access last;
        size_t index;

        if (at - region->start >= region->bytes)
            return;
        lock_stripe(stripe); /* the cells are replaced when another worker refines the region */
        index = (at - region->start) >> region->shift;
        last = access_from_origin(&region->origins[index].store, region->cells[index].thread,
                                  region->cells[index].epoch, ACCESS_STORE);
        unlock_stripe(stripe);
        if (last.epoch && ordered(t, now, &last))
            acquire->after[i] = (struct map_store){last.block, last.epoch, last.thread};
    }
}

void smemkit_checked_tensor_map_acquire(const void *map)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;
    struct map_acquire acquire = {.map = (uintptr_t)map};
    struct map_acquires *all;
    struct access now;

    if (!t)
        return;
    trace_check_log(t, t->worker->current);
    now = (struct access){.thread = t->worker->current,
                          .block = t->block_number,
                          .epoch = t->threads[t->worker->current].epoch,
                          .space = SPACE_GLOBAL};
    t->threads[now.thread].epoch = ++t->clock;
    acquire.thread = now.thread;
    acquire.epoch = now.epoch;
    note_stores(t, &acquire, &now);
    all = &t->map_acquires;
    for (int i = 0; i < all->count; i++) /* an earlier one has seen the same */
        if (all->items[i].map == acquire.map && all->items[i].thread == acquire.thread &&
            memcmp(all->items[i].after, acquire.after, sizeof acquire.after) == 0)
            return;
    if (all->count == all->capacity) {
        const int capacity = all->capacity ? all->capacity * 2 : 16;
        struct map_acquire *larger = realloc(all->items, (size_t)capacity * sizeof *larger);

        if (!larger) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        all->items = larger;
        all->capacity = capacity;
    }
    all->items[all->count++] = acquire;
}

/* ---- the accesses of a cell ---- */

static void check_access(struct tracer *t, const struct access *now, const struct access *last)
{
    if (last->async || !ordered(t, now, last))
        return;
    if (now->map)
        check_map(t, now, last);
    else
        check_async(t, now, last);
}

static void check_use(struct tracer *t, const struct use *use, const struct origin *origin,
                      const struct access *now)
{
    struct access last = access_from_origin(origin, use->warp * LANES, use->epoch, ACCESS_ATOMIC);

    for (uint32_t lanes = use->atomic ? use->lanes : 0; lanes; lanes &= lanes - 1) {
        last.thread = use->warp * LANES + (unsigned)__builtin_ctz(lanes);
        check_access(t, now, &last);
    }
}

void check_proxies(struct tracer *t, const struct cell *cell, const struct origins *origins,
                   const struct access *now)
{
    const struct access last = access_from_origin(&origins->store, cell->thread, cell->epoch, ACCESS_STORE);

    if (now->same_proxy)
        return;
    if (cell->epoch)
        check_access(t, now, &last);
    for (int i = 0; cell->atomics && i < USES; i++)
        if (cell->uses[i].epoch)
            check_use(t, &cell->uses[i], &origins->uses[i], now);
    for (const struct extra_uses *more = cell->uses[0].epoch ? origins->more : NULL; more; more = more->next)
        check_use(t, &more->use, &more->origin, now);
}
