/* The logs of a block's threads, and how those of a warp are merged into requests. */
#define _GNU_SOURCE
#include "trace.h"

#include <string.h>

#include "executor/block.h"
#include "internal.h"

uint32_t *controls_of(const struct tracer *t, unsigned thread)
{
    return (uint32_t *)((char *)t->controls + thread * (LOG_ITEMS * sizeof(uint32_t) + LOG_GAP));
}

uint64_t *addresses_of(const struct tracer *t, unsigned thread)
{
    return (uint64_t *)((char *)t->addresses + thread * (LOG_ITEMS * sizeof(uint64_t) + LOG_GAP));
}

static unsigned items_of(const struct tracer *t, unsigned thread)
{
    return (unsigned)(t->control_of[thread] - controls_of(t, thread));
}

/* The ends of the running thread's log are kept in the tracer itself. */
static void save_log_position(struct tracer *t, unsigned thread)
{
    t->control_of[thread] = t->control;
    t->address_of[thread] = t->address;
}

void load_log_position(struct tracer *t, unsigned thread)
{
    t->control = t->control_of[thread];
    t->address = t->address_of[thread];
    t->control_end = controls_of(t, thread) + LOG_ITEMS;
}

void trace_switch(struct tracer *t, unsigned from, unsigned to)
{
    save_log_position(t, from);
    load_log_position(t, to);
}

static void empty_log(struct tracer *t, unsigned thread)
{
    if (items_of(t, thread))
        t->last[thread] = t->control_of[thread][-1];
    t->position[thread] += items_of(t, thread);
    t->control_of[thread] = controls_of(t, thread);
    t->address_of[thread] = addresses_of(t, thread);
    t->checked[thread] = 0;
    t->checked_addresses[thread] = 0;
}

/* Checks the unchecked part of a thread's log for races. */
static void check_log(struct tracer *t, unsigned thread)
{
    const uint32_t *controls = controls_of(t, thread);
    const unsigned items = items_of(t, thread), checked = t->checked[thread];
    const uint64_t *address = addresses_of(t, thread) + t->checked_addresses[thread];

    shadow_accesses(t, thread, controls + checked, items - checked, t->position[thread] + checked, &address);
    t->checked[thread] = (uint16_t)items;
    t->checked_addresses[thread] = (uint16_t)(address - addresses_of(t, thread));
}

void trace_check_log(struct tracer *t, unsigned thread)
{
    if (thread == t->worker->current)
        save_log_position(t, thread);
    check_log(t, thread);
}

void trace_count(struct tracer *t, uint32_t item, uint64_t tagged)
{
    const unsigned thread = t->worker->current;

    trace_check_log(t, thread);
    *t->control++ = item;
    *t->address++ = tagged;
    t->checked[thread]++;
    t->checked_addresses[thread]++;
    if (t->control == t->control_end)
        smemkit_trace_full(t);
}

/* The lanes' logs while they are merged. */
struct merge {
    const uint32_t *control[LANES], *end[LANES];
    const uint64_t *address[LANES];
    uint32_t context[LANES];
};

uint32_t trace_context(struct tracer *t, uint32_t parent, uint32_t item)
{
    struct trace *trace = t->trace;
    const unsigned slot = (unsigned)mix((uint64_t)parent << 32 | item) % CONTEXT_CACHE;
    uint32_t found;

    if (t->contexts[slot].context && t->contexts[slot].parent == parent && t->contexts[slot].item == item)
        return t->contexts[slot].context;
    pthread_mutex_lock(&trace_lock);
    for (found = 1; found < trace->context_count; found++)
        if (trace->contexts[found].parent == parent && trace->contexts[found].item == item)
            break;
    if (found == MAX_CONTEXTS) { /* a deep recursion: deeper calls count as the caller's */
        found = parent;
    } else if (found == trace->context_count) {
        trace->contexts[found] = (struct context){parent, item, trace->contexts[parent].depth + 1};
        trace->context_count = found + 1;
    }
    pthread_mutex_unlock(&trace_lock);
    t->contexts[slot].parent = parent;
    t->contexts[slot].item = item;
    t->contexts[slot].context = found;
    return found;
}

/* Merges lanes that followed the same path: the n-th access of each is one request. */
static void merge_columns(struct tracer *t, struct merge *m, unsigned warp, uint32_t mask, bool unchecked)
{
    const int first = __builtin_ctz(mask);
    uint64_t tagged[LANES] = {0};
    const uint32_t *begin = m->control[first];
    const unsigned position = t->position[warp * LANES + (unsigned)first];
    uint32_t context = m->context[first];
    size_t column = 0;

    for (const uint32_t *item = m->control[first]; item < m->end[first]; item++) {
        const unsigned what = *item & ((1u << ITEM_BITS) - 1);

        if (what == ITEM_ACCESS) {
            if (mask == ~UINT32_C(0))
                for (int lane = 0; lane < LANES; lane++)
                    tagged[lane] = m->address[lane][column];
            else
                for (uint32_t rest = mask; rest; rest &= rest - 1)
                    tagged[__builtin_ctz(rest)] = m->address[__builtin_ctz(rest)][column];
            count_request(t, *item, context, mask, tagged, unchecked, warp, position + (unsigned)(item - begin));
            column++;
        } else if (what == ITEM_ENTER) {
            context = trace_context(t, context, *item);
        } else if (what == ITEM_LEAVE) {
            context = t->trace->contexts[context].parent;
        }
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);

        m->control[lane] = m->end[lane];
        m->address[lane] += column;
        m->context[lane] = context;
        if (unchecked)
            t->context[warp * LANES + (unsigned)lane] = context;
    }
}

/* Merges lanes that followed different paths. The lanes with the deepest call stack go first, and of those the
 * ones at the lowest address, so that lanes reconverge where their paths meet. Stops when the log of a lane in
 * `open`, which will continue later, is used up. */
static void merge_divergent(struct tracer *t, struct merge *m, unsigned warp, uint32_t lanes, uint32_t open)
{
    const struct context *contexts = t->trace->contexts;
    uint64_t tagged[LANES] = {0};

    for (;;) {
        uint32_t mask = 0, item = 0, context = 0;
        int depth = 0;

        for (uint32_t rest = lanes; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);

            if (m->control[lane] == m->end[lane]) {
                if (open >> lane & 1)
                    return;
                lanes &= ~(UINT32_C(1) << lane);
                continue;
            }
            if (!mask || contexts[m->context[lane]].depth > depth ||
                (contexts[m->context[lane]].depth == depth && *m->control[lane] < item)) {
                mask = 0;
                item = *m->control[lane];
                context = m->context[lane];
                depth = contexts[context].depth;
            }
            if (contexts[m->context[lane]].depth == depth && *m->control[lane] == item)
                mask |= UINT32_C(1) << lane;
        }
        if (!mask)
            return;
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);

            m->control[lane]++;
            switch (item & ((1u << ITEM_BITS) - 1)) {
            case ITEM_ACCESS:
                tagged[lane] = *m->address[lane]++;
                break;
            case ITEM_ENTER:
                m->context[lane] = trace_context(t, m->context[lane], item);
                break;
            case ITEM_LEAVE:
                m->context[lane] = contexts[m->context[lane]].parent;
                break;
            default:
                break;
            }
        }
        if ((item & ((1u << ITEM_BITS) - 1)) == ITEM_ACCESS)
            count_request(t, item, context, mask, tagged, false, warp, 0);
    }
}

/* Whether all lanes of `mask` follow the same path from the same location. */
static bool same_path(const struct merge *m, uint32_t mask)
{
    const int first = __builtin_ctz(mask);
    const size_t bytes = (size_t)((const char *)m->end[first] - (const char *)m->control[first]);

    for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);

        if (m->context[lane] != m->context[first] ||
            (size_t)((const char *)m->end[lane] - (const char *)m->control[lane]) != bytes ||
            memcmp(m->control[lane], m->control[first], bytes) != 0)
            return false;
    }
    return true;
}

/* Moves the unmerged rest of a lane's log to its start. */
static void compact_log(struct tracer *t, const struct merge *m, unsigned thread, int lane)
{
    uint32_t *controls = controls_of(t, thread);
    uint64_t *addresses = addresses_of(t, thread);
    const size_t gone = (size_t)(m->control[lane] - controls), left = (size_t)(m->end[lane] - m->control[lane]);
    const size_t gone_addresses = (size_t)(m->address[lane] - addresses);
    const size_t addresses_left = (size_t)(t->address_of[thread] - m->address[lane]);

    memmove(controls, m->control[lane], left * sizeof *controls);
    memmove(addresses, m->address[lane], addresses_left * sizeof *addresses);
    t->control_of[thread] = controls + left;
    t->address_of[thread] = addresses + addresses_left;
    t->position[thread] += (uint32_t)gone;
    t->checked[thread] = (uint16_t)(t->checked[thread] - gone);
    t->checked_addresses[thread] = (uint16_t)(t->checked_addresses[thread] - gone_addresses);
}

/* Whether no item of a warp's logs has been checked, and all lanes are in the same epoch.
 */
static bool is_unchecked(const struct tracer *t, unsigned warp, uint32_t lanes)
{
    const struct thread_clock *first = &t->threads[warp * LANES + (unsigned)__builtin_ctz(lanes)];

    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const unsigned thread = warp * LANES + (unsigned)__builtin_ctz(rest);

        if (t->checked[thread] || t->threads[thread].epoch != first->epoch)
            return false;
    }
    return true;
}

/* Merges the logs of a warp, and checks their unchecked items. */
static void merge_warp(struct tracer *t, unsigned warp, uint32_t open)
{
    const unsigned count = t->worker->count, first = warp * LANES;
    struct merge m;
    uint32_t lanes = 0;

    for (unsigned lane = 0; lane < LANES && first + lane < count; lane++) {
        const unsigned thread = first + lane;

        m.control[lane] = controls_of(t, thread);
        m.address[lane] = addresses_of(t, thread);
        m.end[lane] = t->control_of[thread];
        m.context[lane] = t->merged_context[thread];
        if (m.control[lane] != m.end[lane])
            lanes |= UINT32_C(1) << lane;
    }
    if (!lanes)
        return;
    if (same_path(&m, lanes) && is_unchecked(t, warp, lanes)) {
        merge_columns(t, &m, warp, lanes, true);
    } else {
        for (uint32_t rest = lanes; rest; rest &= rest - 1)
            check_log(t, first + (unsigned)__builtin_ctz(rest));
        if (same_path(&m, lanes))
            merge_columns(t, &m, warp, lanes, false);
        else
            merge_divergent(t, &m, warp, lanes, open);
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const unsigned thread = first + (unsigned)lane;

        t->merged_context[thread] = m.context[lane];
        if (m.control[lane] == m.end[lane])
            empty_log(t, thread);
        else
            compact_log(t, &m, thread, lane);
    }
}

void trace_merge_block(struct tracer *t)
{
    const unsigned current = t->worker->current;

    save_log_position(t, current);
    for (unsigned warp = 0; warp * LANES < t->worker->count; warp++)
        merge_warp(t, warp, 0);
    memset(t->position, 0, t->worker->count * sizeof *t->position);
    t->round++;
    load_log_position(t, current);
}

/* The lanes of a warp whose logs have space. */
static uint32_t lanes_with_space(const struct tracer *t, unsigned warp, uint32_t lanes)
{
    uint32_t found = 0;

    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);

        if (items_of(t, warp * LANES + (unsigned)lane) < LOG_ITEMS)
            found |= UINT32_C(1) << lane;
    }
    return found;
}

/* Other lanes of the warp may spin, in a loop at a lower address, waiting for a lane whose log stays full. After a
 * while its log is merged without theirs, and from then on at once. */
uint32_t trace_drain_logs(struct tracer *t, unsigned warp, uint32_t lanes)
{
    const unsigned current = t->worker->current;
    uint32_t drained;

    save_log_position(t, current);
    merge_warp(t, warp, lanes);
    drained = lanes_with_space(t, warp, lanes);
    if (drained == lanes) {
        t->passed_over[warp] = t->passed_over[warp] < MAX_PASSED_OVER ? 0 : MAX_PASSED_OVER;
    } else if (t->passed_over[warp] < MAX_PASSED_OVER) {
        t->passed_over[warp]++;
    } else {
        merge_warp(t, warp, 0);
        drained = lanes;
    }
    load_log_position(t, current);
    return drained;
}

struct code_location trace_here(const struct tracer *t, const void *code)
{
    const unsigned current = t->worker->current;
    const uintptr_t at = (uintptr_t)code;

    if (library_holds(&t->trace->library, at))
        return (struct code_location){.item = (uint32_t)((at - t->base + 1) << ITEM_BITS)};
    if (t->control > controls_of(t, current))
        return (struct code_location){.item = t->control[-1], .context = t->context[current]};
    return (struct code_location){.item = t->last[current], .context = t->context[current]};
}
