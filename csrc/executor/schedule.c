/* Which thread of a block runs next.
 *
 * A thread runs until it waits or exits; then the next ready one runs, in the order of the thread indices. If none
 * is ready and some have not exited, no thread can ever be released. That is a fault. The threads of a kernel
 * without barriers run one after another on the same stack. */
#define _GNU_SOURCE
#include "block.h"

#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "cluster.h"
#include "early.h"
#include "ptx.h"
#include "schedule.h"
#include "wgmma.h"

static int next_ready(struct worker *w)
{
    unsigned words = (w->count + 63) / 64, from = w->current + 1, word;

    if (w->tracer)
        from = smemkit_observer->next_thread(w, false);
    word = from >> 6;

    if (from < w->count) {
        uint64_t bits = w->ready[word] & ~UINT64_C(0) << (from & 63);

        while (!bits && ++word < words)
            bits = w->ready[word];
        if (bits)
            return (int)(word * 64 + (unsigned)__builtin_ctzll(bits));
    }
    for (word = 0; word < words; word++)
        if (w->ready[word])
            return (int)(word * 64 + (unsigned)__builtin_ctzll(w->ready[word]));
    return -1;
}

void set_all_ready(struct worker *w)
{
    unsigned whole = w->count >> 6, rest = w->count & 63;

    note_change(w);
    for (unsigned i = 0; i < whole; i++)
        w->ready[i] = ~UINT64_C(0);
    if (rest)
        w->ready[whole] = (UINT64_C(1) << rest) - 1;
}

static void run_threads(void *worker);

void start_on_own_stack(struct worker *w, unsigned thread)
{
    unsigned number = w->free_stacks[--w->free_count];
    char *bottom = stack_bottom(w, number), *top = stack_top(w, number);

    if (number >= w->guarded)
        guard_stacks(w, number);
    w->stack_of[thread] = (uint16_t)number;
    w->started[thread >> 6] |= UINT64_C(1) << (thread & 63);
    fiber_prepare(&w->fibers[thread], bottom, top, run_threads, w);
}

int smemkit_is_local(const void *address)
{
    const struct worker *w = own_worker();
    const unsigned number = w->stack_of[w->current];

    return (const char *)address >= stack_bottom(w, number) && (const char *)address < stack_top(w, number);
}

/* Releases lanes that wait in __activemask once no lane of their warp can run: those at the lowest line. */
static void converge(struct worker *w, unsigned warp)
{
    uint32_t able = (uint32_t)(w->ready[warp >> 1] >> (warp & 1) * 32), group = 0;
    const struct waiting *first = NULL;

    if (able || !w->warp_converging[warp])
        return;
    for (unsigned lane = 0; lane < 32; lane++) {
        const struct waiting *at = &w->waiting[warp * 32 + lane];

        if (w->warp_converging[warp] >> lane & 1 && (!first || at->line < first->line))
            first = at;
    }
    for (unsigned lane = 0; lane < 32; lane++)
        if (w->warp_converging[warp] >> lane & 1 && same_site(first, &w->waiting[warp * 32 + lane]))
            group |= UINT32_C(1) << lane;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (group >> lane & 1) {
            w->waiting[warp * 32 + lane].value = group;
            set_ready(w, warp * 32 + lane);
        }
    }
    w->warp_converging[warp] &= ~group;
}

/* Resumes suspended lanes of a warp once none of its lanes can run. */
static void resume_lanes(struct worker *w, unsigned warp)
{
    const uint32_t able = (uint32_t)(w->ready[warp >> 1] >> (warp & 1) * 32), lanes = w->suspended[warp];
    uint32_t resumed;

    if (able || !lanes)
        return;
    resumed = smemkit_observer->resume(w, warp, lanes);
    w->suspended[warp] &= ~resumed;
    w->ready[warp >> 1] |= (uint64_t)resumed << (warp & 1) * 32;
}

/* Returns a thread that waits for an mbarrier.init that never happens: it reports the fault. -1 if there is none.
 */
static int wake_without_init(struct worker *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiting[i].reason == WAIT_INIT) {
            set_ready(w, i);
            return (int)i;
        }
    }
    return -1;
}

int choose_next(struct worker *w)
{
    int next;

    if (w->warp_converging[w->current >> 5])
        converge(w, w->current >> 5);
    if (w->tracer)
        resume_lanes(w, w->current >> 5);
    next = next_ready(w);
    while (next < 0 && w->in_cluster && w->exited < w->count && cluster_switch(w, true))
        next = next_ready(w);
    if (next < 0 && w->exited < w->count && early_await(w))
        next = next_ready(w);
    if (next < 0 && w->exited < w->count)
        next = wake_without_init(w);
    if (next < 0 && w->exited < w->count)
        fail_waiting(w);
    return next;
}

/* Removes the running thread from the block's schedule. */
static void note_exit(struct worker *w)
{
    const unsigned me = w->current, warp = me >> 5;

    note_change(w);
    if (w->in_cluster)
        cluster_exit(w);
    w->exited++;
    w->warp_exited[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    for (uint32_t lanes = w->warp_waiting[warp]; lanes;
         lanes &= lanes - 1) /* those that waited only for this thread */
        complete_collective(w, warp, w->waiting[warp * 32 + (unsigned)__builtin_ctz(lanes)].mask);
}

/* Ends the running thread after its last statement. Returns if a new thread starts on the same stack. */
static void exit_thread(struct worker *w)
{
    unsigned me = w->current;
    struct fiber nowhere = {0};
    int next;

    if (w->copies_pending)
        async_finish(w, me);
    if (w->bulk_used)
        bulk_exit(w, me);
    if (w->wgmma_used)
        wgmma_exit(w);
    note_exit(w);
    next = choose_next(w);
    if (next >= 0 && !bit(w->started, (unsigned)next)) {
        w->stack_of[next] = w->stack_of[me];
        w->started[next >> 6] |= UINT64_C(1) << (next & 63);
        switch_current(w, (unsigned)next);
#ifdef SMEMKIT_ASAN
        w->fibers[next].stack_bottom = w->fibers[me].stack_bottom;
        w->fibers[next].stack_bytes = w->fibers[me].stack_bytes;
#endif
        return;
    }
    w->free_stacks[w->free_count++] = w->stack_of[me];
    if (next < 0)
        worker_leave(w); /* the block is done */
    switch_current(w, (unsigned)next);
    fiber_switch(&nowhere, &w->fibers[next]);
}

/* Leaves the running thread, which has exited, amid its functions. */
static __attribute__((noreturn)) void abandon_thread(struct worker *w)
{
    const unsigned me = w->current;
    struct fiber nowhere = {0};
    const int next = choose_next(w);

    if (next < 0)
        worker_leave(w);
    if (!bit(w->started, (unsigned)next))
        start_on_own_stack(w, (unsigned)next);
    w->free_stacks[w->free_count++] = w->stack_of[me]; /* it is not reused before this fiber is left */
    switch_current(w, (unsigned)next);
    fiber_switch(&nowhere, &w->fibers[next]);
    abort();
}

void worker_terminate_thread(struct worker *w)
{
    w->terminated++;
    if (w->wgmma_used)
        wgmma_exit(w);
    note_exit(w);
    if (w->arrived && w->arrived + w->terminated == w->count && !w->divergent)
        complete_barrier(w);
    abandon_thread(w);
}

void smemkit_exit(void)
{
    struct worker *w = own_worker();

    if (w->copies_pending)
        async_finish(w, w->current);
    if (w->bulk_used)
        bulk_exit(w, w->current);
    if (w->wgmma_used)
        wgmma_exit(w);
    note_exit(w);
    abandon_thread(w);
}

void worker_yield(struct worker *w)
{
    if (*w->abort)
        worker_leave(w);
    if (w->in_cluster && ++w->cluster_turns % TURNS_PER_BLOCK == 0)
        cluster_switch(w, false);
    early_turn(w);
    yield_to_next(w);
}

void worker_suspend(struct worker *w)
{
    const unsigned me = w->current;

    if (*w->abort)
        worker_leave(w);
    end_turn(w, 0);
    w->suspended[me >> 5] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    yield_to_next(w);
}

static void run_threads(void *worker)
{
    struct worker *w = worker;

    atomic_store_explicit(&w->in_block, true,
                          memory_order_relaxed); /* worker_fiber is saved: a signal handler can switch to it */
    for (;;) {
        w->launch->run(w->launch->closure);
        exit_thread(w);
    }
}
