/* __syncthreads and PTX's named barriers. */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <string.h>

#include "schedule.h"

/* A thread has arrived at a different barrier than the first one: no thread will be released. */
static __attribute__((noinline)) void note_divergence(struct worker *w, const char *file, int line)
{
    w->waiting[w->current] = (struct waiting){.file = file, .line = line, .reason = WAIT_AT_OTHER_BARRIER};
    w->divergent++;
}

void complete_barrier(struct worker *w)
{
    if (w->tracer)
        smemkit_observer->barrier(w);
    if (w->terminated) /* all but the terminated ones */
        for (unsigned i = 0; i < w->count; i++)
            if (!(w->warp_exited[i >> 5] >> (i & 31) & 1))
                set_ready(w, i);
    if (!w->terminated)
        set_all_ready(w);
    w->arrived = 0;
    w->barrier_result = w->passed;
    w->passed = 0;
}

/* Reports an arrival that is not ordered after all arrivals of the barrier's last phase: it may be counted in that
 * phase.
 */
static void check_phases(struct worker *w, int id, const char *file, int line)
{
    const struct named_phase *last = &w->phases[id];
    char what[MESSAGE_BYTES];

    if (!last->file || bit(last->waiting, w->current) || smemkit_observer->follows(w, id, last->arrivals))
        return;
    snprintf(what, sizeof what,
             "arrives at barrier %d at %.200s:%d, perhaps before the phase that began at %.200s:%d is complete: "
             "nothing orders it after all arrivals of that phase, in which it would count as one of them",
             id, file, line, last->file, last->line);
    smemkit_observer->fault(w, KIND_BARRIER, what, true, file, line, last->file, last->line);
}

/* __syncthreads is barrier 0 as well: aborts the launch if threads have arrived there for fewer than the block. */
static __attribute__((noinline)) void check_zero(struct worker *w, const char *file, int line)
{
    const struct named_barrier *b = &w->named[0];
    char what[MESSAGE_BYTES];

    if (b->arrived) {
        snprintf(what, sizeof what,
                 "barrier 0 for the whole block at %.200s:%d, while others wait at it for %u threads at %.200s:%d",
                 file, line, b->expected, b->file, b->line);
        worker_fail_beside(w, KIND_BARRIER, what, file, line, b->file, b->line);
    }
    if (w->tracer)
        check_phases(w, 0, file, line);
}

int smemkit_barrier(int predicate, const char *file, int line)
{
    struct worker *w = own_worker();

    if (w->named_used)
        check_zero(w, file, line);
    if (w->arrived == 0) {
        w->barrier_file = file;
        w->barrier_line = line;
    } else if (!same_line(file, line, w->barrier_file, w->barrier_line)) {
        note_divergence(w, file, line);
    }
    w->passed += predicate != 0;
    clear_ready(w, w->current);
    if (++w->arrived + w->terminated == w->count && !w->divergent)
        complete_barrier(w);
    yield_to_next(w);
    return w->barrier_result;
}

/* Lanes that the hardware counts for this thread's arrival. It counts whole warps, so the last thread of a block
 * also counts for the missing lanes of its warp. */
static unsigned arriving_lanes(const struct worker *w, unsigned thread)
{
    return thread + 1 == w->count ? 1 + -w->count % 32 : 1;
}

/* Returns named barrier `id`. Aborts the launch if the id or the number of threads is invalid, or differs from
 * that of earlier arrivals. */
static struct named_barrier *named_barrier(struct worker *w, int id, unsigned lanes, const char *file, int line)
{
    struct named_barrier *b = &w->named[id & (NAMED_BARRIERS - 1)];
    const char *other_file = b->arrived ? b->file : NULL; /* of the first arrival */
    int other_line = b->line;
    char what[MESSAGE_BYTES];

    if (id == 0 && w->arrived) {
        other_file = w->barrier_file;
        other_line = w->barrier_line;
    }

    if (id < 0 || id >= NAMED_BARRIERS)
        snprintf(what, sizeof what, "no barrier %d (a block has 0 to %d) at %.200s:%d", id, NAMED_BARRIERS - 1,
                 file, line);
    else if (lanes % 32)
        snprintf(what, sizeof what, "barrier %d for %u threads, not a multiple of 32, at %.200s:%d", id, lanes,
                 file, line);
    else if (lanes > (w->count + 31) / 32 * 32)
        snprintf(what, sizeof what, "barrier %d for %u threads of a block that has %u at %.200s:%d", id, lanes,
                 w->count, file, line);
    else if (id == 0 && w->arrived)
        snprintf(what, sizeof what,
                 "barrier 0 for %u threads at %.200s:%d, while others wait at it for the whole block at %.200s:%d",
                 lanes, file, line, other_file, other_line);
    else if (b->arrived && b->expected != lanes)
        snprintf(what, sizeof what, "barrier %d for %u threads at %.200s:%d, but for %u threads at %.200s:%d", id,
                 lanes, file, line, b->expected, b->file, b->line);
    else if (bit(b->arrivals, w->current))
        snprintf(what, sizeof what,
                 "a second arrival at barrier %d at %.200s:%d, before its phase is complete: %u of %u threads "
                 "have arrived",
                 id, file, line, b->arrived, b->expected);
    else
        return b;
    worker_fail_beside(w, KIND_BARRIER, what, file, line, other_file, other_line);
}

/* Completes a phase: joins the clocks of the arrived threads and releases the waiting ones. */
static void complete_named(struct worker *w, struct named_barrier *b)
{
    const int id = (int)(b - w->named);
    struct named_phase *last = &w->phases[id];

    if (w->tracer) {
        smemkit_observer->join(w, b->arrivals, b->waiting);
        smemkit_observer->named_complete(w, id);
        *last = (struct named_phase){.file = b->file, .line = b->line};
        memcpy(last->arrivals, b->arrivals, sizeof last->arrivals);
        memcpy(last->waiting, b->waiting, sizeof last->waiting);
    }
    note_change(w);
    for (int i = 0; i < READY_WORDS; i++)
        w->ready[i] |= b->waiting[i];
    memset(b, 0, sizeof *b);
}

void smemkit_named_barrier(int id, unsigned threads, int wait, const char *file, int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current, whole = (w->count + 31) / 32 * 32, lanes = threads ? threads : whole;
    struct named_barrier *b;

    if (id == 0 && wait && lanes == whole && !w->named[0].arrived) { /* the barrier of __syncthreads */
        smemkit_barrier(0, file, line);
        return;
    }
    b = named_barrier(w, id, lanes, file, line);
    if (!b->arrived) {
        b->expected = lanes;
        b->file = file;
        b->line = line;
        w->named_used = true;
    }
    if (w->tracer) {
        check_phases(w, id, file, line);
        smemkit_observer->arrive(w, me);
        smemkit_observer->named_arrive(w, id);
    }
    b->arrived += arriving_lanes(w, me);
    b->arrivals[me >> 6] |= UINT64_C(1) << (me & 63);
    if (wait) {
        w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_NAMED, .source = id};
        b->waiting[me >> 6] |= UINT64_C(1) << (me & 63);
        clear_ready(w, me);
    }
    if (b->arrived >= b->expected)
        complete_named(w, b);
    else if (wait)
        yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
}
