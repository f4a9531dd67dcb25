/* The search for waits that can never end: see struct repetition. */
#define _GNU_SOURCE
#include "block.h"

#include <setjmp.h>
#include <string.h>

#include "memory.h"
#include "schedule.h"

/* Hash of the running thread's registers, which setjmp stores on the stack, and of its stack. */
static __attribute__((noinline)) uint64_t thread_state(const struct worker *w)
{
    jmp_buf registers;
    const char *top = stack_top(w, w->stack_of[w->current]);

    memset(&registers, 0, sizeof registers);
    (void)setjmp(registers);
    return memory_hash(&registers, (size_t)(top - (const char *)&registers));
}

/* Hash of a thread that waits, and of its stack, which is the same until it runs again. */
static uint64_t waiting_state(struct worker *w, unsigned thread)
{
    struct repetition *r = &w->repetition;
    const char *from = w->fibers[thread].sp;

    if (!r->hashed[thread])
        r->stacks[thread] = memory_hash(&w->fibers[thread], sizeof w->fibers[thread]) +
                            memory_hash(from, (size_t)(stack_top(w, w->stack_of[thread]) - from));
    r->hashed[thread] = true;
    return r->stacks[thread];
}

/* Hash of a warp whose lanes exchange values: of all its threads, where they wait, and what for. */
static uint64_t warp_state(struct worker *w)
{
    const unsigned warp = w->current >> 5, first = warp * 32;
    const uint32_t started = (uint32_t)(w->started[warp >> 1] >> (warp & 1) * 32);
    uint64_t state = thread_state(w) + memory_hash(&w->waiting[first], 32 * sizeof *w->waiting);

    for (uint32_t lanes = started & ~w->warp_exited[warp]; lanes; lanes &= lanes - 1) {
        const unsigned thread = first + (unsigned)__builtin_ctz(lanes);

        if (thread != w->current)
            state = state * 31 + waiting_state(w, thread);
    }
    return state * 31 + ((uint64_t)w->warp_waiting[warp] << 32 | w->warp_converging[warp]);
}

static void begin_round(struct repetition *r, unsigned count)
{
    r->searched = r->changes;
    memset(r->hashed, false, count);
    memset(r->repeated, 0, sizeof r->repeated);
    memset(r->turns, 0, count * sizeof *r->turns);
}

/* Every runnable thread has repeated itself. The round counts unless shared memory has changed: plain stores are
 * not counted as changes. */
static void end_round(struct worker *w)
{
    struct repetition *r = &w->repetition;
    const uint64_t shared = shared_hash(w);

    if (shared != r->shared)
        note_change(w);
    else
        atomic_fetch_add(&r->rounds, 1);
    r->shared = shared;
    begin_round(r, w->count);
}

/* Clears the part of the stack that note_turn will use. Otherwise what the checker's functions left there, such as
 * the count of the thread's accesses, would be hashed where note_turn's frame has padding. */
NOINLINE void clear_stack(void)
{
    char below[1024];

    memset(below, 0, sizeof below);
    __asm__ volatile("" ::"r"(below) : "memory");
}

void note_turn(struct worker *w, uint32_t lanes)
{
    struct repetition *r = &w->repetition;
    const unsigned me = lanes ? (w->current & ~31u) + (unsigned)__builtin_ctz(lanes) : w->current;
    const unsigned shift = me & 32;
    uint64_t state;

    if (r->changes != r->searched) {
        begin_round(r, w->count);
        return;
    }
    state = r->collectives[me >> 5] ? warp_state(w) : thread_state(w);
    if (r->turns[me] && state == r->states[me])
        r->repeated[me >> 6] |= lanes ? (uint64_t)lanes << shift : UINT64_C(1) << (me & 63);
    if ((r->turns[me] & (r->turns[me] + 1)) == 0)
        r->states[me] = state;
    r->turns[me]++;
    for (unsigned i = 0; i * 64 < w->count; i++) {
        const uint64_t suspended = w->suspended[2 * i] | (uint64_t)w->suspended[2 * i + 1] << 32;
        const uint64_t able = w->ready[i] | suspended; /* these will run, too */

        if (able & ~r->repeated[i])
            return;
    }
    end_round(w);
}
