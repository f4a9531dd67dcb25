/* Shared memory of the other blocks of a cluster. Its shadow is that of the block that has it; the accesses of
 * others are recorded there with their own blocks, as in global memory.
 *
 * Such memory exists from the start of its block to the end. So an access must be ordered after some action of
 * that block, and before another one: by a cluster barrier at the start and one at the end, or by mbarriers. (CUDA
 * Programming Guide, "Distributed Shared Memory")
 */
#define _GNU_SOURCE
#include "executor/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "shadow.h"

enum { MAX_REMOTES = 16 * 1024, FIRST_COPIES = 256 };

/* An access of a thread of another block, or of a copy that it has started */
struct remote_use {
    uint32_t block, epoch, item, context;
    uint16_t thread;
};

/* Of a thread the last access is enough, as it is ordered after the others. Any copy may be the last to complete,
 * so all are kept; when the array is full, those that a thread of this block is ordered after are dropped. */
struct remote_uses {
    unsigned count, copies, room;
    int32_t slot[MAX_CLUSTER][MAX_THREADS]; /* 1 + the index of a thread's use; 0: none */
    struct remote_use items[MAX_REMOTES], *copy;
    unsigned follower; /* a thread that was ordered after a copy, and so probably after the next */
};

struct tracer *remote_tracer(const struct tracer *t, uintptr_t address)
{
    const struct worker *owner = t->worker->in_cluster ? cluster_owner(t->worker, (const void *)address) : NULL;

    return owner && owner != t->worker ? owner->tracer : NULL;
}

void remotes_begin(struct tracer *t)
{
    memset(t->begun, 0, sizeof t->begun);
    t->copying = 0;
    if (t->remotes) {
        t->remotes->count = t->remotes->copies = t->remotes->follower = 0;
        memset(t->remotes->slot, 0, sizeof t->remotes->slot);
    }
}

void remotes_have_begun(struct tracer *t, unsigned thread)
{
    t->begun[thread] = UINT16_MAX;
}

void remotes_dispose(struct tracer *t)
{
    if (t->remotes)
        free(t->remotes->copy);
    free(t->remotes);
    t->remotes = NULL;
}

static const char BEFORE_BEGIN[] =
    "accesses shared memory of another block of the cluster, and nothing makes sure that it has begun";
static const char AFTER_EXIT[] =
    "accesses shared memory of another block of the cluster, and nothing makes sure that it has not exited";

static void report(struct tracer *t, struct code_location here, const char *message)
{
    struct checked_fault *fault = trace_fault(t, KIND_RACE, here, here, HAZARD_NONE);

    if (fault && fault->count == 1) {
        strncpy(fault->message, message, sizeof fault->message - 1);
        fault->space = SPACE_NONE;
        memcpy(fault->other_block, fault->block, sizeof fault->block);
    }
    trace_fault_done();
}

/* Whether some thread of one block is ordered after an access of another one. */
static bool any_thread_follows(struct tracer *t, const struct remote_use *use)
{
    const struct access earlier = {.thread = use->thread, .block = use->block, .epoch = use->epoch};
    struct access now = {.block = t->block_number, .thread = t->remotes->follower};

    if (ordered(t, &now, &earlier))
        return true;
    for (now.thread = 0; now.thread < t->worker->count; now.thread++)
        if (ordered(t, &now, &earlier)) {
            t->remotes->follower = now.thread;
            return true;
        }
    return false;
}

/* Whether the running thread is ordered after anything that the other block has done. */
static bool knows_begin(struct tracer *t, const struct tracer *remote)
{
    const struct access now = {.thread = t->worker->current, .block = t->block_number};
    struct access first = {.block = remote->block_number, .epoch = 1};
    const uint16_t bit = (uint16_t)(1u << remote->worker->rank);

    for (first.thread = 0; !(t->begun[now.thread] & bit) && first.thread < remote->worker->count; first.thread++)
        if (ordered(t, &now, &first))
            t->begun[now.thread] |= bit;
    return t->begun[now.thread] & bit;
}

/* The uses of the other block's memory. NULL without memory, which ends the check. */
static struct remote_uses *uses_of(struct tracer *t, struct tracer *remote)
{
    if (!remote->remotes)
        remote->remotes = calloc(1, sizeof *remote->remotes);
    if (!remote->remotes)
        t->trace->observed.out_of_memory = true;
    return remote->remotes;
}

static void note_use(struct tracer *t, struct tracer *remote, struct code_location here)
{
    const unsigned me = t->worker->current;
    struct remote_uses *all = uses_of(t, remote);
    int32_t *slot;

    if (!all)
        return;
    slot = &all->slot[t->worker->rank][me];
    if (!*slot)
        *slot = (int32_t)++all->count;
    all->items[*slot - 1] =
        (struct remote_use){t->block_number, t->threads[me].epoch, here.item, here.context, (uint16_t)me};
}

/* Drops the copies that the block is ordered after, and doubles the array if these are few. */
static bool make_room(struct tracer *t, struct remote_uses *all)
{
    const unsigned before = all->copies;

    all->copies = 0;
    for (unsigned i = 0; i < before; i++)
        if (!any_thread_follows(t, &all->copy[i]))
            all->copy[all->copies++] = all->copy[i];
    if (all->copies >= all->room / 2) {
        const unsigned room = all->room ? 2 * all->room : FIRST_COPIES;
        struct remote_use *copy = realloc(all->copy, room * sizeof *copy);

        if (!copy)
            return false;
        all->copy = copy;
        all->room = room;
    }
    return true;
}

void remote_copy(struct tracer *t, uintptr_t address, uint32_t epoch, struct code_location here)
{
    struct tracer *remote = remote_tracer(t, address);
    struct remote_uses *all = remote ? uses_of(t, remote) : NULL;

    if (!all)
        return;
    if (all->copies == all->room && !make_room(remote, all)) {
        t->trace->observed.out_of_memory = true;
        return;
    }
    all->copy[all->copies++] = (struct remote_use){t->block_number, epoch, here.item, here.context,
                                                   (uint16_t)(COPIES + t->worker->current)};
}

bool remote_access(struct tracer *t, struct tracer *remote, uintptr_t address, unsigned bytes,
                   struct code_location here)
{
    const struct shared_array *array = nearest_shared_array(remote->worker, (const void *)address);

    if (!array || address < (uintptr_t)array->start || address + bytes > (uintptr_t)array->end)
        return false;
    if (cluster_of(t->worker)->ended[remote->worker->rank]) {
        report(t, here, AFTER_EXIT);
        worker_terminate_thread(t->worker);
    }
    if (!knows_begin(t, remote))
        report(t, here, BEFORE_BEGIN);
    if (t->copying != t->worker->current + 1)
        note_use(t, remote, here);
    return true;
}

/* Reports accesses of other blocks that no thread of the ending block is ordered after. */
void remotes_end(struct tracer *t)
{
    const struct remote_uses *all = t->remotes;

    for (unsigned i = 0; all && i < all->count + all->copies; i++) {
        const struct remote_use *use = i < all->count ? &all->items[i] : &all->copy[i - all->count];

        if (!any_thread_follows(t, use))
            report(t, (struct code_location){.item = use->item, .context = use->context}, AFTER_EXIT);
    }
}
