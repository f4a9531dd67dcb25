/* Programmatic dependent launch: a launch that begins before the one before it in the stream has run, as it may on
 * a GPU. (PTX ISA, griddepcontrol)
 *
 * It begins first, as early as it can: its blocks run until they wait for the earlier launch, or seem to spin for
 * what only a block that waits can do. Once all workers have such a block, the launching thread runs the earlier
 * launch with other workers. Blocks that begin later find what that has written.
 */
#define _GNU_SOURCE
#include "early.h"

#include <string.h>

#include "cluster.h"
#include "errors.h"
#include "pool.h"
#include "schedule.h"

enum { PATIENCE = 4096 }; /* turns of a block until it lets the earlier launch run */

/* ---- the blocks ---- */

/* Whether a thread of the block waits for the earlier launch; with `release`, it may go on. */
static bool waits(struct worker *w, bool release)
{
    bool any = false;

    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiting[i].reason != WAIT_EARLIER)
            continue;
        any = true;
        if (release)
            set_ready(w, i);
    }
    return any;
}

static bool any_waits(struct worker *w, bool release)
{
    const struct cluster *c = cluster_of(w);
    bool any = false;

    if (!c)
        return waits(w, release);
    for (unsigned rank = 0; rank < c->size; rank++)
        any |= !c->ended[rank] && waits(c->members[rank], release);
    return any;
}

static void set_in_block(struct worker *w, bool in_block)
{
    atomic_store(&w->in_block, in_block);
    if (w->host)
        atomic_store(&w->host->in_block, in_block);
}

static void park(struct worker *w)
{
    const struct worker *own = w->host ? w->host : w; /* one of the pool's */

    pthread_mutex_lock(&pool.lock);
    set_in_block(w, false); /* the watchdog does not count the time */
    pool.parked++;
    pthread_cond_broadcast(&pool.idle);
    while (own->held || (pool.earlier && !pool.abort))
        pthread_cond_wait(&pool.released, &pool.lock);
    pool.parked--;
    set_in_block(w, true);
    pthread_mutex_unlock(&pool.lock);
}

static void await(struct worker *w)
{
    park(w);
    if (*w->abort)
        worker_leave(w);
    any_waits(w, true);
    w->cluster_dead = false;
    w->early_turns = 0;
}

bool early_await(struct worker *w)
{
    if (!any_waits(w, false))
        return false;
    await(w);
    return true;
}

static bool is_early(void)
{
    bool early;

    pthread_mutex_lock(&pool.lock);
    early = pool.earlier != NULL;
    pthread_mutex_unlock(&pool.lock);
    return early;
}

void early_turn(struct worker *w)
{
    if (++w->early_turns < PATIENCE)
        return;
    w->early_turns = 0;
    if (is_early()) /* also if only a thread of another block waits */
        await(w);
}

void smemkit_await_earlier(const char *file, int line)
{
    struct worker *w = own_worker();
    const unsigned me = w->current;

    if (is_early()) {
        w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_EARLIER};
        clear_ready(w, me);
        yield_to_next(w);
        w->waiting[me].reason = WAIT_AT_BARRIER;
    }
    if (w->tracer)
        smemkit_observer->earlier_awaited(w);
}

/* ---- the launching thread ---- */

static void hold_workers(bool held)
{
    for (int i = 0; i < pool.size; i++)
        pool.workers[i]->held = held;
}

/* What a launch inside another one replaces. */
struct outer {
    const struct smemkit_launch *launch;
    struct observation *observation;
    struct worker *workers[MAX_WORKERS];
    int size, running, parked;
    unsigned long generation;
    uint64_t blocks, next_block;
    unsigned grid_arrivals; /* which launches of one library share */
    bool guards_lost, nested;
};

static void begin_inner(struct outer *outer)
{
    *outer = (struct outer){.launch = pool.launch,
                            .observation = pool.observation,
                            .size = pool.size,
                            .running = pool.running,
                            .parked = pool.parked,
                            .generation = pool.generation,
                            .blocks = pool.blocks,
                            .next_block = pool.next_block,
                            .guards_lost = pool.guards_lost,
                            .nested = pool_is_nested};
    memcpy(outer->workers, pool.workers, sizeof outer->workers);
    if (pool.launch->grid_arrivals)
        outer->grid_arrivals = *pool.launch->grid_arrivals;
    hold_workers(true);
    fault_handler_remove();
    pool.launch = NULL;
    pool.earlier = NULL;
    pool.size = pool.parked = 0;
    pool_is_nested = true;
    pool_is_launching = false;
}

static void end_inner(const struct outer *outer)
{
    pool_stop_workers();
    memcpy(pool.workers, outer->workers, sizeof pool.workers);
    pool.launch = outer->launch;
    if (pool.launch->grid_arrivals)
        *pool.launch->grid_arrivals = outer->grid_arrivals;
    pool.observation = outer->observation;
    pool.size = outer->size;
    pool.running = outer->running;
    pool.parked = outer->parked;
    pool.generation = outer->generation;
    pool.blocks = outer->blocks;
    pool.next_block = outer->next_block;
    pool.guards_lost = outer->guards_lost;
    pool.abort = ABORT_NOT;
    pool.fault = (struct fault){0};
    pool_is_nested = outer->nested;
    pool_is_launching = true;
    hold_workers(false);
    fault_handler_install();
}

void pool_run_earlier(void)
{
    int (*const earlier)(void) = pool.earlier;
    struct outer outer;
    int error;

    begin_inner(&outer);
    pthread_mutex_unlock(&pool.lock);
    error = earlier();
    pthread_mutex_lock(&pool.lock);
    end_inner(&outer);
    if (error) {
        pool.fault.error = error;
        memcpy(pool.fault.message, error_message, sizeof pool.fault.message);
        pool.abort = ABORT_FAULT;
    }
    pthread_cond_broadcast(&pool.released);
    pthread_cond_broadcast(&pool.work);
}
