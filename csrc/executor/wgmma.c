/* The warpgroup's matrix instruction, wgmma. (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions")
 *
 * d (64, n) += a (64, k) @ b (k, n), by four warps whose first one has a number that is a multiple of four; k
 * elements are 32 bytes. b is in shared memory, a there or in registers, d in registers. The last warp to arrive
 * issues the multiplication. It is executed, after those before it, when a warp waits for its group; the observer
 * may have it executed at once instead.
 */
#define _GNU_SOURCE
#include "wgmma.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

enum { LANES = 32, GROUPS = MAX_WARPS / GROUP_WARPS };

/* A warpgroup that its warps enter one by one */
struct rendezvous {
    struct smemkit_wgmma *calls[GROUP_THREADS];
    unsigned arrived; /* warps */
    uint64_t issued;
};

struct wgmma_state {
    struct wgmma *items; /* in the order of their issue */
    unsigned count, capacity;
    struct rendezvous groups[GROUPS];
    struct counts {
        uint32_t fences, commits;
        uint64_t sites;   /* of all of them, hashed */
        const char *file; /* of the last one */
        int line;
    } counts[MAX_THREADS];       /* what each thread has executed */
    uint32_t commits[MAX_WARPS]; /* of the warps, when they were last together */
    struct warp_registers registers[MAX_WARPS];
};

static struct wgmma_state *own_state(struct worker *w)
{
    if (!w->wgmma)
        w->wgmma = calloc(1, sizeof *w->wgmma);
    if (!w->wgmma)
        worker_fail(w, KIND_TRAP, "no memory for wgmma", __FILE__, __LINE__);
    w->wgmma_used = true;
    return w->wgmma;
}

struct warp_registers *wgmma_registers(struct worker *w)
{
    return own_state(w)->registers;
}

static void free_item(struct wgmma *item)
{
    free(item->d);
    free(item->a_at);
    free(item->a);
}

void wgmma_forget(struct worker *w)
{
    struct wgmma_state *all = w->wgmma;

    for (unsigned i = 0; i < all->count; i++)
        free_item(&all->items[i]);
    all->count = 0;
    memset(all->groups, 0, sizeof all->groups);
    memset(all->counts, 0, sizeof all->counts);
    memset(all->commits, 0, sizeof all->commits);
    memset(all->registers, 0, sizeof all->registers);
    w->wgmma_used = false;
}

void wgmma_dispose(struct worker *w)
{
    if (w->wgmma) {
        wgmma_forget(w);
        free(w->wgmma->items);
    }
    free(w->wgmma);
    free(w->wgmma_operands);
    w->wgmma = NULL;
    w->wgmma_operands = NULL;
}

/* ---- execution ---- */

/* A thread's stack pointer: what is below it belongs to functions that have returned. */
static const char *stack_of(const struct worker *w, unsigned thread)
{
    return thread == w->current ? __builtin_frame_address(0) : w->fibers[thread].sp;
}

/* Aborts the launch if an accumulator does not exist any more. */
static void check_alive(struct worker *w, const struct wgmma *item)
{
    const unsigned count = item->form.registers;
    char what[MESSAGE_BYTES];
    bool alive = true;

    for (unsigned thread = 0; thread < GROUP_THREADS; thread++) {
        const uintptr_t below = (uintptr_t)stack_of(w, item->first + thread) - STACK_BYTES;
        void *const *registers = &item->d[thread * count];

        for (unsigned r = 0; r < count; r += item->array[thread] ? count - 1 : 1) /* of an array both ends */
            alive &= (uintptr_t)registers[r] - below >= STACK_BYTES;              /* also if it is NULL */
    }
    if (alive)
        return;
    snprintf(
        what, sizeof what,
        "the function that has the accumulators of the wgmma.mma_async at %.200s:%d has returned before a wait "
        "for it",
        item->file, item->line);
    worker_fail(w, KIND_RACE, what, item->file, item->line);
}

/* Executes the multiplications of a warpgroup, up to a given one. */
static void perform_up_to(struct worker *w, const struct wgmma *last)
{
    for (struct wgmma *item = w->wgmma->items; item <= last; item++)
        if (item->first == last->first && !item->moved) {
            check_alive(w, item);
            wgmma_perform(w, item);
        }
}

static bool overlap(const char *own, size_t own_bytes, const char *at, size_t bytes)
{
    return at < own + own_bytes && own < at + bytes;
}

/* Whether one of a thread's registers is at one of these bytes. Those of an array are compared at once. */
static bool uses_register(void *const *own, unsigned count, bool array, const char *at, size_t bytes)
{
    if (array)
        return overlap(own[0], 4 * count, at, bytes);
    for (unsigned r = 0; r < count; r++)
        if (own[r] && overlap(own[r], 4, at, bytes))
            return true;
    return false;
}

const struct wgmma *wgmma_register(const struct worker *w, unsigned thread, const char *at, size_t bytes,
                                   bool store)
{
    const unsigned lane = thread % GROUP_THREADS;

    for (unsigned i = w->wgmma_used ? w->wgmma->count : 0; i-- > 0;) {
        const struct wgmma *item = &w->wgmma->items[i];
        const unsigned count = item->form.registers;

        if (item->first != thread - lane || item->waited >> lane / LANES & 1)
            continue;
        if (uses_register(&item->d[lane * count], count, item->array[lane], at, bytes) ||
            (store && item->a_at &&
             uses_register(&item->a_at[lane * WGMMA_A_REGISTERS], WGMMA_A_REGISTERS, false, at, bytes)))
            return item;
    }
    return NULL;
}

/* ---- issue ---- */

static void refuse(struct worker *w, enum fault_kind kind, const struct wgmma *item, const char *why)
{
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "wgmma.mma_async %s at %.200s:%d", why, item->file, item->line);
    worker_fail(w, kind, what, item->file, item->line);
}

static void check_descriptor(struct worker *w, const struct wgmma *item, bool is_b)
{
    char why[120];

    if (wgmma_start(w, &item->form, is_b))
        return;
    snprintf(why, sizeof why,
             "with a descriptor of %c, 0x%016llx, whose address is in none of the block's shared arrays",
             is_b ? 'b' : 'a', (unsigned long long)(is_b ? item->form.b_descriptor : item->form.a_descriptor));
    refuse(w, KIND_OUT_OF_BOUNDS, item, why);
}

/* Returns whether they are neighbours in memory. */
static bool copy_registers(void *const *from, unsigned count, void **to)
{
    const char *first = from[0];
    bool neighbours = true;

#pragma GCC unroll 4
    for (unsigned r = 0; r < count; r++) {
        neighbours &= from[r] == first + 4 * r;
        to[r] = from[r];
    }
    return neighbours;
}

/* Records the registers of all lanes. Those of lanes that a fault has terminated are NULL. */
static bool note_registers(struct wgmma *item, struct smemkit_wgmma *const calls[GROUP_THREADS])
{
    const unsigned count = item->form.registers;

    item->d = calloc((size_t)GROUP_THREADS * count, sizeof *item->d);
    if (item->form.a) {
        item->a = calloc(GROUP_THREADS * WGMMA_A_REGISTERS, sizeof *item->a);
        item->a_at = calloc(GROUP_THREADS * WGMMA_A_REGISTERS, sizeof *item->a_at);
    }
    if (!item->d || (item->form.a && (!item->a || !item->a_at)))
        return false;
    for (unsigned i = 0; i < GROUP_THREADS; i++) {
        if (!calls[i])
            continue;
        item->array[i] = copy_registers(calls[i]->d, count, &item->d[(size_t)i * count]);
        for (unsigned r = 0; item->form.a && r < WGMMA_A_REGISTERS; r++) {
            item->a[i * WGMMA_A_REGISTERS + r] = calls[i]->a[r];
            item->a_at[i * WGMMA_A_REGISTERS + r] = calls[i]->a_at[r];
        }
    }
    return true;
}

static struct wgmma *add_item(struct worker *w)
{
    struct wgmma_state *all = w->wgmma;

    if (all->count == all->capacity) {
        const unsigned capacity = all->capacity ? all->capacity * 2 : 16;
        struct wgmma *items = realloc(all->items, capacity * sizeof *items);

        if (!items)
            worker_fail(w, KIND_TRAP, "no memory for wgmma", __FILE__, __LINE__);
        all->items = items;
        all->capacity = capacity;
    }
    return &all->items[all->count++];
}

static NOINLINE void issue(struct worker *w, unsigned group)
{
    struct rendezvous *at = &w->wgmma->groups[group];
    const struct waiting *site = &w->waiting[w->current];
    struct wgmma *item = add_item(w);

    *item = (struct wgmma){.file = site->file, .line = site->line, .first = group * GROUP_THREADS};
    for (unsigned i = 0; i < GROUP_THREADS; i++)
        if (at->calls[i])
            item->form = *at->calls[i];
    for (unsigned i = 0; i < GROUP_WARPS; i++)
        item->commit[i] = w->wgmma->commits[group * GROUP_WARPS + i];
    if (!item->form.a)
        check_descriptor(w, item, false);
    check_descriptor(w, item, true);
    if (!note_registers(item, at->calls))
        worker_fail(w, KIND_TRAP, "no memory for wgmma", __FILE__, __LINE__);
    if (w->tracer)
        item->epoch = smemkit_observer->wgmma_issued(w, item);
    if (w->tracer && smemkit_observer->completes_early(w))
        perform_up_to(w, item);
}

/* ---- the warps of a group ---- */

static struct smemkit_wgmma *lane_of(struct smemkit_warp_call *const lanes[32], unsigned lane)
{
    return (struct smemkit_wgmma *)lanes[lane];
}

/* Checks that the warps before this one execute the same instruction: the same form, at the same location. */
static void check_same(struct worker *w, const struct rendezvous *at, const struct smemkit_wgmma *now)
{
    const struct waiting *mine = &w->waiting[w->current];
    const unsigned first = w->current / GROUP_THREADS * GROUP_THREADS;
    char what[MESSAGE_BYTES];

    for (unsigned i = 0; i < GROUP_THREADS; i++) {
        const struct waiting *other = &w->waiting[first + i];
        const struct smemkit_wgmma *call = at->calls[i];

        if (!call || (same_line(mine->file, mine->line, other->file, other->line) && call->n == now->n &&
                      call->b_descriptor == now->b_descriptor))
            continue;
        snprintf(
            what, sizeof what,
            "warp divergence at %.200s:%d: warps of a warpgroup execute different wgmma.mma_async, another one at "
            "%.200s:%d",
            mine->file, mine->line, other->file, other->line);
        worker_fail_beside(w, KIND_BARRIER, what, mine->file, mine->line, other->file, other->line);
    }
}

/* The lane of these that has executed other fences and commits than the first one, or as many elsewhere; -1: none
 */
static int different_lane(const struct worker *w, unsigned warp, uint32_t lanes)
{
    const struct counts *all = &w->wgmma->counts[warp * LANES], *first = &all[lanes ? __builtin_ctz(lanes) : 0];

    for (; lanes; lanes &= lanes - 1) {
        const struct counts *other = &all[__builtin_ctz(lanes)];

        if (other->fences != first->fences || other->commits != first->commits || other->sites != first->sites)
            return __builtin_ctz(lanes);
    }
    return -1;
}

/* Describes the difference of that lane from the first one of `lanes`. */
static const struct counts *describe_difference(const struct worker *w, unsigned warp, uint32_t lanes, int lane,
                                                char *what)
{
    const struct counts *first = &w->wgmma->counts[warp * LANES + (unsigned)__builtin_ctz(lanes)];
    const struct counts *other = &w->wgmma->counts[warp * LANES + (unsigned)lane];
    const struct counts *site = other->fences + other->commits > first->fences + first->commits ? other : first;
    const char *instruction = other->fences != first->fences     ? "wgmma.fence"
                              : other->commits != first->commits ? "wgmma.commit_group"
                                                                 : "wgmma.fence or wgmma.commit_group";

    snprintf(
        what, MESSAGE_BYTES,
        "warp divergence: %s needs all 32 lanes of the warp, and lanes %d and %d of warp %u have not executed the "
        "same ones, the last one at %.200s:%d",
        instruction, __builtin_ctz(lanes), lane, warp, site->file, site->line);
    return site;
}

/* The lanes of a warp are together. In a launch without an observer they have not waited for each other at fences
 * and commits, which would take as long as the multiplication; so what they have executed is compared now. (At
 * which barriers between they did is not.) */
static void compare_lanes(struct worker *w, unsigned warp)
{
    const uint32_t lanes = ~w->warp_exited[warp];
    const int lane = different_lane(w, warp, lanes);
    char what[MESSAGE_BYTES];

    w->wgmma->commits[warp] = w->wgmma->counts[w->current].commits;
    if (lane < 0)
        return;
    const struct counts *site = describe_difference(w, warp, lanes, lane, what);

    worker_fail(w, KIND_BARRIER, what, site->file, site->line);
}

/* A warp arrives: the last one issues. */
static NOINLINE void arrive(struct smemkit_warp_call *const lanes[32])
{
    struct worker *w = own_worker();
    const unsigned warp = w->current / LANES, group = warp / GROUP_WARPS;
    struct rendezvous *at = &w->wgmma->groups[group];

    compare_lanes(w, warp);
    check_same(w, at, lane_of(lanes, 0));
    for (unsigned lane = 0; lane < LANES; lane++) {
        struct smemkit_wgmma *call = lane_of(lanes, lane);

        call->number = at->issued;
        at->calls[warp % GROUP_WARPS * LANES + lane] = call->thread == warp * LANES + lane ? call : NULL;
    }
    at->arrived |= 1u << warp % GROUP_WARPS;
    if (at->arrived != (1u << GROUP_WARPS) - 1)
        return;
    issue(w, group);
    memset(at->calls, 0, sizeof at->calls);
    at->arrived = 0;
    at->issued++;
    for (unsigned i = group * GROUP_THREADS; i < (group + 1) * GROUP_THREADS; i++)
        if (w->waiting[i].reason == WAIT_WARPGROUP)
            set_ready(w, i);
}

static void refuse_group(struct worker *w, const char *file, int line)
{
    char what[MESSAGE_BYTES];

    snprintf(
        what, sizeof what,
        "warp divergence at %.200s:%d: wgmma.mma_async needs the four warps of a warpgroup, and the block has %u "
        "threads",
        file, line, w->count);
    worker_fail(w, KIND_BARRIER, what, file, line);
}

void smemkit_wgmma_execute(struct smemkit_wgmma *mma, const char *file, int line)
{
    struct worker *w = own_worker();
    const unsigned me = w->current;
    struct rendezvous *at = &own_state(w)->groups[me / GROUP_THREADS];

    if (me / GROUP_THREADS * GROUP_THREADS + GROUP_THREADS > w->count)
        refuse_group(w, file, line);
    if (w->tracer)
        smemkit_observer->copies_awaited(w, me); /* its accesses so far */
    mma->call = (struct smemkit_warp_call){"wgmma.mma_async", arrive};
    mma->thread = me;
    smemkit_warp_call(&mma->call, file, line);
    if (at->issued > mma->number)
        return;
    w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_WARPGROUP};
    clear_ready(w, me);
    yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
}

/* ---- fences, groups, waits ---- */

struct warp_action {
    struct smemkit_warp_call call;
    unsigned groups;
};

static NOINLINE void fence_warp(struct smemkit_warp_call *const lanes[32])
{
    struct worker *w = own_worker();

    (void)lanes;
    if (w->tracer)
        smemkit_observer->wgmma_fenced(w, w->current / LANES);
}

static NOINLINE void commit_warp(struct smemkit_warp_call *const lanes[32])
{
    (void)lanes; /* compare_lanes does the rest */
}

static void remove_seen(struct wgmma_state *all)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < all->count; i++)
        if (all->items[i].waited == (1u << GROUP_WARPS) - 1)
            free_item(&all->items[i]);
        else
            all->items[kept++] = all->items[i];
    all->count = kept;
}

static NOINLINE void wait_warp(struct smemkit_warp_call *const lanes[32])
{
    struct worker *w = own_worker();
    const unsigned warp = w->current / LANES, bit = 1u << warp % GROUP_WARPS;
    const unsigned groups = ((const struct warp_action *)lanes[w->current % LANES])->groups;
    struct wgmma_state *all = w->wgmma;

    compare_lanes(w, warp);
    for (unsigned i = 0; i < all->count; i++) {
        struct wgmma *item = &all->items[i];

        if (item->first != warp / GROUP_WARPS * GROUP_THREADS || item->waited & bit ||
            all->commits[warp] - item->commit[warp % GROUP_WARPS] <= groups)
            continue;
        perform_up_to(w, item);
        item->waited |= bit;
        if (w->tracer)
            smemkit_observer->wgmma_seen(w, item, warp);
    }
    remove_seen(all);
}

static void act(const char *instruction, void (*run)(struct smemkit_warp_call *const *), unsigned groups,
                const char *file, int line)
{
    struct worker *w = own_worker();
    struct warp_action action = {{instruction, run}, groups};

    own_state(w);
    if (w->tracer)
        smemkit_observer->copies_awaited(w, w->current);
    smemkit_warp_call(&action.call, file, line);
}

static struct counts *count(struct worker *w, const char *instruction, const char *file, int line)
{
    struct counts *counts = &own_state(w)->counts[w->current];
    char what[MESSAGE_BYTES];

    if (w->current / LANES * LANES + LANES > w->count) {
        snprintf(what, sizeof what,
                 "warp divergence at %.200s:%d: %s needs all 32 lanes of the warp, and the block has %u threads",
                 file, line, instruction, w->count);
        worker_fail(w, KIND_BARRIER, what, file, line);
    }
    counts->sites = (counts->sites ^ (uintptr_t)file ^ (unsigned)line) * UINT64_C(0x9E3779B97F4A7C15);
    counts->file = file;
    counts->line = line;
    return counts;
}

void smemkit_wgmma_fence(const char *file, int line)
{
    struct worker *w = own_worker();

    count(w, "wgmma.fence", file, line)->fences++;
    if (w->tracer)
        act("wgmma.fence", fence_warp, 0, file, line);
}

void smemkit_wgmma_commit(const char *file, int line)
{
    struct worker *w = own_worker();

    count(w, "wgmma.commit_group", file, line)->commits++;
    if (w->tracer)
        act("wgmma.commit_group", commit_warp, 0, file, line);
}

void smemkit_wgmma_wait(unsigned groups, const char *file, int line)
{
    act("wgmma.wait_group", wait_warp, groups, file, line);
}

static void report_unfinished(struct worker *w, const struct wgmma *item)
{
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "a thread exits without a wait for the wgmma.mma_async at %.200s:%d", item->file,
             item->line);
    if (w->tracer && !w->terminated)
        smemkit_observer->fault(w, KIND_LEAK, what, true, item->file, item->line, NULL, 0);
}

/* The registers of the thread end with it. No warp waits for a multiplication whose four warps have exited. */
void wgmma_exit(struct worker *w)
{
    const unsigned me = w->current, lane = me % GROUP_THREADS, bit = 1u << lane / LANES;
    struct wgmma_state *all = w->wgmma;

    for (unsigned i = 0; i < all->count; i++) {
        struct wgmma *item = &all->items[i];

        if (item->first != me - lane || item->waited & bit)
            continue;
        report_unfinished(w, item);
        memset(&item->d[lane * item->form.registers], 0, item->form.registers * sizeof *item->d);
        item->array[lane] = false;
        if (item->a_at)
            memset(&item->a_at[lane * WGMMA_A_REGISTERS], 0, WGMMA_A_REGISTERS * sizeof *item->a_at);
        if (w->warp_exited[me / LANES] == ~(UINT32_C(1) << me % LANES))
            item->waited |= bit;
    }
    remove_seen(all);
}

/* Of a launch without an observer: see compare_lanes. */
static void compare_all_lanes(struct worker *w)
{
    for (unsigned warp = 0; warp < w->count / LANES && !w->tracer && !w->fault.error; warp++) {
        const int lane = different_lane(w, warp, ~UINT32_C(0));

        if (lane < 0)
            continue;
        w->fault.error = ERROR_LAUNCH_FAILURE;
        (void)describe_difference(w, warp, ~UINT32_C(0), lane, w->fault.message);
    }
}

void wgmma_finish(struct worker *w)
{
    setmaxnreg_finish(w, w->wgmma->registers);
    compare_all_lanes(w);
}
