/* Bulk copies, cp.async.bulk, and the transactions of mbarriers, which count their bytes. (PTX ISA, "Data Movement
 * and Conversion Instructions: Asynchronous copy", "mbarrier: Tracking asynchronous operations by the mbarrier
 * object")
 *
 * The bytes move as late as a wait allows: those that arrive at an mbarrier when a wait finds a phase that lacks
 * nothing else, the others when their thread waits for its bulk group, or exits. The observer may have them moved
 * at once instead; to the observer they can be seen only after the wait, whenever they moved.
 *
 * A phase of an mbarrier is complete when no arrivals are pending and as many bytes have come as were expected, in
 * whichever order the two are told. Objects at which the two differ are in a list.
 */
#define _GNU_SOURCE
#include "bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mbarrier.h"
#include "schedule.h"

enum { MAX_BULKS = 1 << 16, MAX_TRANSACTION = (1 << 20) - 1, GRAIN = 16 };

struct transactions {
    const void *object;
    long long expected, come; /* bytes of the phase; they differ */
};

struct bulk_copies {
    struct bulk *items; /* in the order of their issue */
    unsigned count, capacity;
    struct transactions *open;
    unsigned open_count, open_capacity;
    uint32_t groups[MAX_THREADS]; /* commits of each thread */
};

static struct bulk_copies *own_copies(struct worker *w)
{
    if (!w->bulk)
        w->bulk = calloc(1, sizeof *w->bulk);
    if (!w->bulk)
        worker_fail(w, KIND_TRAP, "no memory for bulk copies", __FILE__, __LINE__);
    w->bulk_used = true;
    return w->bulk;
}

/* Returns `items` with space for one more. */
static void *grow(struct worker *w, void *items, unsigned count, unsigned *capacity, size_t bytes)
{
    void *larger;

    if (count < *capacity)
        return items;
    larger = realloc(items, (*capacity ? *capacity * 2 : 16) * bytes);
    if (!larger)
        worker_fail(w, KIND_TRAP, "no memory for bulk copies", __FILE__, __LINE__);
    *capacity = *capacity ? *capacity * 2 : 16;
    return larger;
}

void bulk_dispose(struct worker *w)
{
    if (w->bulk) {
        free(w->bulk->items);
        free(w->bulk->open);
    }
    free(w->bulk);
    w->bulk = NULL;
}

void bulk_forget(struct worker *w)
{
    w->bulk->count = w->bulk->open_count = 0;
    memset(w->bulk->groups, 0, sizeof w->bulk->groups);
    w->bulk_used = false;
}

/* ---- transactions ---- */

static struct transactions *find_open(const struct worker *w, const void *object)
{
    for (unsigned i = 0; w->bulk_used && i < w->bulk->open_count; i++)
        if (w->bulk->open[i].object == object)
            return &w->bulk->open[i];
    return NULL;
}

bool bulk_is_open(const struct worker *w, const void *object)
{
    return find_open(w, object) != NULL;
}

/* Counts bytes that the object's phase expects, and bytes that have come. Returns false if they differ by more
 * than an mbarrier can count. */
static bool count_bytes(struct worker *w, void *object, uint64_t expected, uint64_t come)
{
    struct bulk_copies *all = own_copies(w);
    struct transactions *open = find_open(w, object);
    bool counted;

    if (!open) {
        all->open = grow(w, all->open, all->open_count, &all->open_capacity, sizeof *all->open);
        open = &all->open[all->open_count++];
        *open = (struct transactions){.object = object};
    }
    open->expected += (long long)expected;
    open->come += (long long)come;
    counted = llabs(open->expected - open->come) <= MAX_TRANSACTION;
    if (open->expected == open->come) {
        *open = all->open[--all->open_count];
        mbarrier_settle(object);
    }
    note_change(w);
    return counted;
}

static void count_transaction(void *object, uint64_t expected, uint64_t come, const char *instruction,
                              const char *file, int line)
{
    struct worker *w = own_worker();
    char what[MESSAGE_BYTES];

    mbarrier_phase(object, instruction, file, line);
    if (count_bytes(w, object, expected, come))
        return;
    snprintf(
        what, sizeof what,
        "%s of %llu bytes at %.200s:%d: an mbarrier counts at most %d bytes that are expected and have not come",
        instruction, (unsigned long long)(expected | come), file, line, MAX_TRANSACTION);
    worker_fail(w, KIND_BARRIER, what, file, line);
}

void smemkit_mbarrier_expect(void *object, uint64_t bytes, const char *file, int line)
{
    count_transaction(object, bytes, 0, "mbarrier.expect_tx", file, line);
}

void smemkit_mbarrier_complete(void *object, uint64_t bytes, const char *file, int line)
{
    count_transaction(object, 0, bytes, "mbarrier.complete_tx", file, line);
}

void bulk_describe(const struct worker *w, const void *object, char *text, size_t length)
{
    const struct transactions *open = find_open(w, object);
    long long come;

    if (!open)
        return;
    come = open->come;
    for (unsigned i = 0; i < w->bulk->count; i++)
        if (w->bulk->items[i].copy.mbarrier == object && !w->bulk->items[i].moved)
            come += (long long)w->bulk->items[i].copy.bytes;
    if (come < open->expected)
        snprintf(text, length, " and %lld of %lld bytes", open->expected - come, open->expected);
    else if (come > open->expected)
        snprintf(text, length, ", and has got %lld bytes where %lld are expected", come, open->expected);
}

/* ---- copies ---- */

static bool completes_early(struct worker *w)
{
    return w->tracer && smemkit_observer->completes_early(w);
}

/* Moves the bytes of a copy, and lets them arrive at its mbarrier. */
static void perform(struct worker *w, struct bulk *bulk)
{
    const struct smemkit_bulk *copy = &bulk->copy;

    if (copy->combine)
        copy->combine(copy->to, copy->from, copy->bytes);
    else
        memcpy(copy->to, copy->from, copy->bytes);
    bulk->moved = true;
    if (!copy->mbarrier)
        return;
    bulk->phase = mbarrier_phase(copy->mbarrier, copy->instruction, bulk->file, bulk->line);
    count_bytes(w, copy->mbarrier, 0, copy->bytes);
}

/* Removes the copies that are marked by a length of SIZE_MAX. */
static void remove_marked(struct bulk_copies *all)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < all->count; i++)
        if (all->items[i].copy.bytes != UINT64_MAX)
            all->items[kept++] = all->items[i];
    all->count = kept;
}

static void mark(struct bulk *bulk)
{
    bulk->copy.bytes = UINT64_MAX;
}

bool bulk_complete_for(struct worker *w, void *object)
{
    const uint64_t phase = mbarrier_phase(object, "a wait", NULL, 0);
    bool found = false;

    for (unsigned i = 0; w->bulk_used && i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier != object || bulk->moved)
            continue;
        if (!mbarrier_lacks_bytes(object) || mbarrier_phase(object, "a wait", NULL, 0) != phase)
            break;
        perform(w, bulk);
        found = true;
    }
    return found;
}

void bulk_observed(struct worker *w, void *object)
{
    const uint64_t phase = mbarrier_phase(object, "a wait", NULL, 0);
    bool any = false;

    for (unsigned i = 0; i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier != object || !bulk->moved || bulk->phase == phase)
            continue;
        if (w->tracer)
            smemkit_observer->bulk_seen(w, bulk, true);
        mark(bulk);
        any = true;
    }
    if (any)
        remove_marked(w->bulk);
}

static void refuse(struct worker *w, enum fault_kind kind, const struct bulk *bulk, const char *why)
{
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "%s %s at %.200s:%d", bulk->copy.instruction, why, bulk->file, bulk->line);
    worker_fail(w, kind, what, bulk->file, bulk->line);
}

static void check_alignment(struct worker *w, const struct bulk *bulk)
{
    const struct smemkit_bulk *copy = &bulk->copy;
    char why[100];

    if (copy->bytes % GRAIN) {
        snprintf(why, sizeof why, "of %llu bytes, not a multiple of 16,", (unsigned long long)copy->bytes);
        refuse(w, KIND_MISALIGNED, bulk, why);
    }
    if ((uintptr_t)copy->to % GRAIN)
        refuse(w, KIND_MISALIGNED, bulk, "to an address that is not a multiple of 16");
    if ((uintptr_t)copy->from % GRAIN)
        refuse(w, KIND_MISALIGNED, bulk, "from an address that is not a multiple of 16");
}

void smemkit_bulk_copy(const struct smemkit_bulk *copy, const void *code, const char *file, int line)
{
    struct worker *w = own_worker();
    struct bulk_copies *all = own_copies(w);
    struct bulk bulk = {
        .copy = *copy, .file = file, .line = line, .thread = w->current, .group = all->groups[w->current]};

    check_alignment(w, &bulk);
    if (copy->mbarrier)
        mbarrier_phase(copy->mbarrier, copy->instruction, file, line);
    if (all->count == MAX_BULKS)
        refuse(w, KIND_TRAP, &bulk, "after too many without a wait");
    if (w->tracer)
        bulk.epoch = smemkit_observer->bulk_issued(w, &bulk, code);
    all->items = grow(w, all->items, all->count, &all->capacity, sizeof *all->items);
    all->items[all->count++] = bulk;
    if (completes_early(w))
        perform(w, &all->items[all->count - 1]);
}

void smemkit_bulk_prefetch(const void *from, uint64_t bytes, const char *file, int line)
{
    struct bulk bulk = {.copy = {.instruction = "cp.async.bulk.prefetch", .from = from, .bytes = bytes},
                        .file = file,
                        .line = line};

    check_alignment(own_worker(), &bulk);
}

void smemkit_bulk_commit(void)
{
    struct worker *w = own_worker();

    own_copies(w)->groups[w->current]++;
}

void smemkit_bulk_wait(unsigned groups, int read)
{
    struct worker *w = own_worker();
    struct bulk_copies *all = own_copies(w);

    if (w->tracer)
        smemkit_observer->copies_awaited(w, w->current);
    for (unsigned i = 0; i < all->count; i++) {
        struct bulk *bulk = &all->items[i];

        if (bulk->copy.mbarrier || bulk->thread != w->current || all->groups[w->current] - bulk->group <= groups)
            continue;
        if (!bulk->moved)
            perform(w, bulk);
        if (w->tracer)
            smemkit_observer->bulk_seen(w, bulk, !read);
        bulk->read = true;
        if (!read || !w->tracer)
            mark(bulk);
    }
    remove_marked(all);
}

static void report_unfinished(struct worker *w, const struct bulk *bulk, const char *who)
{
    char what[MESSAGE_BYTES];

    if (!w->tracer)
        return;
    snprintf(what, sizeof what, "%s without a wait for the asynchronous copy that was started at %.200s:%d", who,
             bulk->file, bulk->line);
    smemkit_observer->fault(w, KIND_LEAK, what, !bulk->copy.mbarrier, bulk->file, bulk->line, NULL, 0);
}

void bulk_exit(struct worker *w, unsigned thread)
{
    for (unsigned i = 0; i < w->bulk->count; i++) {
        struct bulk *bulk = &w->bulk->items[i];

        if (bulk->copy.mbarrier || bulk->thread != thread)
            continue;
        if (!bulk->read)
            report_unfinished(w, bulk, "a thread exits");
        if (!bulk->moved)
            perform(w, bulk);
        mark(bulk);
    }
    remove_marked(w->bulk);
}

void bulk_finish(struct worker *w)
{
    for (unsigned i = 0; i < w->bulk->count; i++)
        report_unfinished(w, &w->bulk->items[i], "the block ends");
}
