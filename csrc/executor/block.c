/* One block: its threads as fibers. See schedule.c for which of them runs, barriers.c and warp.c for how they
 * synchronise. */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bulk.h"
#include "schedule.h"
#include "wgmma.h"

SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

SMEMKIT_INDEX smemkit_thread_index;
SMEMKIT_INDEX smemkit_block_index;
SMEMKIT_INDEX smemkit_block_dim;
SMEMKIT_INDEX smemkit_grid_dim;

void worker_leave(struct worker *w)
{
    struct fiber nowhere = {0};

    atomic_store_explicit(&w->in_block, false, memory_order_relaxed);
    fiber_switch(&nowhere, &w->worker_fiber);
    abort(); /* never resumed */
}

static void number_threads(struct worker *w, const unsigned dim[3])
{
    unsigned t = 0;

    if (memcmp(w->indices_dim, dim, sizeof w->indices_dim) == 0)
        return;
    for (unsigned z = 0; z < dim[2]; z++)
        for (unsigned y = 0; y < dim[1]; y++)
            for (unsigned x = 0; x < dim[0]; x++)
                w->indices[t++] = (struct index3){x, y, z};
    memcpy(w->indices_dim, dim, sizeof w->indices_dim);
}

static void reset(struct worker *w)
{
    memset(w->started, 0, sizeof w->started);
    memset(w->ready, 0, sizeof w->ready);
    set_all_ready(w);
    memset(w->warp_waiting, 0, sizeof w->warp_waiting);
    memset(w->warp_converging, 0, sizeof w->warp_converging);
    memset(w->warp_exited, 0, sizeof w->warp_exited);
    memset(w->suspended, 0, sizeof w->suspended);
    w->current = 0;
    w->exited = w->terminated = w->arrived = 0;
    if (w->waits_failed)
        memset(w->failed_waits, 0, sizeof w->failed_waits);
    w->waits_failed = false;
    w->passed = 0;
    w->divergent = 0;
    if (w->named_used) {
        memset(w->named, 0, sizeof w->named);
        memset(w->phases, 0, sizeof w->phases);
    }
    w->named_used = false;
    if (w->mbarriers)
        memset(w->mbarrier_arrivals, 0, sizeof w->mbarrier_arrivals);
    w->mbarriers = 0;
    if (w->copies_pending)
        async_forget(w);
    if (w->bulk_used)
        bulk_forget(w);
    if (w->wgmma_used)
        wgmma_forget(w);
    w->ticks = w->early_turns = 0;
    w->cluster_stalled = w->cluster_dead = w->cluster_paused = false; /* of a cluster that was abandoned */
    memset(w->repetition.collectives, 0, sizeof w->repetition.collectives);
    w->fault.error = ERROR_NONE;
    w->fault_signal = 0;
    if (w->free_count != MAX_THREADS) { /* at first, and after an abandoned block */
        for (int i = 0; i < MAX_THREADS; i++) {
            w->free_stacks[i] = (uint16_t)(MAX_THREADS - 1 - i);
            w->waiting[i].reason = WAIT_AT_BARRIER;
        }
        w->free_count = MAX_THREADS;
    }
}

void worker_begin_block(struct worker *w, const struct smemkit_launch *launch, struct index3 block)
{
    w->launch = launch;
    w->block = block;
    w->count = launch->block[0] * launch->block[1] * launch->block[2];
    number_threads(w, launch->block);
    w->thread_index = &smemkit_thread_index;
    reset(w);
    w->repetition.shared = 0;
    if (w->tracer)
        smemkit_observer->block_begin(w);
}

static void set_indices(const struct worker *w)
{
    const struct smemkit_launch *launch = w->launch;

    smemkit_block_index = w->block;
    smemkit_block_dim = (struct index3){launch->block[0], launch->block[1], launch->block[2]};
    smemkit_grid_dim = (struct index3){launch->grid[0], launch->grid[1], launch->grid[2]};
}

bool worker_resume_block(struct worker *w)
{
    unsigned first = w->current;

    set_indices(w);
    w->cluster_turns = 0;
    if (w->cluster_paused) {
        w->cluster_paused = false;
        *w->thread_index = w->indices[w->current];
        atomic_store_explicit(&w->in_block, true, memory_order_relaxed);
    } else {
        if (w->tracer)
            first = smemkit_observer->next_thread(w, true);
        switch_current(w, first);
        start_on_own_stack(w, first);
    }
    fiber_switch(&w->worker_fiber, &w->fibers[first]);
    return w->cluster_paused;
}

void worker_abandon_block(struct worker *w)
{
    atomic_store_explicit(&w->in_block, false, memory_order_relaxed);
    w->free_count = 0;
}

bool worker_has_ready(const struct worker *w)
{
    for (unsigned i = 0; i < READY_WORDS; i++)
        if (w->ready[i])
            return true;
    return false;
}

bool worker_end_block(struct worker *w)
{
    if (w->bulk_used && w->exited == w->count && !w->terminated)
        bulk_finish(w);
    if (w->wgmma_used && w->exited == w->count && !w->terminated)
        wgmma_finish(w);
    if (w->tracer)
        smemkit_observer->block_end(w);
    if (w->exited == w->count && !w->fault.error && shared_is_intact(w))
        return true;
    w->free_count = 0;
    if (!w->fault.error) {
        if (w->fault_signal)
            explain_signal(w);
        else
            explain_abort(w);
    }
    return false;
}

bool worker_run_block(struct worker *w, const struct smemkit_launch *launch, struct index3 block)
{
    worker_begin_block(w, launch, block);
    worker_resume_block(w);
    return worker_end_block(w);
}

/* A separate function, whose frame is smaller than that of smemkit_tick, because the stack is hashed. */
static NOINLINE void yield_turn(struct worker *w)
{
    end_turn(w, 0);
    worker_yield(w);
}

void smemkit_tick(int changed)
{
    struct worker *w = smemkit_worker;

    if (!w)
        return;
    if (changed)
        note_change(w);
    if (++w->ticks % TICKS_PER_TURN)
        return;
    yield_turn(w);
}

long long smemkit_clock64(void)
{
    smemkit_tick(1);
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

clock_t smemkit_clock(void)
{
    return smemkit_worker ? (clock_t)smemkit_clock64() : clock();
}

void smemkit_trap(const char *what, const char *file, int line)
{
    struct worker *w = smemkit_worker;
    char text[MESSAGE_BYTES];

    if (!w)
        abort();
    snprintf(text, sizeof text, file ? "%s at %s:%d" : "%s", what, file, line);
    if (!w->tracer)
        worker_fail(w, KIND_TRAP, text, file, line);
    append_location(w, text, true); /* a check terminates only this thread */
    smemkit_observer->fault(w, KIND_TRAP, text, true, file, line, NULL, 0);
    worker_terminate_thread(w);
}

int smemkit_in_kernel(void)
{
    return smemkit_worker != NULL;
}

void *smemkit_heap_allocate(size_t bytes)
{
    return smemkit_worker ? memory_allocate_in_kernel(bytes) : malloc(bytes);
}

static void fail_release(struct worker *w, const void *caller)
{
    char text[MESSAGE_BYTES] = "free of memory that the kernel has not allocated, or has freed already";

    if (!w->tracer)
        worker_fail(w, KIND_TRAP, text, NULL, 0);
    append_location(w, text, true);
    smemkit_observer->fault_at_code(w, KIND_TRAP, text, (const char *)caller - 1);
    worker_terminate_thread(w);
}

void smemkit_heap_release(void *memory, const void *caller)
{
    if (!smemkit_worker)
        free(memory);
    else if (memory && !memory_free_in_kernel(memory))
        fail_release(smemkit_worker, caller);
}

int smemkit_runs_together(void)
{
    return smemkit_worker && smemkit_worker->launch->cooperative;
}

void smemkit_overrun(const void *code)
{
    struct worker *w = smemkit_worker;

    if (!w)
        abort();
    if (!w->tracer) {
        explain(w, ERROR_ILLEGAL_ADDRESS, "illegal write: past the end of a local array", true);
        worker_leave(w);
    }
    smemkit_observer->fault_at_code(w, KIND_OUT_OF_BOUNDS,
                                    "has written past the end of a local array of the function that ends here",
                                    (const char *)code - 1);
    worker_terminate_thread(w);
}

void *smemkit_dynamic_shared(void)
{
    return own_worker()->shared.dynamic.start;
}

void *shared_variable(struct worker *w, const struct smemkit_shared *variable)
{
    for (unsigned i = 0; i < w->shared.count; i++)
        if (w->shared.slots[i].variable == variable)
            return w->shared.slots[i].start;
    return shared_allocate(w, variable);
}

void *smemkit_static_shared(const struct smemkit_shared *variable)
{
    return shared_variable(own_worker(), variable);
}
