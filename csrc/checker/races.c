/* Race detection: the shadow memory, which records the last accesses of every word, and the clocks, which tell
 * whether two accesses are ordered.
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
 * consistent with synchronisation. Within a barrier interval they arrive in the executor's order, which means
 * nothing: their positions in the interval tell which would come first in the kernel.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/block.h"
#include "executor/memory.h"
#include "trace.h"

enum { USES = 2, MAX_ATOMICS = 32, MAX_LOADS = 4, USES_IN_CHUNK = 1024, STRIPES = 256, INTERVAL_BITS = 10 };

/* A use of a word: the lanes of one warp that have loaded it, or done an atomic on it, in one epoch. */
struct use {
    uint32_t epoch, lanes; /* epoch 0: none */
    uint16_t warp;
    bool atomic;
};

struct cell {
    uint32_t epoch; /* of the last plain store; 0: none */
    uint16_t thread;
    bool written : 1; /* by a store, an atomic or a copy */
    bool atomics : 1; /* some uses may be atomics */
    bool pending : 1; /* an asynchronous copy to it is in flight */
    struct use uses[USES];
};

/* Code location of an access of a cell, needed only for a race; and its block, needed only for global memory. */
struct origin {
    uint32_t item, context, position, block;
};

struct origins {
    struct origin store, uses[USES], copy;
    struct extra_uses *more; /* valid only while the cell's own uses are occupied, the first one included */
    uint16_t copier;         /* thread of the copy in flight */
};

/* Uses beyond those in the cell. */
struct extra_uses {
    struct extra_uses *next;
    struct use use;
    struct origin origin;
};

/* Their memory, which is freed after the launch. */
struct uses_chunk {
    struct uses_chunk *next;
    struct extra_uses items[USES_IN_CHUNK];
};

/* The access that is being checked. */
struct access {
    unsigned thread;
    uint32_t block, epoch, item, context, position;
    enum access_kind kind;
    uintptr_t address;
    unsigned size;
    enum space space;
    bool reads;
    bool async; /* an asynchronous copy that has not been waited for */
};

/* ---- shadow memory ---- */

/* All workers share the cells of global memory: an access holds the lock of its 64 bytes. Refining a region takes
 * all locks. */
static atomic_flag stripes[STRIPES];
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;
/* Protects all sync_objects and their releases. */
static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;

void races_after_fork(void)
{
    pthread_mutex_init(&regions_lock, NULL);
    pthread_mutex_init(&objects_lock, NULL);
    for (int i = 0; i < STRIPES; i++)
        atomic_flag_clear(&stripes[i]);
}

static void lock_stripe(unsigned i)
{
    while (atomic_flag_test_and_set_explicit(&stripes[i], memory_order_acquire))
        ;
}

static void unlock_stripe(unsigned i)
{
    atomic_flag_clear_explicit(&stripes[i], memory_order_release);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static size_t cells_of(const struct region *region, int shift)
{
    return (region->bytes + ((size_t)1 << shift) - 1) >> shift;
}

static bool map_cells(struct region *region, int shift)
{
    region->shift = shift;
    region->cells = map(cells_of(region, shift) * sizeof(struct cell));
    region->origins = map(cells_of(region, shift) * sizeof(struct origins));
    if (!region->cells || !region->origins)
        shadow_free(region);
    return region->cells != NULL;
}

void shadow_forget(struct region *region, uintptr_t start, size_t bytes)
{
    const size_t first = (start - region->start) >> region->shift;
    const size_t last = (start - region->start + bytes + (1u << region->shift) - 1) >> region->shift;

    if (region->cells)
        memset(region->cells + first, 0, (last - first) * sizeof(struct cell));
}

bool shadow_map(struct region *region, uintptr_t start, size_t bytes, bool global)
{
    const size_t extra = start & 3; /* cells are aligned words, even if a borrowed array is not */

    *region = (struct region){
        .start = start - extra, .bytes = bytes + extra, .used = bytes + extra, .shift = 2, .global = global};
    return map_cells(region, 2);
}

void shadow_free(struct region *region)
{
    const size_t count = cells_of(region, region->shift);

    if (region->cells)
        munmap(region->cells, count * sizeof(struct cell));
    if (region->origins)
        munmap(region->origins, count * sizeof(struct origins));
    region->cells = NULL;
    region->origins = NULL;
}

/* ---- uses beyond a cell's own ---- */

static struct extra_uses *take_extra_use(struct tracer *t)
{
    struct extra_uses *extra = t->free_uses;
    struct uses_chunk *chunk;

    if (!extra) {
        chunk = calloc(1, sizeof *chunk);
        if (!chunk) {
            t->trace->observed.out_of_memory = true;
            return NULL;
        }
        for (int i = 0; i < USES_IN_CHUNK; i++)
            chunk->items[i].next = i + 1 < USES_IN_CHUNK ? &chunk->items[i + 1] : NULL;
        pthread_mutex_lock(&regions_lock);
        chunk->next = t->trace->uses;
        t->trace->uses = chunk;
        pthread_mutex_unlock(&regions_lock);
        extra = chunk->items;
    }
    t->free_uses = extra->next;
    extra->next = NULL;
    return extra;
}

static void release_extra_uses(struct tracer *t, struct origins *origins)
{
    while (origins->more) {
        struct extra_uses *next = origins->more->next;

        origins->more->next = t->free_uses;
        t->free_uses = origins->more;
        origins->more = next;
    }
}

static struct extra_uses *copy_extra_uses(struct tracer *t, const struct extra_uses *from)
{
    struct extra_uses *first = NULL, **link = &first;

    for (; from && (*link = take_extra_use(t)); from = from->next, link = &(*link)->next) {
        (*link)->use = from->use;
        (*link)->origin = from->origin;
    }
    return first;
}

/* Replaces cells of four bytes by cells of one byte, for an access smaller than a word. */
static bool refine(struct tracer *t, struct region *region)
{
    struct region coarse = *region;
    const size_t words = (region->used + 3) / 4, bytes = cells_of(region, 0);

    if (!map_cells(region, 0)) {
        *region = coarse;
        return false;
    }
    for (size_t i = 0; i < words; i++) {
        const struct cell *word = &coarse.cells[i];

        if (!word->written && !word->pending && !word->uses[0].epoch)
            continue;
        for (size_t j = i * 4; j < i * 4 + 4 && j < bytes; j++) {
            region->cells[j] = *word;
            region->origins[j] = coarse.origins[i];
            region->origins[j].more = word->uses[0].epoch ? copy_extra_uses(t, coarse.origins[i].more) : NULL;
        }
    }
    shadow_free(&coarse);
    return true;
}

static struct region *find_region(struct tracer *t, uintptr_t address)
{
    struct trace *trace = t->trace;
    struct region *found = NULL;
    uintptr_t start, end;

    if (t->recent && address - t->recent->start < t->recent->bytes)
        return t->recent;
    pthread_mutex_lock(&regions_lock);
    for (found = trace->regions; found; found = found->next)
        if (address - found->start < found->bytes)
            break;
    if (!found && (found = calloc(1, sizeof *found))) {
        if (library_has_data(&trace->library, address)) {
            start = trace->library.data_start;
            end = trace->library.data_end;
        } else if (!memory_find((const void *)address, &start, &end)) {
            start = end = 0;
        }
        if (start == end || !shadow_map(found, start, end - start, true)) {
            free(found);
            found = NULL;
        } else {
            found->next = trace->regions;
            trace->regions = found;
        }
    }
    pthread_mutex_unlock(&regions_lock);
    if (found)
        t->recent = found;
    return found;
}

void shadow_free_all(struct trace *trace)
{
    while (trace->regions) {
        struct region *region = trace->regions;

        trace->regions = region->next;
        shadow_free(region);
        free(region);
    }
    while (trace->uses) {
        struct uses_chunk *chunk = trace->uses;

        trace->uses = chunk->next;
        free(chunk);
    }
}

/* ---- order ---- */

/* What one thread released at one address: its accesses up to `epoch` and its block's before `base`; or everything
 * that it had acquired from `elsewhere`. */
struct release {
    uint32_t block, base[2], epoch[2]; /* [0] for its own block, [1] for the device */
    uint16_t thread;
    struct sync_object *elsewhere; /* with `count` and `near` as in struct seen */
    uint32_t count, near;
    uint64_t visited; /* number of the last search that visited it */
};

struct sync_object {
    struct sync_object *next; /* in its list of the launch */
    uintptr_t address;
    uint32_t block; /* of shared memory; 0: global memory */
    struct release *releases;
    uint32_t count, capacity;
    uint64_t visited;       /* number of the last search, which */
    uint32_t visited_count; /* visits its first visited_count releases */
};

/* A thread is ordered after the first `count` releases of an object; and, by fences of its block alone, after
 * those of its own block among the first `near`. */
struct seen {
    struct sync_object *object;
    uint32_t count, near;
};

/* Number of the last search for a chain of releases. */
static uint64_t searches;

/* Whether `seen`, of a thread of `block`, orders `by` after `earlier`. A search visits each release once: what
 * follows from it does not depend on how the search reached it. */
static bool search_releases(const struct seen *seen, uint32_t block, const struct access *by,
                            const struct access *earlier, int depth)
{
    struct sync_object *object = seen->object;
    const uint32_t end = seen->near > seen->count ? seen->near : seen->count;
    const uint32_t visited = object->visited == searches ? object->visited_count : 0;

    if (depth > 4096)
        return false;
    object->visited = searches;
    object->visited_count = visited > seen->count ? visited : seen->count;
    for (uint32_t i = end; i-- > visited;) {
        struct release *release = &object->releases[i];

        if (release->visited == searches || (i >= seen->count && release->block != block))
            continue;
        release->visited = searches;
        if (release->elsewhere) {
            const struct seen there = {release->elsewhere, release->count, release->near};

            if (search_releases(&there, release->block, by, earlier, depth + 1))
                return true;
        } else if (release->block == earlier->block) {
            const int scope = by->block != release->block;

            if (earlier->epoch < release->base[scope] ||
                (earlier->thread == release->thread && earlier->epoch <= release->epoch[scope]))
                return true;
        }
    }
    return false;
}

static bool any_release_orders(const struct clock_list *list, const struct access *by,
                               const struct access *earlier)
{
    for (int i = 0; i < list->count; i++) {
        searches++;
        if (search_releases(&list->items[i], by->block, by, earlier, 0))
            return true;
    }
    return false;
}

/* Whether `earlier`, which the shadow recorded before, is ordered before `now`. */
static bool ordered(struct tracer *t, const struct access *now, const struct access *earlier)
{
    bool found;

    if (now->block == earlier->block &&
        (earlier->thread == now->thread || earlier->epoch < t->base_epoch ||
         (t->known_used && earlier->epoch < t->known_epochs[now->thread * t->worker->count + earlier->thread])))
        return true;
    if (!t->seen_used)
        return false;
    pthread_mutex_lock(&objects_lock);
    found = any_release_orders(&t->threads[now->thread].seen, now, earlier) ||
            any_release_orders(&t->seen, now, earlier);
    pthread_mutex_unlock(&objects_lock);
    return found;
}

/* ---- accesses ---- */

static void block_index(const struct smemkit_launch *launch, uint32_t block, unsigned *index)
{
    const uint32_t number = block - 1, columns = launch->grid[0], rows = launch->grid[1];

    index[0] = number % columns;
    index[1] = number / columns % rows;
    index[2] = number / columns / rows;
}

static void report_race(struct tracer *t, const struct access *now, const struct access *earlier)
{
    /* the kernel's order, not the executor's */
    const bool swapped = earlier->position > now->position;
    const struct access *first = swapped ? now : earlier, *second = swapped ? earlier : now;
    const enum hazard hazard = second->kind == ACCESS_LOAD  ? HAZARD_RAW
                               : first->kind == ACCESS_LOAD ? HAZARD_WAR
                                                            : HAZARD_WAW;
    const struct code_location here = {.item = second->item, .context = second->context};
    const struct code_location other = {.item = first->item, .context = first->context};
    struct checked_fault *fault = trace_fault(t, KIND_RACE, here, other, hazard);
    const bool same_warp = first->block == second->block && first->thread / 32 == second->thread / 32;

    if (fault && (fault->count == 1 ||
                  (fault->warp_synchronous && !same_warp))) { /* a pair of different warps is the better example */
        const struct index3 *a = &t->worker->indices[second->thread], *b = &t->worker->indices[first->thread];

        fault->threads = 2;
        memcpy(fault->thread[0], a, sizeof fault->thread[0]);
        memcpy(fault->thread[1], b, sizeof fault->thread[1]);
        block_index(t->trace->launch, second->block, fault->block);
        block_index(t->trace->launch, first->block, fault->other_block);
        fault->access = second->kind;
        fault->other_access = first->kind;
        fault->warp_synchronous = same_warp;
        fault->async = now->async || earlier->async;
        fault->size = (int)now->size;
        trace_name(t, fault, now->address, now->space);
    }
    trace_fault_done();
}

static struct origin make_origin(const struct access *now)
{
    return (struct origin){now->item, now->context, now->position, now->block};
}

static struct access access_from_origin(const struct origin *origin, unsigned thread, uint32_t epoch,
                                        enum access_kind kind)
{
    return (struct access){.thread = thread,
                           .block = origin->block,
                           .epoch = epoch,
                           .item = origin->item,
                           .context = origin->context,
                           .position = origin->position,
                           .kind = kind};
}

static void check_store(struct tracer *t, const struct cell *cell, const struct origins *origins,
                        const struct access *now)
{
    const struct access last = access_from_origin(&origins->store, cell->thread, cell->epoch, ACCESS_STORE);

    if (cell->epoch && !ordered(t, now, &last))
        report_race(t, now, &last);
}

/* Whether the access is before the last barrier of the same block. */
static bool is_past(const struct tracer *t, uint32_t epoch, const struct origin *origin, const struct access *now)
{
    return origin->block == now->block && epoch < t->base_epoch;
}

static void check_use(struct tracer *t, const struct use *use, const struct origin *origin,
                      const struct access *now)
{
    struct access earlier = access_from_origin(origin, 0, use->epoch, use->atomic ? ACCESS_ATOMIC : ACCESS_LOAD);

    if (earlier.kind == now->kind || is_past(t, use->epoch, origin, now))
        return;
    for (uint32_t lanes = use->lanes; lanes; lanes &= lanes - 1) {
        earlier.thread = use->warp * LANES + (unsigned)__builtin_ctz(lanes);
        if (!ordered(t, now, &earlier)) {
            report_race(t, now, &earlier);
            return;
        }
    }
}

/* Checks `now` against the loads and atomics since the last store. */
static void check_uses(struct tracer *t, const struct cell *cell, const struct origins *origins,
                       const struct access *now)
{
    if (!cell->uses[0].epoch)
        return;
    for (int i = 0; i < USES; i++)
        if (cell->uses[i].epoch)
            check_use(t, &cell->uses[i], &origins->uses[i], now);
    for (const struct extra_uses *more = origins->more; more; more = more->next)
        check_use(t, &more->use, &more->origin, now);
}

/* Merges `now`, by some lanes of its warp, into a use of the same epoch, and returns whether it could. Otherwise
 * `now` replaces these lanes in an older use of the same warp and kind. */
static bool merge_into_use(struct use *use, const struct origin *origin, uint32_t lanes, const struct access *now)
{
    if (use->warp != now->thread / LANES || use->atomic != (now->kind == ACCESS_ATOMIC) ||
        origin->block != now->block)
        return false;
    if (use->epoch == now->epoch)
        use->lanes |= lanes;
    else
        use->lanes &= ~lanes;
    return use->epoch == now->epoch;
}

/* Whether every access of a use is ordered before `now`. */
static bool is_outdated(struct tracer *t, const struct use *use, const struct origin *origin,
                        const struct access *now)
{
    struct access earlier = {.block = origin->block, .epoch = use->epoch};

    if (use->atomic != (now->kind == ACCESS_ATOMIC))
        return false;
    for (uint32_t lanes = use->lanes; lanes; lanes &= lanes - 1) {
        earlier.thread = use->warp * LANES + (unsigned)__builtin_ctz(lanes);
        if (!ordered(t, now, &earlier))
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
 * ordered before `now`. If `now` is the first of its block, a slot of another block with two slots will do too.
 * NULL if there is none. */
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
    const struct use use = {now->epoch, lanes, (uint16_t)(now->thread / LANES), now->kind == ACCESS_ATOMIC};
    struct extra_uses *more;
    struct use *slot = NULL;
    struct origin *origin = NULL;

    if (!cell->uses[0].epoch)
        release_extra_uses(t, origins);
    for (int i = 0; i < USES; i++) {
        if (cell->uses[i].epoch && merge_into_use(&cell->uses[i], &origins->uses[i], lanes, now))
            return;
        if (!slot && (!cell->uses[i].lanes || is_past(t, cell->uses[i].epoch, &origins->uses[i], now))) {
            slot = &cell->uses[i];
            origin = &origins->uses[i];
        }
    }
    for (more = origins->more; more; more = more->next) {
        if (merge_into_use(&more->use, &more->origin, lanes, now))
            return;
        if (!slot && (!more->use.lanes || is_past(t, more->use.epoch, &more->origin, now))) {
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

    copy.async = true;
    report_race(t, now, &copy);
}

static void access_cell(struct tracer *t, struct cell *cell, struct origins *origins, const struct access *now)
{
    if (cell->epoch &&
        (origins->store.block != now->block || (cell->epoch >= t->base_epoch && cell->thread != now->thread)))
        check_store(t, cell, origins, now);
    if (cell->pending)
        check_copy(t, origins, now);
    if (!cell->written && !cell->pending && now->reads && now->space != SPACE_GLOBAL)
        report_uninitialised(t, now);
    if (now->kind != ACCESS_LOAD || cell->atomics)
        check_uses(t, cell, origins, now);
    if (now->kind == ACCESS_LOAD && cell->pending)
        return;
    if (now->kind != ACCESS_STORE) {
        cell->written |= now->kind == ACCESS_ATOMIC;
        cell->atomics |= now->kind == ACCESS_ATOMIC;
        add_use(t, cell, origins, UINT32_C(1) << now->thread % LANES, now);
        return;
    }
    origins->store = make_origin(now);
    *cell = (struct cell){
        .epoch = now->epoch, .thread = (uint16_t)now->thread, .written = true, .pending = cell->pending};
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
    now->address = (uintptr_t)(tagged & ((UINT64_C(1) << ADDRESS_BITS) - 1));
    now->size = 1u << (tagged >> SIZE_SHIFT & 15);
    now->space = (enum space)(tagged >> SPACE_SHIFT);
    region = now->space == SPACE_GLOBAL ? find_region(t, now->address) : &t->shared[now->space];
    stripe = (unsigned)(now->address >> 6) % STRIPES;
    if (!region || !region->cells)
        return;
    if (now->kind != ACCESS_ATOMIC)
        t->threads[now->thread].plain_since = true;
    if (region->shift && now->size < 4) {
        if (region->global)
            for (unsigned i = 0; i < STRIPES; i++)
                lock_stripe(i);
        if (region->shift && !refine(t, region))
            t->trace->observed.out_of_memory = true;
        if (region->global)
            for (unsigned i = 0; i < STRIPES; i++)
                unlock_stripe(i);
    }
    if (region->global)
        lock_stripe(stripe);
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
    const size_t at = ((tagged & ((UINT64_C(1) << ADDRESS_BITS) - 1)) - region->start) >> 2;
    struct cell *cell = &region->cells[at];
    struct use *first = &cell->uses[0];

    if (!cell->written || cell->epoch >= t->base_epoch || cell->pending || cell->atomics)
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
                       region->shift == 2 && region->cells && !t->fences_used;
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

void shadow_async(struct tracer *t, unsigned thread, const void *to, unsigned bytes, uint32_t item, bool completed)
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
                               .position = position_in_thread(t, t->position[thread] + t->checked[thread]),
                               .kind = ACCESS_STORE,
                               .address = address,
                               .size = bytes,
                               .space = space,
                               .async = !completed};
    struct region *region;

    if (space == SPACE_NONE)
        return;
    region = &t->shared[space];
    for (uintptr_t at = (address - region->start) >> region->shift;
         at < (address - region->start + bytes) >> region->shift; at++) {
        struct cell *cell = &region->cells[at];
        struct origins *origins = &region->origins[at];

        if (completed) {
            *cell = (struct cell){0}; /* earlier accesses were checked when the copy was issued */
            access_cell(t, cell, origins, &now);
        } else {
            if (cell->pending)
                check_copy(t, origins, &now);
            if (cell->epoch >= t->base_epoch && cell->thread != thread)
                check_store(t, cell, origins, &now);
            check_uses(t, cell, origins, &now);
            cell->pending = true;
            origins->copier = (uint16_t)thread;
            origins->copy = make_origin(&now);
        }
    }
}

/* ---- clocks ---- */

bool clocks_prepare(struct tracer *t)
{
    t->threads = calloc(MAX_THREADS, sizeof *t->threads);
    return t->threads != NULL;
}

static void list_free(struct clock_list *list)
{
    free(list->items);
    *list = (struct clock_list){0};
}

void clocks_dispose(struct tracer *t)
{
    for (unsigned i = 0; t->threads && i < MAX_THREADS; i++) {
        list_free(&t->threads[i].seen);
        list_free(&t->threads[i].pending);
    }
    list_free(&t->seen);
    free(t->threads);
    if (t->known_epochs)
        munmap(t->known_epochs, (size_t)MAX_THREADS * MAX_THREADS * sizeof *t->known_epochs);
}

void clocks_block_begin(struct tracer *t)
{
    const struct worker *w = t->worker;
    const unsigned *grid = t->trace->grid;

    t->block_number = 1 + w->block.x + grid[0] * (w->block.y + grid[1] * w->block.z);
    t->clock = t->base_epoch = 1;
    t->interval = 0;
    t->published = 0;
    if (t->known_used)
        memset(t->known_epochs, 0, (size_t)w->count * w->count * sizeof *t->known_epochs);
    t->known_used = t->fences_used = t->seen_used = false;
    t->seen.count = 0;
    for (unsigned i = 0; i < w->count; i++) {
        struct thread_clock *thread = &t->threads[i];

        thread->epoch = 1;
        memset(thread->fence, 0, sizeof thread->fence);
        memset(thread->fence_base, 0, sizeof thread->fence_base);
        thread->plain_since = false;
        thread->seen.count = thread->pending.count = 0;
    }
}

static void list_add(struct tracer *t, struct clock_list *list, const struct seen *seen)
{
    for (int i = 0; i < list->count; i++) {
        struct seen *item = &list->items[i];

        if (item->object == seen->object) {
            item->count = item->count < seen->count ? seen->count : item->count;
            item->near = item->near < seen->near ? seen->near : item->near;
            return;
        }
    }
    if (list->count == list->capacity) {
        const int capacity = list->capacity ? list->capacity * 2 : 4;
        struct seen *items = realloc(list->items, (size_t)capacity * sizeof *items);

        if (!items) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *seen;
}

static void list_join(struct tracer *t, struct clock_list *list, struct clock_list *from)
{
    for (int i = 0; i < from->count; i++)
        list_add(t, list, &from->items[i]);
    from->count = 0;
}

void clock_barrier(struct tracer *t)
{
    const unsigned count = t->worker->count;

    if (t->seen_used) {
        for (unsigned i = 0; i < count; i++) {
            list_join(t, &t->seen, &t->threads[i].seen);
            list_join(t, &t->seen, &t->threads[i].pending);
        }
    }
    if (t->fences_used) {
        uint32_t least = UINT32_MAX;

        for (unsigned i = 0; i < count; i++)
            least = t->threads[i].fence[1] < least ? t->threads[i].fence[1] : least;
        if (least + 1 > t->published)
            t->published = least + 1;
    }
    t->base_epoch = ++t->clock;
    t->interval++;
    for (unsigned i = 0; i < count; i++)
        t->threads[i].epoch = t->base_epoch;
}

static bool enable_known_epochs(struct tracer *t)
{
    if (!t->known_epochs) {
        void *memory = mmap(NULL, (size_t)MAX_THREADS * MAX_THREADS * sizeof *t->known_epochs,
                            PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED) {
            t->trace->observed.out_of_memory = true;
            return false;
        }
        t->known_epochs = memory;
    }
    t->known_used = true;
    return true;
}

void clock_join(struct tracer *t, const uint64_t *from, const uint64_t *to)
{
    const unsigned count = t->worker->count;
    uint32_t joined[MAX_THREADS] = {0};
    struct clock_list seen = {0};

    if (!enable_known_epochs(t))
        return;
    for (unsigned i = 0; i < count; i++) {
        struct thread_clock *thread = &t->threads[i];

        if (!(from[i >> 6] >> (i & 63) & 1))
            continue;
        for (unsigned j = 0; j < count; j++)
            joined[j] = t->known_epochs[i * count + j] > joined[j] ? t->known_epochs[i * count + j] : joined[j];
        if (thread->arrived + 1 > joined[i])
            joined[i] = thread->arrived + 1;
        if (t->seen_used)
            for (int k = 0; k < thread->seen.count; k++)
                list_add(t, &seen, &thread->seen.items[k]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (!(to[i >> 6] >> (i & 63) & 1))
            continue;
        memcpy(&t->known_epochs[i * count], joined, count * sizeof *joined);
        for (int k = 0; k < seen.count; k++)
            list_add(t, &t->threads[i].seen, &seen.items[k]);
    }
    list_free(&seen);
}

void clock_arrive(struct tracer *t, unsigned thread)
{
    t->threads[thread].arrived = t->threads[thread].epoch;
    t->threads[thread].epoch = ++t->clock;
}

void clock_fence(struct tracer *t, unsigned number, int scope)
{
    struct thread_clock *thread = &t->threads[number];

    for (int i = 0; i < (scope > 1 ? 2 : 1); i++) {
        thread->fence[i] = thread->epoch;
        thread->fence_base[i] = t->base_epoch;
    }
    thread->epoch = ++t->clock;
    thread->plain_since = false;
    thread->fence_scope = scope > 1;
    t->fences_used = true;
    if (scope > 1)
        list_join(t, &thread->seen, &thread->pending);
    for (int i = 0; i < thread->pending.count; i++) /* a block fence; releases of other blocks stay pending */
        list_add(t, &thread->seen,
                 &(struct seen){thread->pending.items[i].object, 0, thread->pending.items[i].near});
}

static struct sync_object *object_at(struct tracer *t, uintptr_t address)
{
    struct trace *trace = t->trace;
    const uint32_t block = library_has_data(&trace->library, address)                             ? 0
                           : t->spans[0].bytes && address - t->spans[0].start < t->spans[0].bytes ? t->block_number
                           : t->spans[1].bytes && address - t->spans[1].start < t->spans[1].bytes ? t->block_number
                                                                                                  : 0;
    struct sync_object **link = &trace->objects[(address >> 2 ^ block) % OBJECT_LISTS], *object;

    for (object = *link; object; object = object->next)
        if (object->address == address && object->block == block)
            return object;
    object = calloc(1, sizeof *object);
    if (!object) {
        trace->observed.out_of_memory = true;
        return NULL;
    }
    object->address = address;
    object->block = block;
    object->next = *link;
    *link = object;
    return object;
}

static void add_release(struct tracer *t, struct sync_object *object, const struct release *release)
{
    if (object->count == object->capacity) {
        const uint32_t capacity = object->capacity ? object->capacity * 2 : 4;
        struct release *releases = realloc(object->releases, capacity * sizeof *releases);

        if (!releases) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        object->releases = releases;
        object->capacity = capacity;
    }
    object->releases[object->count++] = *release;
}

/* Releases at `object` also what the thread has acquired elsewhere. */
static void forward_releases(struct tracer *t, struct sync_object *object, const struct clock_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const struct seen *seen = &list->items[i];
        const struct release release = {
            .block = t->block_number, .elsewhere = seen->object, .count = seen->count, .near = seen->near};
        bool known = seen->object == object && seen->count >= seen->near;

        for (uint32_t j = object->count; j-- > 0 && !known && object->count - j < 64;) {
            const struct release *other = &object->releases[j];

            known = other->elsewhere == release.elsewhere && other->block == release.block &&
                    other->count >= release.count && other->near >= release.near;
        }
        if (!known)
            add_release(t, object, &release);
    }
}

static void record_release(struct tracer *t, unsigned number, struct sync_object *object, bool fenced)
{
    struct thread_clock *thread = &t->threads[number];
    struct release release = {.block = t->block_number, .thread = (uint16_t)number};

    for (int i = 0; i < 2; i++) {
        const bool now =
            fenced || (!thread->plain_since && t->fences_used && thread->fence[i] && i <= thread->fence_scope);

        /* includes the atomic itself, unless plain accesses lie between it and the fence */
        release.epoch[i] = now ? thread->epoch : thread->fence[i];
        release.base[i] = fenced ? t->base_epoch : thread->fence_base[i];
        if (t->published > release.base[i])
            release.base[i] = t->published;
    }
    if (!release.epoch[0] && !release.base[0])
        return;
    add_release(t, object, &release);
    forward_releases(t, object, &t->seen);
    forward_releases(t, object, &thread->seen);
    if (t->known_used) { /* what __syncwarp and named barriers have ordered */
        for (unsigned i = 0; i < t->worker->count; i++) {
            const uint32_t known = t->known_epochs[number * t->worker->count + i];

            if (i != number && known > t->base_epoch && known > 0) {
                const struct release also = {
                    .block = t->block_number, .thread = (uint16_t)i, .epoch = {known - 1, known - 1}};

                add_release(t, object, &also);
            }
        }
    }
    thread->epoch = ++t->clock;
}

void clock_atomic_begin(struct tracer *t)
{
    pthread_mutex_lock(&objects_lock);
    t->in_atomic = true;
}

void clock_atomic(struct tracer *t, unsigned number, uintptr_t address, bool wrote, int order)
{
    struct thread_clock *thread = &t->threads[number];
    struct sync_object *object;

    object = object_at(t, address);
    if (object) {
        if (object->count) {
            list_add(t, order & 1 ? &thread->seen : &thread->pending,
                     &(struct seen){object, object->count, object->count});
            t->seen_used = true;
        }
        if (wrote && (order & 2 || t->fences_used))
            record_release(t, number, object, order & 2);
    }
    t->in_atomic = false;
    pthread_mutex_unlock(&objects_lock);
}

void clocks_free_objects(struct trace *trace)
{
    for (int i = 0; i < OBJECT_LISTS; i++) {
        while (trace->objects[i]) {
            struct sync_object *object = trace->objects[i];

            trace->objects[i] = object->next;
            free(object->releases);
            free(object);
        }
    }
}
