/* Race detection: the shadow memory, which records the last accesses of every word, and the clocks, which
 * determine whether two accesses are ordered.
 *
 * For each word the shadow keeps the last plain store, and the last load and atomic of each thread since then. One
 * access may replace another only if everything that conflicts with the old one conflicts with the new one as
 * well. A plain store conflicts with everything, so it replaces all earlier accesses. A load replaces loads of its
 * own thread, an atomic replaces atomics of its own thread. An atomic replaces neither a load nor a plain store,
 * because other atomics conflict with those. In shared memory this is exact. In global memory a word has space for
 * MAX_ATOMICS and MAX_LOADS different warps and epochs, of as many different blocks as possible, so that a later
 * store by any block finds a use by another one.
 *
 * Each thread of a block counts epochs and begins a new one whenever it synchronises. An access is identified by
 * block, thread and epoch. After a barrier of the block every thread is ordered after all earlier epochs
 * (`base_epoch`); most kernels need no more. __syncwarp and named barriers use a table of the epochs that each
 * thread is ordered after (`known_epochs`). Fences and atomics record at the atomic's address what was released
 * there, and later atomics refer to it. Two accesses by different threads, at least one of them a store, not both
 * atomic, are a race unless the later thread is ordered after the earlier access's epoch. Comparing epochs instead
 * of whole vector clocks is the idea of FastTrack (Flanagan and Freund, 2009).
 *
 * Threads pass their accesses to the shadow before they synchronise, so the accesses arrive in an order that is
 * consistent with synchronisation. Within a barrier interval they arrive in the executor's order, which says
 * nothing about the kernel: their positions in the interval show which comes first there.
 */
#define _GNU_SOURCE
#include "shadow.h"

#include <string.h>

#include "executor/block.h"
#include "executor/wgmma.h"

static struct origin make_origin(const struct access *now)
{
    return (struct origin){now->item, now->context, now->position, now->block};
}

static void check_store(struct tracer *t, const struct cell *cell, const struct origins *origins,
                        const struct access *now)
{
    struct access last = access_from_origin(&origins->store, cell->thread, cell->epoch, ACCESS_STORE);

    last.copied = cell->copied;
    last.group = origins->group;
    if (cell->epoch && !ordered(t, now, &last))
        report_race(t, now, &last);
}

/* Whether a use precedes the last barrier of the same block. The barrier orders it, so that it can be dropped. */
static bool precedes_last_barrier(const struct tracer *t, const struct use *use, const struct origin *origin,
                                  const struct access *now)
{
    return origin->block == now->block && use->epoch < t->base_epoch && use->warp < COPIES / LANES &&
           !use->read_only;
}

static void check_use(struct tracer *t, const struct use *use, const struct origin *origin,
                      const struct access *now)
{
    struct access earlier = access_from_origin(origin, 0, use->epoch, use->atomic ? ACCESS_ATOMIC : ACCESS_LOAD);

    if (earlier.kind == now->kind || precedes_last_barrier(t, use, origin, now))
        return;
    for (uint32_t lanes = use->lanes; lanes; lanes &= lanes - 1) {
        earlier.thread = use->warp * LANES + (unsigned)__builtin_ctz(lanes);
        earlier.async = earlier.thread >= COPIES;
        earlier.read_only = use->read_only;
        if (use->read_only || !ordered(t, now, &earlier)) { /* not even an ordered write is allowed */
            report_race(t, now, &earlier);
            return;
        }
    }
}

/* Checks `now` against the loads and atomics since the last store: a store against all, a load against atomics, an
 * atomic against loads. */
static void check_uses(struct tracer *t, const struct cell *cell, const struct origins *origins,
                       const struct access *now)
{
    if (!cell->uses[0].epoch || (now->kind == ACCESS_LOAD && !cell->atomics) ||
        (now->kind == ACCESS_ATOMIC && !cell->loads))
        return;
    for (int i = 0; i < USES; i++)
        if (cell->uses[i].epoch)
            check_use(t, &cell->uses[i], &origins->uses[i], now);
    for (const struct extra_uses *more = origins->more; more; more = more->next)
        check_use(t, &more->use, &more->origin, now);
}

/* A copy may outlast a later one of the same thread, unless the thread has waited for it. */
static bool is_known_complete(struct tracer *t, const struct use *use, const struct origin *origin,
                              const struct access *now)
{
    const struct access earlier = {.block = origin->block, .epoch = use->epoch, .thread = now->thread};
    const struct access issuer = {.block = now->block, .thread = now->thread % COPIES};

    return (use->lanes >> now->thread % LANES & 1) && ordered(t, &issuer, &earlier);
}

/* Merges `now`, by some lanes of its warp, into a use of the same epoch, and returns whether it could. Otherwise
 * `now` replaces these lanes in an older use of the same warp and kind. */
static bool merge_into_use(struct tracer *t, struct use *use, const struct origin *origin, uint32_t lanes,
                           const struct access *now)
{
    if (use->warp != now->thread / LANES || use->atomic != (now->kind == ACCESS_ATOMIC) ||
        use->read_only != now->read_only || origin->block != now->block)
        return false;
    if (use->epoch == now->epoch)
        use->lanes |= lanes;
    else if (now->thread < COPIES || is_known_complete(t, use, origin, now))
        use->lanes &= ~lanes;
    return use->epoch == now->epoch;
}

/* Whether every access of a use is ordered before `now`, or before the thread that has issued it. */
static bool is_outdated(struct tracer *t, const struct use *use, const struct origin *origin,
                        const struct access *now)
{
    const struct access issuer = {.block = now->block, .thread = now->thread % COPIES};
    struct access earlier = {.block = origin->block, .epoch = use->epoch};

    if (use->atomic != (now->kind == ACCESS_ATOMIC))
        return false;
    for (uint32_t lanes = use->lanes; lanes; lanes &= lanes - 1) {
        earlier.thread = use->warp * LANES + (unsigned)__builtin_ctz(lanes);
        if (!ordered(t, &issuer, &earlier))
            return false;
    }
    return true;
}

/* Counts the uses of the same kind as `now` in a cell: of all blocks, or of `block`. */
static int count_uses(const struct cell *cell, const struct origins *origins, const struct access *now,
                      const uint32_t *block)
{
    const bool atomic = now->kind == ACCESS_ATOMIC;
    int count = 0;

    for (int i = 0; i < USES; i++)
        count += cell->uses[i].atomic == atomic && (!block || origins->uses[i].block == *block);
    for (const struct extra_uses *more = origins->more; more; more = more->next)
        count += more->use.atomic == atomic && (!block || more->origin.block == *block);
    return count;
}

/* Returns a slot for `now` in the list: a new one, or, in a full cell of global memory, that of a use that is
 * ordered before `now`. If `now` is the first use by its block, a slot of another block that has several also
 * qualifies. NULL if there is none. */
static struct extra_uses *find_extra_slot(struct tracer *t, const struct cell *cell, struct origins *origins,
                                          const struct access *now)
{
    const bool atomic = now->kind == ACCESS_ATOMIC;
    bool new_block;

    if (now->space != SPACE_GLOBAL || count_uses(cell, origins, now, NULL) < (atomic ? MAX_ATOMICS : MAX_LOADS)) {
        struct extra_uses *extra = take_extra_use(t);

        if (extra) {
            extra->next = origins->more;
            origins->more = extra;
        }
        return extra;
    }
    new_block = !count_uses(cell, origins, now, &now->block);
    for (struct extra_uses *more = origins->more; more; more = more->next)
        if (is_outdated(t, &more->use, &more->origin, now) ||
            (new_block && more->use.atomic == atomic && count_uses(cell, origins, now, &more->origin.block) > 1))
            return more;
    return NULL;
}

/* Records a load or an atomic by some lanes of a warp. `now` has the thread of one of them. */
static void add_use(struct tracer *t, struct cell *cell, struct origins *origins, uint32_t lanes,
                    const struct access *now)
{
    const struct use use = {now->epoch, lanes, (uint16_t)(now->thread / LANES), now->kind == ACCESS_ATOMIC,
                            now->read_only};
    struct extra_uses *more;
    struct use *slot = NULL;
    struct origin *origin = NULL;

    if (!cell->uses[0].epoch)
        release_extra_uses(t, origins);
    cell->atomics |= use.atomic;
    cell->loads |= !use.atomic;
    for (int i = 0; i < USES; i++) {
        if (cell->uses[i].epoch && merge_into_use(t, &cell->uses[i], &origins->uses[i], lanes, now))
            return;
        if (!slot && (!cell->uses[i].lanes || precedes_last_barrier(t, &cell->uses[i], &origins->uses[i], now))) {
            slot = &cell->uses[i];
            origin = &origins->uses[i];
        }
    }
    for (more = origins->more; more; more = more->next) {
        if (merge_into_use(t, &more->use, &more->origin, lanes, now))
            return;
        if (!slot && (!more->use.lanes || precedes_last_barrier(t, &more->use, &more->origin, now))) {
            slot = &more->use;
            origin = &more->origin;
        }
    }
    if (!slot && (more = find_extra_slot(t, cell, origins, now))) {
        slot = &more->use;
        origin = &more->origin;
    }
    if (slot) {
        *slot = use;
        *origin = make_origin(now);
    }
}

static void report_uninitialised(struct tracer *t, const struct access *now)
{
    const struct code_location here = {.item = now->item, .context = now->context}, nowhere = {0};
    struct checked_fault *fault;

    if (t->worker->terminated) /* the thread that should have written it may be terminated */
        return;
    fault = trace_fault(t, KIND_UNINITIALISED, here, nowhere, HAZARD_NONE);
    if (fault && fault->count == 1) {
        memcpy(fault->thread[0], &t->worker->indices[now->thread], sizeof fault->thread[0]);
        fault->access = now->kind;
        fault->size = (int)now->size;
        trace_name(t, fault, now->address, now->space);
    }
    trace_fault_done();
}

/* An access to the destination of a copy in flight, even by the copying thread, may come before or after the copy.
 */
static void check_copy(struct tracer *t, const struct origins *origins, const struct access *now)
{
    struct access copy = access_from_origin(&origins->copy, origins->copier, 0, ACCESS_STORE);

    copy.async = copy.copied = true;
    copy.group = origins->group;
    report_race(t, now, &copy);
}

/* A load of memory that nothing may write, after a store by any thread of the launch. */
static void report_incoherent(struct tracer *t, const struct cell *cell, const struct origins *origins,
                              const struct access *now)
{
    const struct access last = access_from_origin(&origins->store, cell->thread, cell->epoch, ACCESS_STORE);

    report_race(t, now, &last);
}

static void access_cell(struct tracer *t, struct cell *cell, struct origins *origins, const struct access *now)
{
    touch_cell(cell, origins);
    if (cell->epoch && (origins->store.block != now->block ||
                        ((cell->epoch >= t->base_epoch || cell->thread >= COPIES) && cell->thread != now->thread)))
        check_store(t, cell, origins, now);
    if (cell->epoch && now->read_only)
        report_incoherent(t, cell, origins, now);
    if (cell->pending)
        check_copy(t, origins, now);
    if (!cell->written && !cell->pending && now->reads && now->space != SPACE_GLOBAL)
        report_uninitialised(t, now);
    check_uses(t, cell, origins, now);
    if (now->kind == ACCESS_LOAD && cell->pending)
        return;
    if (now->kind != ACCESS_STORE) {
        cell->written |= now->kind == ACCESS_ATOMIC;
        add_use(t, cell, origins, UINT32_C(1) << now->thread % LANES, now);
        return;
    }
    origins->store = make_origin(now);
    *cell = (struct cell){.epoch = now->epoch,
                          .thread = (uint16_t)now->thread,
                          .written = true,
                          .pending = cell->pending,
                          .copied = now->copied};
}

/* Barrier interval and position in one number, which grows along a thread. */
static uint32_t position_in_thread(const struct tracer *t, uint32_t position)
{
    const uint32_t intervals = (UINT32_C(1) << INTERVAL_BITS) - 1, max_position = UINT32_MAX >> INTERVAL_BITS;

    return (t->interval < intervals ? t->interval : intervals) << (32 - INTERVAL_BITS) |
           (position < max_position ? position : max_position);
}

/* Checks and records `now`, at a tagged address. */
static void access_cells(struct tracer *t, struct access *now, uint64_t tagged)
{
    struct region *region;
    unsigned stripe;
    uintptr_t at, end;

    now->kind = (enum access_kind)(tagged >> KIND_SHIFT & 15);
    now->reads = now->kind == ACCESS_LOAD || now->kind == ACCESS_ATOMIC;
    if (now->kind == ACCESS_ATOMIC_STORE)
        now->kind = ACCESS_ATOMIC;
    if (now->kind == ACCESS_OBJECT)
        now->kind = ACCESS_STORE;
    now->read_only = now->kind == ACCESS_READ_ONLY;
    if (now->read_only) {
        now->kind = ACCESS_LOAD;
        now->reads = true;
    }
    now->address = (uintptr_t)address_of(tagged);
    now->size = 1u << (tagged >> SIZE_SHIFT & 15);
    now->space = (enum space)(tagged >> SPACE_SHIFT);
    region = now->space == SPACE_GLOBAL ? find_region(t, now->address) : &t->shared[now->space];
    stripe = (unsigned)(now->address >> 6) % STRIPES;
    if (!region || !region->cells)
        return;
    if (now->kind != ACCESS_ATOMIC)
        t->threads[now->thread].plain_since = true;
    if (now->size < 4)
        shadow_refine(t, region);
    if (region->global)
        lock_stripe(stripe); /* its cells are replaced when another worker refines it */
    if (region->global && t->trace->earlier)
        early_check(t, now);
    at = (now->address - region->start) >> region->shift;
    end = (now->address - region->start + now->size + (UINT32_C(1) << region->shift) - 1) >> region->shift;
    for (; at < end; at++)
        access_cell(t, &region->cells[at], &region->origins[at], now);
    if (region->global)
        unlock_stripe(stripe);
}

void shadow_accesses(struct tracer *t, unsigned thread, const uint32_t *items, unsigned count, unsigned position,
                     const uint64_t **address)
{
    struct access now = {.thread = thread, .block = t->block_number, .epoch = t->threads[thread].epoch};

    for (unsigned i = 0; i < count; i++) {
        const unsigned what = items[i] & ((1u << ITEM_BITS) - 1);

        if (what == ITEM_ENTER)
            t->context[thread] = trace_context(t, t->context[thread], items[i]);
        else if (what == ITEM_LEAVE)
            t->context[thread] = t->trace->contexts[t->context[thread]].parent;
        if (what != ITEM_ACCESS)
            continue;
        now.item = items[i];
        now.context = t->context[thread];
        now.position = position_in_thread(t, position + i);
        access_cells(t, &now, *(*address)++);
    }
}

/* Fast path for nearly all loads of tiles: a load of a whole word that was stored before the last barrier cannot
 * race; it is only recorded. Returns whether that is the case. `now` has the thread of one of the lanes. */
static inline bool is_plain_load(struct tracer *t, const struct region *region, uint64_t tagged, uint32_t lanes,
                                 const struct access *now)
{
    const size_t at = (address_of(tagged) - region->start) >> 2;
    struct cell *cell = &region->cells[at];
    struct use *first = &cell->uses[0];

    if (!cell->written || cell->epoch >= t->base_epoch || cell->thread >= COPIES || cell->pending || cell->atomics)
        return false;
    if (first->epoch == now->epoch && first->warp == now->thread / LANES)
        first->lanes |= lanes;
    else
        add_use(t, cell, &region->origins[at], lanes, now);
    return true;
}

void shadow_request(struct tracer *t, const struct site *site, unsigned warp, const uint64_t *tagged,
                    unsigned position)
{
    const unsigned first = warp * LANES + site->group_lane[0];
    const struct region *region = &t->shared[tagged[site->group_lane[0]] >> SPACE_SHIFT == SPACE_DYNAMIC];
    const bool words = site->kind == ACCESS_LOAD && site->space != SPACE_GLOBAL && site->size == 4 &&
                       region->shift == 2 && region->cells && !t->fences_used && !t->worker->in_cluster;
    struct access now = {.thread = first,
                         .block = t->block_number,
                         .epoch = t->threads[first].epoch,
                         .item = site->item,
                         .context = site->context,
                         .position = position_in_thread(t, position)};

    for (unsigned i = 0; i < site->group_count; i++) {
        uint32_t lanes = site->group_lanes[i];

        now.thread = warp * LANES + site->group_lane[i];
        if (words && is_plain_load(t, region, tagged[site->group_lane[i]], lanes, &now))
            continue;
        for (; lanes; lanes &= lanes - 1) {
            now.thread = warp * LANES + (unsigned)__builtin_ctz(lanes);
            access_cells(t, &now, tagged[site->group_lane[i]]);
        }
    }
}

/* An asynchronous copy to a cell is issued. */
static void issue_to_cell(struct tracer *t, struct cell *cell, struct origins *origins, const struct access *copy)
{
    if (cell->pending)
        check_copy(t, origins, copy);
    if (cell->epoch &&
        (origins->store.block != copy->block ||
         ((cell->epoch >= t->base_epoch || cell->thread >= COPIES) && cell->thread != copy->thread)))
        check_store(t, cell, origins, copy);
    check_uses(t, cell, origins, copy);
    cell->pending = true;
    origins->copier = (uint16_t)copy->thread;
    origins->copy = make_origin(copy);
    origins->group = copy->group;
}

/* The copy is complete for its thread. It counts as a store at the position of the copy, which is before all reads
 * that should have waited for it. Earlier accesses were checked when it was issued. */
static void complete_cell(struct tracer *t, struct cell *cell, struct origins *origins, const struct access *copy)
{
    struct access now = *copy;

    if (cell->pending && origins->copier == copy->thread) {
        now.context = origins->copy.context;
        now.position = origins->copy.position;
    }
    *cell = (struct cell){0};
    access_cell(t, cell, origins, &now);
}

void shadow_async(struct tracer *t, unsigned thread, const void *to, unsigned bytes, uint32_t item,
                  uint32_t position, bool completed)
{
    const uintptr_t address = (uintptr_t)to;
    const enum space space = address - t->spans[SPACE_STATIC].start < t->spans[SPACE_STATIC].bytes ? SPACE_STATIC
                             : address - t->spans[SPACE_DYNAMIC].start < t->spans[SPACE_DYNAMIC].bytes
                                 ? SPACE_DYNAMIC
                                 : SPACE_NONE;
    const struct access now = {.thread = thread,
                               .block = t->block_number,
                               .epoch = t->threads[thread].epoch,
                               .item = item,
                               .context = t->context[thread],
                               .position = position,
                               .kind = ACCESS_STORE,
                               .address = address,
                               .size = bytes,
                               .space = space,
                               .async = !completed,
                               .copied = true,
                               .group = async_group(t->worker, thread)};
    struct region *region;

    if (space == SPACE_NONE)
        return;
    region = &t->shared[space];
    for (uintptr_t at = (address - region->start) >> region->shift;
         at < (address - region->start + bytes) >> region->shift; at++) {
        struct cell *cell = &region->cells[at];
        struct origins *origins = &region->origins[at];

        if (completed)
            complete_cell(t, cell, origins, &now);
        else
            issue_to_cell(t, cell, origins, &now);
    }
}

uint32_t shadow_position(const struct tracer *t, unsigned thread)
{
    return position_in_thread(t, trace_position(t, thread));
}

void shadow_operand_access(struct tracer *t, struct region *region, const struct access *now, uint32_t epoch)
{
    const size_t at = (now->address - region->start) >> region->shift;
    struct cell *cell = &region->cells[at];
    struct origins *origins = &region->origins[at];
    struct access reads = *now;

    check_proxies(t, cell, origins, now);
    if (cell->epoch && (cell->thread != now->thread || origins->store.block != now->block))
        check_store(t, cell, origins, now);
    if (cell->pending)
        check_copy(t, origins, now);
    if (!cell->written && !cell->pending)
        report_uninitialised(t, now);
    check_uses(t, cell, origins, now);
    if (!epoch)
        return;
    reads.thread = now->thread / GROUP_THREADS * GROUP_THREADS + MULTIPLICATIONS;
    reads.epoch = epoch;
    add_use(t, cell, origins, UINT32_C(1) << reads.thread % LANES, &reads);
}

static void copy_cell(struct tracer *t, struct cell *cell, struct origins *origins, const struct access *now,
                      uint32_t epoch)
{
    struct access copy = *now;

    touch_cell(cell, origins);
    copy.thread += COPIES;
    copy.epoch = epoch;
    check_proxies(t, cell, origins, now);
    if (cell->epoch && (cell->thread != now->thread || origins->store.block != now->block))
        check_store(t, cell, origins, now);
    if (cell->pending)
        check_copy(t, origins, now);
    if (!cell->written && !cell->pending && now->reads && now->space != SPACE_GLOBAL)
        report_uninitialised(t, now);
    check_uses(t, cell, origins, now);
    if (now->kind != ACCESS_STORE) {
        cell->written |= now->kind == ACCESS_ATOMIC;
        add_use(t, cell, origins, UINT32_C(1) << copy.thread % LANES, &copy);
    } else {
        origins->store = make_origin(&copy);
        *cell = (struct cell){.epoch = epoch, .thread = (uint16_t)copy.thread, .written = true};
    }
}

void shadow_copy_access(struct tracer *t, struct region *region, const struct access *now, uint32_t epoch)
{
    const uintptr_t offset = now->address - region->start;
    const unsigned stripe = (unsigned)(now->address >> 6) % STRIPES;

    if (region->global)
        lock_stripe(stripe); /* its cells are replaced when another worker refines it */
    if (region->global && t->trace->earlier)
        early_check(t, now);
    for (size_t at = offset >> region->shift; at << region->shift < offset + now->size; at++)
        copy_cell(t, &region->cells[at], &region->origins[at], now, epoch);
    if (region->global)
        unlock_stripe(stripe);
}
