/* What the files of one block share: which thread runs, how it waits, and what a fault's message says. */
#ifndef SMEMKIT_EXECUTOR_SCHEDULE_H
#define SMEMKIT_EXECUTOR_SCHEDULE_H

#include "block.h"

/* A stack has a guard page below it. It starts at one of 16 offsets in its topmost 4 KB, because stacks at
 * power-of-two distances would all map to the same few cache sets. */
enum {
    STACK_BYTES = 256 * 1024,
    STACK_COLOURS = 16,
    COLOUR_BYTES = 256,
    TICKS_PER_TURN = 32,  /* ticks of a block between two switches to the next thread */
    TURNS_PER_BLOCK = 64, /* switches of a block between two switches to the next block of its cluster */
    COLLECTIVES_PER_TURN =
        509, /* collectives of a warp per turn; prime, so that each collective of a loop sometimes ends a turn */
    MAX_GUARDS = 16384,
};

/* For functions with arrays that a collective calls. Inlined, their arrays, with stale contents, would be part of
 * a waiting thread's stack, and no thread would ever seem to repeat itself. */
#define NOINLINE __attribute__((noinline))

/* ---- stacks.c ---- */

/* Adds the guard pages of stacks up to `number`, at their first use. Each costs the process two mappings, of which
 * Linux allows 65530: on a machine with many cores the last stacks have none. */
void guard_stacks(struct worker *w, unsigned number);

/* ---- schedule.c ---- */

/* All threads of the block become ready: at its start, and when a barrier completes. */
void set_all_ready(struct worker *w);
void start_on_own_stack(struct worker *w, unsigned thread);

/* Returns the thread to run next, or -1 if all have exited. If none can run, ends the block. */
int choose_next(struct worker *w);

/* ---- barriers.c and warp.c ---- */

/* All threads have arrived: releases them. */
void complete_barrier(struct worker *w);

/* Completes the collective of `mask` if all its lanes that have not exited have arrived at the same one. Returns
 * whether it did. */
bool complete_collective(struct worker *w, unsigned warp, uint32_t mask);

/* ---- repetition.c ---- */

/* Parts of end_turn: clear_stack clears the stack below its caller, which note_turn hashes. */
void clear_stack(void);
void note_turn(struct worker *w, uint32_t lanes);

/* Call it before the running thread yields where it may be waiting for others; or, with `lanes`, when these lanes
 * of its warp complete a collective. In that case each lane has run since its previous turn. */
static inline void end_turn(struct worker *w, uint32_t lanes)
{
    clear_stack();
    note_turn(w, lanes);
}

/* ---- explain.c ---- */

bool same_line(const char *file, int line, const char *other_file, int other_line);
bool same_site(const struct waiting *a, const struct waiting *b);
void append_text(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void append_location(const struct worker *w, char *text, bool thread);
void explain(struct worker *w, int error, const char *what, bool thread);

/* No thread can run. In a checked block without some threads, which a fault has terminated, the others may be
 * waiting for those. */
void fail_waiting(struct worker *w) __attribute__((noreturn));

/* Describes the signal that the handler recorded. */
void explain_signal(struct worker *w);
void explain_abort(struct worker *w);

/* False, with a fault, if the block has overwritten slack of its shared memory. The fault has no line, because it
 * is found at the end. */
bool shared_is_intact(struct worker *w);

/* ---- inline, for barriers are the hot path ---- */

/* The worker of the running fiber, read from the start of its stack region. A thread-local variable would cost a
 * call in a shared library. */
static inline struct worker *own_worker(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    return ((const struct stack_region *)(here & ~(STACK_REGION - 1)))->worker;
}

static inline bool bit(const uint64_t *set, unsigned i)
{
    return set[i >> 6] >> (i & 63) & 1;
}

/* Call it when something has happened that other threads may wait for. */
static inline void note_change(struct worker *w)
{
    _Atomic uint64_t *changes = &w->repetition.changes; /* written by this worker alone */

    atomic_store_explicit(changes, atomic_load_explicit(changes, memory_order_relaxed) + 1, memory_order_relaxed);
}

static inline size_t stack_stride(const struct worker *w)
{
    return STACK_BYTES + w->page;
}

static inline char *stack_bottom(const struct worker *w, unsigned number)
{
    return w->stacks + (number + 1) * stack_stride(w) + w->page; /* the first slot holds the stack_region */
}

static inline char *stack_top(const struct worker *w, unsigned number)
{
    return stack_bottom(w, number) + STACK_BYTES - number % STACK_COLOURS * COLOUR_BYTES;
}

static inline void set_ready(struct worker *w, unsigned thread)
{
    note_change(w);
    w->ready[thread >> 6] |= UINT64_C(1) << (thread & 63);
}

static inline void clear_ready(struct worker *w, unsigned thread)
{
    w->ready[thread >> 6] &= ~(UINT64_C(1) << (thread & 63));
}

static inline void switch_current(struct worker *w, unsigned thread)
{
    if (w->tracer)
        smemkit_observer->switch_thread(w, w->current, thread);
    w->current = thread;
    w->repetition.hashed[thread] = false;
    *w->thread_index = w->indices[thread];
}

/* Switches to the next ready thread, most often the neighbour. Returns when the calling thread runs again. */
static inline void yield_to_next(struct worker *w)
{
    unsigned me = w->current, next = me + 1;

    if (next >= w->count || !bit(w->ready, next) || w->warp_converging[me >> 5] || w->tracer)
        next = (unsigned)choose_next(w);
    if (next == me)
        return;
    if (!bit(w->started, next))
        start_on_own_stack(w, next);
    switch_current(w, next);
    fiber_fetch(&w->fibers[next + 1]);
    fiber_switch(&w->fibers[me], &w->fibers[next]);
}

#endif
