/* The checker as the executor's observer. */
#define _GNU_SOURCE
#include "trace.h"

#include <stdio.h>

#include "base/scope.h"
#include "executor/block.h"
#include "internal.h"
#include "shadow.h"

static bool wants(void)
{
    return current_scope()->checking != NULL;
}

static struct observation *begin(const struct smemkit_launch *launch)
{
    struct trace *trace = trace_begin(current_scope()->checking, launch);

    return trace ? &trace->observed : NULL;
}

static void end(struct observation *observation)
{
    trace_end((struct trace *)observation); /* of which it is the first field */
}

static bool enter(struct worker *w, struct observation *observation)
{
    return trace_enter(w, (struct trace *)observation);
}

static unsigned next_thread(struct worker *w, bool first)
{
    if (w->tracer->schedule == SCHEDULE_RANDOM)
        return trace_random(w->tracer) % w->count;
    return first ? 0 : w->current + 1;
}

static void switch_thread(struct worker *w, unsigned from, unsigned to)
{
    trace_switch(w->tracer, from, to);
}

static uint32_t resume(struct worker *w, unsigned warp, uint32_t lanes)
{
    return trace_drain_logs(w->tracer, warp, lanes);
}

static void barrier(struct worker *w)
{
    w->tracer->barriers++;
    trace_merge_block(w->tracer);
    clock_barrier(w->tracer);
    if (w->tracer->block_poisoned && ++w->tracer->poisoned_barriers >= MAX_POISONED_BARRIERS) {
        w->exited = w->terminated = w->count; /* by the fault, so that nothing more is reported about them */
        worker_leave(w);
    }
}

static void arrive(struct worker *w, unsigned thread)
{
    trace_check_log(w->tracer, thread);
    clock_arrive(w->tracer, thread);
}

static void join(struct worker *w, const uint64_t *from, const uint64_t *to)
{
    clock_join(w->tracer, from, to);
}

static void named_arrive(struct worker *w, int id)
{
    clock_named_arrive(w->tracer, w->current, id);
}

static void named_complete(struct worker *w, int id)
{
    clock_named_complete(w->tracer, id);
}

static bool follows(struct worker *w, int id, const uint64_t *threads)
{
    return clock_follows(w->tracer, w->current, id, threads);
}

static void shared_allocated(struct worker *w, unsigned slot)
{
    trace_shared(w->tracer, slot);
}

static uint32_t copy_issued(struct worker *w, void *to, const void *from, unsigned read, unsigned bytes,
                            enum smemkit_copy_path path, const void *code)
{
    uint32_t item;

    atomic_store_explicit(&w->tracer->trace->asynchronous, true, memory_order_relaxed);
    item = trace_async(w->tracer, to, from, read, bytes, path, code);
    thread_flight_begin(w->tracer, w->current, bytes);
    return item;
}

static bool completes_early(struct worker *w)
{
    const enum completion completion = w->tracer->trace->completion;

    return completion == COMPLETION_EARLY || (completion == COMPLETION_RANDOM && trace_random(w->tracer) % 2);
}

static void copies_awaited(struct worker *w, unsigned thread)
{
    trace_check_log(w->tracer, thread); /* the accesses before */
}

static void copy_completed(struct worker *w, unsigned thread, void *to, unsigned bytes, uint32_t item)
{
    thread_flight_end(w->tracer, thread, bytes);
    shadow_async(w->tracer, thread, to, bytes, item, shadow_position(w->tracer, thread), true);
}

static uint32_t bulk_issued(struct worker *w, const struct bulk *bulk, const void *code)
{
    atomic_store_explicit(&w->tracer->trace->asynchronous, true, memory_order_relaxed);
    flight_begin(w->tracer, bulk);
    return bulk_access(w->tracer, bulk, code);
}

static void bulk_seen(struct worker *w, const struct bulk *bulk, bool written)
{
    flight_end(w->tracer, bulk);
    bulk_see(w->tracer, bulk, written);
}

static uint32_t wgmma_issued(struct worker *w, const struct wgmma *item)
{
    atomic_store_explicit(&w->tracer->trace->asynchronous, true, memory_order_relaxed);
    return wgmma_access(w->tracer, item);
}

static void wgmma_seen(struct worker *w, const struct wgmma *item, unsigned warp)
{
    wgmma_see(w->tracer, item, warp);
}

static void wgmma_fenced(struct worker *w, unsigned warp)
{
    wgmma_fence(w->tracer, warp);
}

static void cluster_barrier(struct worker *w, const void *cluster, bool arrives, bool orders)
{
    trace_check_log(w->tracer, w->current);
    clock_atomic_begin(w->tracer);
    clock_atomic(w->tracer, w->current, (uintptr_t)cluster, arrives, !orders ? 0 : arrives ? 2 : 1);
    if (!arrives)
        remotes_have_begun(w->tracer, w->current);
}

static void earlier_awaited(struct worker *w)
{
    trace_check_log(w->tracer, w->current); /* the accesses before */
    early_awaited(w->tracer);
}

static void copies_arrived(struct worker *w, unsigned thread, const void *object)
{
    clock_atomic_begin(w->tracer);
    clock_atomic(w->tracer, thread, (uintptr_t)object, true, 2); /* a release */
}

static bool mbarrier_tried(struct worker *w, const char *file, int line, bool passed)
{
    struct tracer *t = w->tracer;
    struct passed_wait *last = &t->passes[w->current];
    const uint32_t epoch = t->threads[w->current].epoch;
    const bool same_epoch = last->tried_epoch == epoch;

    last->tried_epoch = epoch;
    wait_tried(t, file, line, passed);
    return same_epoch;
}

/* The accesses so far come before. */
static void mbarrier_failed(struct worker *w)
{
    trace_check_log(w->tracer, w->current);
    w->tracer->passes[w->current].tried = trace_position(w->tracer, w->current);
}

/* Failed tries do not advance the thread's position, because positions show which access comes first in the
 * kernel. */
static void mbarrier_passed(struct worker *w, const struct mbarrier_pass *pass)
{
    struct tracer *t = w->tracer;
    struct passed_wait *passed = &t->passes[w->current];

    trace_check_log(t, w->current);
    if (pass->late)
        t->position[w->current] -= trace_position(t, w->current) - passed->tried;
    passed->pass = *pass;
    passed->position = shadow_position(t, w->current);
}

static void fault(struct worker *w, enum fault_kind kind, const char *message, bool thread, const char *file,
                  int line, const char *other_file, int other_line)
{
    struct code_location here = {.file = file, .line = line};

    if (thread) {
        trace_check_log(w->tracer, w->current); /* up to the call that led here */
        here.context = w->tracer->context[w->current];
    }
    trace_fault_message(w, kind, here, (struct code_location){.file = other_file, .line = other_line}, message,
                        thread);
}

static void fault_at_code(struct worker *w, enum fault_kind kind, const char *message, const void *code)
{
    const struct code_location nowhere = {0}, cause = kind == KIND_HANG ? trace_poison(w->tracer) : nowhere;

    trace_fault_message(w, kind, trace_here(w->tracer, code), cause, message, true);
}

static const struct observer observer = {
    .wants = wants,
    .begin = begin,
    .end = end,
    .after_fork = trace_after_fork,
    .enter = enter,
    .leave = trace_leave,
    .block_begin = trace_block_begin,
    .block_end = trace_block_end,
    .next_thread = next_thread,
    .switch_thread = switch_thread,
    .resume = resume,
    .barrier = barrier,
    .arrive = arrive,
    .join = join,
    .named_arrive = named_arrive,
    .named_complete = named_complete,
    .follows = follows,
    .shared_allocated = shared_allocated,
    .copy_issued = copy_issued,
    .completes_early = completes_early,
    .copies_awaited = copies_awaited,
    .copy_completed = copy_completed,
    .bulk_issued = bulk_issued,
    .bulk_seen = bulk_seen,
    .wgmma_issued = wgmma_issued,
    .wgmma_seen = wgmma_seen,
    .wgmma_fenced = wgmma_fenced,
    .cluster_barrier = cluster_barrier,
    .earlier_awaited = earlier_awaited,
    .copies_arrived = copies_arrived,
    .mbarrier_tried = mbarrier_tried,
    .mbarrier_failed = mbarrier_failed,
    .mbarrier_passed = mbarrier_passed,
    .fault = fault,
    .fault_at_code = fault_at_code,
};

void checker_observe(void)
{
    smemkit_observer = &observer;
}
