/* Warp collectives: shuffles, votes, matches, reductions, __syncwarp, __activemask. */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <string.h>

#include "ptx.h"
#include "schedule.h"

static uint32_t present_lanes(const struct worker *w, unsigned warp)
{
    unsigned lanes = w->count - warp * 32;

    return (lanes >= 32 ? ~UINT32_C(0) : (UINT32_C(1) << lanes) - 1) & ~w->warp_exited[warp];
}

static uint64_t combine(enum smemkit_collective kind, uint64_t a, uint64_t b)
{
    switch (kind) {
    case SMEMKIT_ADD:
        return (uint32_t)(a + b);
    case SMEMKIT_MIN:
        return (int32_t)a < (int32_t)b ? a : b;
    case SMEMKIT_MAX:
        return (int32_t)a > (int32_t)b ? a : b;
    case SMEMKIT_UMIN:
        return a < b ? a : b;
    case SMEMKIT_UMAX:
        return a > b ? a : b;
    case SMEMKIT_AND:
        return a & b;
    case SMEMKIT_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* Replaces the operand of each lane of `lanes` by the collective's result. */
static NOINLINE void exchange(struct waiting *warp, uint32_t lanes, enum smemkit_collective kind)
{
    uint64_t brought[32], all = 0;
    bool first = true;

    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);

        brought[lane] = warp[lane].value;
        if (kind == SMEMKIT_BALLOT)
            all |= (uint64_t)(brought[lane] != 0) << lane;
        else
            all = first ? brought[lane] : combine(kind, all, brought[lane]);
        first = false;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest), source = warp[lane].source;

        if (kind == SMEMKIT_SHUFFLE) {
            if (lanes >> source & 1)
                warp[lane].value = brought[source];
        } else if (kind == SMEMKIT_MATCH) {
            warp[lane].value = 0;
            for (uint32_t others = lanes; others; others &= others - 1) {
                int other = __builtin_ctz(others);

                warp[lane].value |= (uint64_t)(brought[other] == brought[lane]) << other;
            }
        } else if (kind != SMEMKIT_SYNC) {
            warp[lane].value = all;
        }
    }
}

/* A lane shuffles from a lane without a value, which is undefined on a GPU: that aborts the launch; in a check it
 * is a fault, and the lane gets its own value. */
static NOINLINE void undefined_shuffle(struct worker *w, unsigned warp, unsigned lane)
{
    const struct waiting *reader = &w->waiting[warp * 32 + lane];
    const unsigned me = w->current, source = (unsigned)reader->source;
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "undefined shuffle at %.200s:%d: lane %u reads lane %u, which ", reader->file,
             reader->line, lane, source);
    if (!(reader->mask >> source & 1))
        append_text(what, "mask 0x%08x does not name", (unsigned)reader->mask);
    else if (warp * 32 + source >= w->count)
        append_text(what, "is beyond the %u threads of the block", w->count);
    else
        append_text(what, "has exited");
    switch_current(w, warp * 32 + lane); /* report the reading lane; the last one to arrive is running */
    if (!w->tracer)
        worker_fail(w, KIND_SHUFFLE, what, reader->file, reader->line);
    append_location(w, what, true);
    smemkit_observer->fault(w, KIND_SHUFFLE, what, true, reader->file, reader->line, NULL, 0);
    switch_current(w, me);
}

/* Every lane of `lanes` must shuffle from one of them, or from one that a check has terminated. */
static void check_shuffle(struct worker *w, unsigned warp, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest && !w->terminated; rest &= rest - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(rest);

        if (!(lanes >> w->waiting[warp * 32 + lane].source & 1))
            undefined_shuffle(w, warp, lane);
    }
}

static NOINLINE void join_lanes(struct worker *w, unsigned warp, uint32_t lanes)
{
    uint64_t set[READY_WORDS] = {0};

    set[warp >> 1] = (uint64_t)lanes << (warp & 1) * 32;
    smemkit_observer->join(w, set, set);
}

/* smemkit_warp_call: all lanes are there, or the launch ends. For lanes that a fault has terminated, the first of
 * the others stands in. */
static NOINLINE void call_together(struct worker *w, unsigned warp, uint32_t lanes)
{
    const struct waiting *all = &w->waiting[warp * 32], *first = &all[__builtin_ctz(lanes)];
    struct smemkit_warp_call *const one = (struct smemkit_warp_call *)(uintptr_t)first->value;
    struct smemkit_warp_call *calls[32];
    char what[MESSAGE_BYTES];

    if (lanes != ~UINT32_C(0) && !w->terminated) {
        snprintf(
            what, sizeof what,
            "warp divergence at %.200s:%d: %s needs all 32 lanes of the warp, and %d execute it (mask 0x%08x)",
            first->file, first->line, one->instruction, __builtin_popcount(lanes), (unsigned)lanes);
        worker_fail(w, KIND_BARRIER, what, first->file, first->line);
    }
    for (unsigned lane = 0; lane < 32; lane++)
        calls[lane] = lanes >> lane & 1 ? (struct smemkit_warp_call *)(uintptr_t)all[lane].value : one;
    one->run(calls);
    memset(&w->repetition.hashed[warp * 32], false, 32); /* the results are on the lanes' stacks */
}

bool complete_collective(struct worker *w, unsigned warp, uint32_t mask)
{
    uint32_t present = present_lanes(w, warp), lanes = mask & present;
    struct waiting *all = &w->waiting[warp * 32], *first;

    if (!lanes || (w->warp_waiting[warp] & lanes) != lanes)
        return false;
    first = &all[__builtin_ctz(lanes)];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const struct waiting *lane = &all[__builtin_ctz(rest)];

        if ((lane->mask & present) != lanes || lane->collective != first->collective)
            return false;
        if (first->collective != SMEMKIT_SYNC && !same_site(lane, first))
            return false;
    }
    if (first->collective == SMEMKIT_SHUFFLE)
        check_shuffle(w, warp, lanes);
    if ((int)first->collective == SMEMKIT_CALL)
        call_together(w, warp, lanes);
    else
        exchange(all, lanes, first->collective);
    if (w->tracer && first->collective == SMEMKIT_SYNC)
        join_lanes(w, warp, lanes);
    w->warp_waiting[warp] &= ~lanes;
    w->ready[warp >> 1] |= (uint64_t)lanes << (warp & 1) * 32;
    if (++w->repetition.collectives[warp] % COLLECTIVES_PER_TURN == 0) {
        if (*w->abort)
            worker_leave(w);
        end_turn(w, lanes);
    }
    return true;
}

static NOINLINE void refuse_mask(struct worker *w, uint32_t mask, const char *file, int line)
{
    char what[160];

    snprintf(what, sizeof what, "warp divergence at %s:%d: mask 0x%08x does not name the calling lane %u", file,
             line, (unsigned)mask, w->current & 31);
    worker_fail(w, KIND_BARRIER, what, file, line);
}

uint64_t smemkit_warp(enum smemkit_collective kind, uint32_t mask, uint64_t value, int source, const char *file,
                      int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current, warp = me >> 5;
    struct waiting *mine = &w->waiting[me];

    *mine = (struct waiting){file, line, WAIT_WARP, kind, mask, source, value};
    if (w->tracer && kind == SMEMKIT_SYNC)
        smemkit_observer->arrive(w, me);
    if (!(mask >> (me & 31) & 1))
        refuse_mask(w, mask, file, line);
    w->warp_waiting[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    if (!complete_collective(w, warp, mask))
        yield_to_next(w);
    mine->reason = WAIT_AT_BARRIER;
    return mine->value;
}

void smemkit_warp_call(struct smemkit_warp_call *call, const char *file, int line)
{
    smemkit_warp((enum smemkit_collective)SMEMKIT_CALL, ~UINT32_C(0), (uintptr_t)call, 0, file, line);
}

uint32_t smemkit_active_mask(const char *file, int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current;

    w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_CONVERGENCE};
    w->warp_converging[me >> 5] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
    return (uint32_t)w->waiting[me].value;
}
