/* Clusters: blocks that run together, share a barrier and access each other's shared memory. (PTX ISA,
 * "barrier.cluster", "mapa")
 *
 * The blocks of a cluster take turns on one worker thread, each with a struct worker of its own, whose stacks and
 * shared memory it has; the worker's own struct runs rank 0. A block runs until none of its threads can continue,
 * or until they have waited for other blocks for a while. So no two blocks of a cluster run at once, and the state
 * of one needs no lock against the others.
 *
 * Each thread alternately arrives at the cluster's barrier and waits for the end of the phase. A phase ends when
 * all threads have arrived that have not exited. The shared memory of a block that has ended cannot be accessed
 * any more.
 */
#define _GNU_SOURCE
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ptx.h"
#include "schedule.h"

bool cluster_is_wanted(const struct smemkit_launch *launch)
{
    return (uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 0;
}

static unsigned size_of(const struct smemkit_launch *launch)
{
    return launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
}

uint64_t cluster_count(const struct smemkit_launch *launch)
{
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] / size_of(launch);
}

int cluster_workers(const struct smemkit_launch *launch, int stacks)
{
    return cluster_is_wanted(launch) ? stacks / (int)size_of(launch) : stacks;
}

bool cluster_is_possible(const struct smemkit_launch *launch, char *why, size_t length)
{
    const unsigned *of = launch->cluster, *grid = launch->grid;

    why[0] = '\0';
    if ((uint64_t)of[0] * of[1] * of[2] > MAX_CLUSTER)
        snprintf(why, length, "a cluster has at most %d blocks", MAX_CLUSTER);
    else if (grid[0] % of[0] || grid[1] % of[1] || grid[2] % of[2])
        snprintf(why, length, "a grid of (%u, %u, %u) blocks is not a whole number of clusters of (%u, %u, %u)",
                 grid[0], grid[1], grid[2], of[0], of[1], of[2]);
    else if (launch->cooperative)
        snprintf(why, length, "the CPU device has no grid-wide barriers in clusters");
    return !why[0];
}

/* ---- the members ---- */

bool cluster_prepare(struct worker *w, const struct smemkit_launch *launch)
{
    const unsigned size = size_of(launch);

    if (!w->cluster)
        w->cluster = calloc(1, sizeof *w->cluster);
    if (!w->cluster)
        return false;
    w->cluster->members[0] = w;
    for (unsigned i = 1; i < size; i++) {
        struct worker **member = &w->cluster->members[i];

        if (!*member) {
            *member = calloc(1, sizeof **member);
            if (!*member || !worker_prepare(*member)) {
                free(*member);
                *member = NULL;
                return false;
            }
        }
        (*member)->abort = w->abort;
        (*member)->host = w;
        if (!shared_begin(*member, launch))
            return false;
    }
    return true;
}

static void dispose_members(struct worker *w, unsigned from)
{
    for (unsigned i = from; w->cluster && i < MAX_CLUSTER; i++)
        if (w->cluster->members[i]) {
            worker_dispose(w->cluster->members[i]);
            free(w->cluster->members[i]);
            w->cluster->members[i] = NULL;
        }
}

void cluster_trim(struct worker *w, const struct smemkit_launch *launch)
{
    dispose_members(w, cluster_is_wanted(launch) ? size_of(launch) : 1);
}

void cluster_dispose(struct worker *w)
{
    dispose_members(w, 1);
    free(w->cluster);
    w->cluster = NULL;
}

struct cluster *cluster_of(const struct worker *w)
{
    return !w->in_cluster ? NULL : w->host ? w->host->cluster : w->cluster;
}

bool cluster_observe(struct worker *w, const struct smemkit_launch *launch, struct observation *observation)
{
    for (unsigned i = 1; cluster_is_wanted(launch) && i < size_of(launch); i++)
        if (!smemkit_observer->enter(w->cluster->members[i], observation))
            return false;
    return true;
}

bool cluster_restore(struct worker *w)
{
    bool restored = true;

    for (unsigned i = 1; w->cluster && i < MAX_CLUSTER; i++) {
        struct worker *member = w->cluster->members[i];

        if (!member || !member->tracer)
            continue;
        smemkit_observer->leave(member);
        restored &= shared_restore_guards(member);
    }
    return restored;
}

static struct index3 block_of(const struct cluster *c, unsigned rank)
{
    return (struct index3){c->number.x * c->dims[0] + rank % c->dims[0],
                           c->number.y * c->dims[1] + rank / c->dims[0] % c->dims[1],
                           c->number.z * c->dims[2] + rank / c->dims[0] / c->dims[1]};
}

struct worker *cluster_owner(struct worker *w, const void *address)
{
    const struct cluster *c = cluster_of(w);

    if ((size_t)((const char *)address - w->shared.base) < w->shared.bytes)
        return w;
    for (unsigned i = 0; c && i < c->size; i++)
        if ((size_t)((const char *)address - c->members[i]->shared.base) < c->members[i]->shared.bytes)
            return c->members[i];
    return NULL;
}

/* ---- running ---- */

static void begin(struct worker *w, const struct smemkit_launch *launch, uint64_t number)
{
    struct cluster *c = w->cluster;
    const unsigned columns = launch->grid[0] / launch->cluster[0], rows = launch->grid[1] / launch->cluster[1];

    c->size = size_of(launch);
    memcpy(c->dims, launch->cluster, sizeof c->dims);
    c->number = (struct index3){(unsigned)(number % columns), (unsigned)(number / columns % rows),
                                (unsigned)(number / columns / rows)};
    c->arrived = c->phase = 0;
    c->live = c->size * launch->block[0] * launch->block[1] * launch->block[2];
    memset(c->ended, 0, sizeof c->ended);
    for (unsigned rank = 0; rank < c->size; rank++) {
        struct worker *member = c->members[rank];

        member->in_cluster = true;
        member->rank = rank;
        memset(member->cluster_arrivals, 0, sizeof member->cluster_arrivals);
        worker_begin_block(member, launch, block_of(c, rank));
    }
}

/* Makes the accessible parts of a block's shared memory inaccessible, or accessible again. */
static void protect(struct worker *w, int protection)
{
    struct shared_memory *s = &w->shared;

    for (unsigned i = 0; i < SHARED_SLOTS; i++)
        if (s->slots[i].first < s->slots[i].limit)
            mprotect(s->slots[i].first, (size_t)(s->slots[i].limit - s->slots[i].first), protection);
    if (s->dynamic.first < s->dynamic.limit)
        mprotect(s->dynamic.first, (size_t)(s->dynamic.limit - s->dynamic.first), protection);
}

/* Lets a member run until it pauses or ends. Returns false if its block has failed. */
static bool run_member(struct worker *host, struct worker *member)
{
    bool ended, good;

    smemkit_worker = member;
    ended = !worker_resume_block(member);
    good = !ended || worker_end_block(member);
    smemkit_worker = host;
    atomic_store(&host->in_block, true); /* for the watchdog */
    note_change(host); /* threads that repeat themselves in one block may be waiting for another one */
    if (ended) {
        host->cluster->ended[member->rank] = true;
        protect(member, PROT_NONE);
    }
    return good;
}

/* Whether no member can continue: the first of them then reports the fault. */
static void find_deadlock(struct cluster *c)
{
    struct worker *first = NULL;

    for (unsigned i = 0; i < c->size; i++) {
        if (c->ended[i])
            continue;
        if (!c->members[i]->cluster_stalled || worker_has_ready(c->members[i]))
            return;
        if (!first)
            first = c->members[i];
    }
    if (first)
        first->cluster_dead = true;
}

bool cluster_run(struct worker *w, const struct smemkit_launch *launch, uint64_t number)
{
    struct cluster *c = w->cluster;
    unsigned left = size_of(launch);
    bool good = true;

    begin(w, launch, number);
    while (good && left) {
        find_deadlock(c);
        for (unsigned rank = 0; good && rank < c->size; rank++) {
            struct worker *member = c->members[rank];

            if (c->ended[rank] || (member->cluster_stalled && !worker_has_ready(member) && !member->cluster_dead))
                continue;
            good = run_member(w, member);
            left -= c->ended[rank];
            if (!good)
                w->fault = member->fault;
        }
    }
    for (unsigned rank = 0; rank < c->size; rank++) {
        if (c->ended[rank])
            protect(c->members[rank], PROT_READ | PROT_WRITE);
        else
            worker_abandon_block(c->members[rank]);
        c->members[rank]->in_cluster = false;
    }
    atomic_store(&w->in_block, false);
    return good;
}

bool cluster_switch(struct worker *w, bool stalled)
{
    w->cluster_stalled = stalled;
    w->cluster_paused = true;
    fiber_switch(&w->fibers[w->current], &w->worker_fiber);
    w->cluster_stalled = false;
    if (*w->abort)
        worker_leave(w);
    return !w->cluster_dead;
}

/* ---- the barrier ---- */

static void complete_if_all(struct cluster *c)
{
    if (!c->live || c->arrived < c->live)
        return;
    c->arrived = 0;
    c->phase++;
    for (unsigned rank = 0; rank < c->size; rank++)
        for (unsigned i = 0; i < c->members[rank]->count; i++)
            if (c->members[rank]->waiting[i].reason == WAIT_CLUSTER)
                set_ready(c->members[rank], i);
}

void cluster_exit(struct worker *w)
{
    struct cluster *c = cluster_of(w);

    c->live--;
    if (w->cluster_arrivals[w->current] == c->phase + 1)
        c->arrived--;
    w->cluster_arrivals[w->current] = 0;
    complete_if_all(c);
}

/* The address at which the threads of a phase release, and from which they acquire. Two of them alternate, because
 * a phase has ended for all threads before the next but one begins. */
static const void *barrier_phase(const struct cluster *c, uint32_t phase)
{
    return (const char *)c + phase % 2;
}

static void no_action(struct smemkit_warp_call *const lanes[32])
{
    (void)lanes;
}

static void check_warp(const char *instruction, int aligned, const char *file, int line)
{
    struct smemkit_warp_call call = {instruction, no_action};

    if (aligned && own_worker()->count % 32 == 0)
        smemkit_warp_call(&call, file, line);
}

static void refuse(struct worker *w, const char *what, const char *file, int line)
{
    char text[MESSAGE_BYTES];

    snprintf(text, sizeof text, "%s at %.200s:%d", what, file, line);
    worker_fail(w, KIND_BARRIER, text, file, line);
}

/* A block without others is a cluster of its own. */
static bool is_alone(const struct worker *w)
{
    return !w->in_cluster;
}

void smemkit_cluster_arrive(int aligned, int releases, const char *file, int line)
{
    struct worker *w = own_worker();
    struct cluster *c = cluster_of(w);

    check_warp("barrier.cluster.arrive", aligned, file, line);
    if (is_alone(w))
        refuse(w,
               "barrier.cluster in a launch without clusters: give the launch a cluster, or use __syncthreads()",
               file, line);
    if (w->cluster_arrivals[w->current])
        refuse(w, "barrier.cluster.arrive of a thread that has arrived already, without barrier.cluster.wait",
               file, line);
    if (w->tracer)
        smemkit_observer->cluster_barrier(w, barrier_phase(c, c->phase), true, releases);
    w->cluster_arrivals[w->current] = c->phase + 1;
    c->arrived++;
    complete_if_all(c);
}

void smemkit_cluster_wait(int aligned, const char *file, int line)
{
    struct worker *w = own_worker();
    const struct cluster *c = cluster_of(w);
    const unsigned me = w->current;
    uint32_t phase;

    check_warp("barrier.cluster.wait", aligned, file, line);
    if (is_alone(w) || !w->cluster_arrivals[me])
        refuse(w, "barrier.cluster.wait of a thread that has not arrived, barrier.cluster.arrive", file, line);
    while (c->phase < w->cluster_arrivals[me]) {
        w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_CLUSTER};
        clear_ready(w, me);
        yield_to_next(w);
        w->waiting[me].reason = WAIT_AT_BARRIER;
    }
    phase = w->cluster_arrivals[me] - 1;
    w->cluster_arrivals[me] = 0;
    if (w->tracer)
        smemkit_observer->cluster_barrier(w, barrier_phase(c, phase), false, true);
}

/* ---- where a block is in its cluster, and its memory ---- */

unsigned smemkit_cluster_rank(void)
{
    const struct worker *w = own_worker();

    return is_alone(w) ? 0 : w->rank;
}

unsigned smemkit_cluster_dim(int axis)
{
    const struct worker *w = own_worker();

    return is_alone(w) ? 1 : cluster_of(w)->dims[axis];
}

static void refuse_rank(struct worker *w, unsigned rank, unsigned size, const char *file, int line)
{
    char text[MESSAGE_BYTES];

    snprintf(text, sizeof text, "an address in block %u of a cluster of %u at %.200s:%d", rank, size, file, line);
    worker_fail(w, KIND_OUT_OF_BOUNDS, text, file, line);
}

void *smemkit_cluster_map(const void *address, unsigned rank, const char *file, int line)
{
    struct worker *w = own_worker();
    const struct cluster *c = cluster_of(w);
    struct worker *owner = cluster_owner(w, address), *other;
    const struct shared_array *array;
    const char *start;

    if (rank >= (c ? c->size : 1))
        refuse_rank(w, rank, c ? c->size : 1, file, line);
    array = owner ? nearest_shared_array(owner, address) : NULL;
    if (!array)
        smemkit_trap("mapa, or map_shared_rank, of an address outside shared memory", file, line);
    other = c ? c->members[rank] : w;
    if (other == owner)
        return (void *)(uintptr_t)address;
    start = array->variable ? shared_variable(other, array->variable) : other->shared.dynamic.start;
    if (c->ended[rank]) /* the variable may just have been allocated there */
        protect(other, PROT_NONE);
    return (char *)(uintptr_t)start + ((const char *)address - array->start);
}

unsigned smemkit_cluster_rank_of(const void *address)
{
    struct worker *w = own_worker();
    const struct worker *owner = cluster_owner(w, address);

    return owner && !is_alone(w) ? owner->rank : smemkit_cluster_rank();
}
