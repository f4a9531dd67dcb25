/* See trace.h: the logs of a block's threads, what a warp's requests cost, and the faults that are found. */
#define _GNU_SOURCE
#include "trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/block.h"
#include "executor/executor.h"
#include "executor/memory.h"

enum {
    STATIC = 0, /* indices of `spans` */
    DYNAMIC = 1,
    RECENT = 2, /* and above: buffers in global memory, most recently used first */
    FIRST_SITES = 256,
    LAUNCH_FRAMES = 256 * 1024, /* bytes of the launching thread's stack that may hold the kernel's arguments */
    LOG_GAP = 192, /* bytes between two threads' logs, which would share cache sets at power-of-two distances */
    POISON = 0xFF, /* initial byte of shared memory: NaN and -1 */
};

/* Protects a launch's faults and sites, which all workers write. */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;

static SMEMKIT_THREAD_LOCAL struct checking *checking;

struct checking *checking_now(void)
{
    return checking;
}

void trace_after_fork(void)
{
    pthread_mutex_init(&trace_lock, NULL);
    races_after_fork();
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 29;
}

/* ---- sites ---- */

static unsigned site_hash(uint32_t item, uint32_t context)
{
    return (unsigned)mix((uint64_t)context << 32 | item);
}

static struct site *find_site(struct site **sites, unsigned *capacity, unsigned *count, uint32_t item,
                              uint32_t context, unsigned variant)
{
    struct site *site;

    if (*count * 2 >= *capacity) { /* also at first */
        unsigned larger = *capacity ? *capacity * 2 : FIRST_SITES;
        struct site *table = calloc(larger, sizeof *table);

        if (!table)
            return NULL;
        for (unsigned i = 0; i < *capacity; i++) {
            const struct site *old = &(*sites)[i];
            unsigned at;

            if (!old->item)
                continue;
            for (at = site_hash(old->item, old->context) & (larger - 1); table[at].item;
                 at = (at + 1) & (larger - 1))
                ;
            table[at] = *old;
        }
        free(*sites);
        *sites = table;
        *capacity = larger;
    }
    for (unsigned at = site_hash(item, context) & (*capacity - 1);; at = (at + 1) & (*capacity - 1)) {
        site = &(*sites)[at];
        if (site->item == item && site->context == context &&
            (unsigned)(site->space << 16 | site->kind << 8 | site->size) == variant)
            return site;
        if (!site->item)
            break;
    }
    ++*count;
    site->item = item;
    site->context = context;
    site->space = (uint8_t)(variant >> 16);
    site->kind = (uint8_t)(variant >> 8);
    site->size = (uint8_t)variant;
    return site;
}

static void add_site(struct trace *trace, const struct site *from)
{
    struct site *to = find_site(&trace->sites, &trace->site_capacity, &trace->site_count, from->item,
                                from->context, (unsigned)(from->space << 16 | from->kind << 8 | from->size));

    if (!to) {
        trace->observed.out_of_memory = true;
        return;
    }
    to->requests += from->requests;
    to->wavefronts += from->wavefronts;
    to->conflicts += from->conflicts;
    to->sectors += from->sectors;
    to->ideal_sectors += from->ideal_sectors;
    to->lanes += from->lanes;
    to->ideal_requests += from->ideal_requests + (from->round_lanes + LANES - 1) / LANES;
    if (from->degree > to->degree)
        to->degree = from->degree;
    if (from->example_mask && from->example_cost > to->example_cost) {
        to->example_cost = from->example_cost;
        to->example_mask = from->example_mask;
        to->origin = from->origin;
        to->argument = from->argument;
        memcpy(to->example, from->example, sizeof to->example);
        memcpy(to->variable, from->variable, sizeof to->variable);
    }
}

/* Finds the array that contains the example's addresses. */
static void name_example(struct tracer *t, struct site *site)
{
    struct checked_fault name = {0};
    uint64_t first = UINT64_MAX;

    for (uint32_t lanes = site->example_mask; lanes; lanes &= lanes - 1) {
        const uint64_t address = site->example[__builtin_ctz(lanes)];

        first = address < first ? address : first;
    }
    trace_name(t, &name, (uintptr_t)first, (enum space)site->space);
    memcpy(site->variable, name.variable, sizeof site->variable);
    site->argument = name.argument;
    site->origin =
        (name.before ? first + name.offset : first - name.offset) - name.bytes_before; /* the buffer's start */
}

/* ---- requests ---- */

/* Whether this request costs the same as the site's last one: both differ only by a shift that changes neither
 * banks nor sectors. */
static bool costs_the_same(struct site *site, uint32_t mask, const uint64_t *addresses, uint32_t *steps)
{
    const uint64_t origin = addresses[__builtin_ctz(mask)];
    const uint32_t phase = (uint32_t)origin & (site->space == SPACE_GLOBAL ? 31 : 3);
    uint32_t differ = 0;

    for (int lane = 0; lane < LANES; lane++)
        steps[lane] = (uint32_t)(addresses[lane] - origin);
    if (mask != site->mask || phase != site->phase) {
        site->phase = phase;
        return false;
    }
    if (mask == ~UINT32_C(0)) {
        for (int lane = 0; lane < LANES; lane++)
            differ |= steps[lane] ^ site->steps[lane];
    } else {
        for (int lane = 0; lane < LANES; lane++)
            differ |= (steps[lane] ^ site->steps[lane]) & -(mask >> lane & 1);
    }
    return !differ;
}

/* Groups the lanes of the site's last request by address. */
static void group_lanes(struct site *site)
{
    site->group_count = 0;
    for (uint32_t rest = site->mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        unsigned i = 0;

        while (i < site->group_count && site->steps[site->group_lane[i]] != site->steps[lane])
            i++;
        if (i == site->group_count) {
            site->group_count++;
            site->group_lane[i] = (uint8_t)lane;
            site->group_lanes[i] = 0;
        }
        site->group_lanes[i] |= UINT32_C(1) << lane;
    }
}

static void cost_request(struct site *site, uint32_t mask, const uint64_t *addresses)
{
    struct warp_access access = {.store = site->kind != ACCESS_LOAD, .size = site->size, .mask = mask};
    uint32_t worst;

    memcpy(access.addresses, addresses, sizeof access.addresses);
    if (site->space == SPACE_GLOBAL) {
        site->cost_sectors = sector_count(&access);
        site->cost_ideal = ideal_sector_count(&access);
        worst = (uint32_t)site->cost_sectors;
    } else {
        site->cost = bank_cost(&access, MAX_BANKS, 4);
        worst = (uint32_t)site->cost.degree * LANES * LANES + (uint32_t)site->cost.wavefronts;
    }
    if (worst > site->example_cost) {
        site->example_cost = worst;
        site->example_mask = mask;
        memcpy(site->example, addresses, sizeof site->example);
    }
}

/* Counts the active lanes of a request. Within a barrier interval they could be lanes of one warp as well as of
 * many. */
static void count_lanes(const struct tracer *t, struct site *site, uint32_t mask)
{
    const unsigned lanes = (unsigned)__builtin_popcount(mask);

    if (site->round != t->round) {
        site->ideal_requests += (site->round_lanes + LANES - 1) / LANES;
        site->round = t->round;
        site->round_lanes = 0;
    }
    site->round_lanes += lanes;
    site->lanes += lanes;
}

/* Counts one request: the lanes of `mask` access the tagged addresses; other entries are arbitrary. If it is
 * `unchecked`, checks it for races too. */
static void count_request(struct tracer *t, uint32_t item, uint32_t context, uint32_t mask, const uint64_t *tagged,
                          bool unchecked, unsigned warp, unsigned position)
{
    while (mask) {
        const int first = __builtin_ctz(mask);
        const uint64_t tag = tagged[first] >> ADDRESS_BITS;
        const unsigned size = 1u << (tag & 15), access = tag >> (KIND_SHIFT - ADDRESS_BITS) & 15;
        const unsigned kind = access == ACCESS_ATOMIC_STORE ? ACCESS_ATOMIC : access;
        const unsigned space = (unsigned)(tag >> (SPACE_SHIFT - ADDRESS_BITS));
        uint32_t others = 0, steps[LANES];
        uint64_t differ = 0;
        struct site *site;

        for (int lane = 0; lane < LANES; lane++)
            differ |= tagged[lane] ^ tagged[first];
        if (differ >> ADDRESS_BITS) /* lanes may access different spaces with one instruction */
            for (uint32_t rest = mask; rest; rest &= rest - 1)
                if (tagged[__builtin_ctz(rest)] >> ADDRESS_BITS != tag)
                    others |= rest & -rest;
        mask &= ~others;
        site = find_site(&t->sites, &t->site_capacity, &t->site_count, item, context,
                         (space == SPACE_DYNAMIC ? SPACE_STATIC : space) << 16 | kind << 8 | size);
        if (!site) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        if (!costs_the_same(site, mask, tagged, steps)) {
            uint64_t addresses[LANES];

            for (int lane = 0; lane < LANES; lane++)
                addresses[lane] = tagged[lane] & ((UINT64_C(1) << ADDRESS_BITS) - 1);
            memcpy(site->steps, steps, sizeof steps);
            site->mask = mask;
            group_lanes(site);
            cost_request(site, mask, addresses);
        }
        site->requests++;
        count_lanes(t, site, mask);
        if (space == SPACE_GLOBAL) {
            site->sectors += (uint64_t)site->cost_sectors;
            site->ideal_sectors += (uint64_t)site->cost_ideal;
        } else {
            site->wavefronts += (uint64_t)site->cost.wavefronts;
            site->conflicts += (uint64_t)site->cost.conflicts;
            if ((uint32_t)site->cost.degree > site->degree)
                site->degree = (uint32_t)site->cost.degree;
        }
        if (unchecked)
            shadow_request(t, site, warp, tagged, position);
        mask = others;
    }
}

/* ---- logs ---- */

static uint32_t *controls_of(const struct tracer *t, unsigned thread)
{
    return (uint32_t *)((char *)t->controls + thread * (LOG_ITEMS * sizeof(uint32_t) + LOG_GAP));
}

static uint64_t *addresses_of(const struct tracer *t, unsigned thread)
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

static void load_log_position(struct tracer *t, unsigned thread)
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
static void merge_divergent(struct tracer *t, struct merge *m, uint32_t lanes, uint32_t open)
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
            count_request(t, item, context, mask, tagged, false, 0, 0);
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
            merge_divergent(t, &m, lanes, open);
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

uint32_t trace_drain_logs(struct tracer *t, unsigned warp, uint32_t lanes)
{
    const unsigned current = t->worker->current;
    uint32_t drained = 0;

    save_log_position(t, current);
    merge_warp(t, warp, lanes);
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);

        if (items_of(t, warp * LANES + (unsigned)lane) < LOG_ITEMS)
            drained |= UINT32_C(1) << lane;
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

/* Resets shared memory and its shadow for a block. */
static void forget_shared(struct tracer *t, int space, const struct shared_array *array)
{
    memset(array->start, POISON, (size_t)(array->end - array->start));
    shadow_forget(&t->shared[space], (uintptr_t)array->start, (size_t)(array->end - array->start));
}

void trace_shared(struct tracer *t, unsigned slot)
{
    const struct shared_array *array = &t->worker->shared.slots[slot];

    t->statics[slot] = (struct span){.start = (uintptr_t)array->start,
                                     .bytes = array->variable->bytes,
                                     .space = (uint64_t)SPACE_STATIC << SPACE_SHIFT};
    t->shared[STATIC].used = (size_t)t->worker->shared.count << t->static_shift;
    forget_shared(t, STATIC, array);
}

/* ---- names ---- */

void smemkit_checked_dynamic(const char *name, size_t element)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (t && !t->dynamic_name) {
        t->dynamic_name = name;
        t->dynamic_element = element;
    }
}

/* Describes an address in or next to a shared array. */
static void name_shared(const struct tracer *t, struct checked_fault *fault, uintptr_t address)
{
    const struct shared_array *array = shared_near(t->worker, (const void *)address);
    const struct smemkit_shared *variable = array ? array->variable : NULL;
    const char *name = variable ? variable->name : array && t->dynamic_name ? t->dynamic_name : "";

    if (!array)
        return;
    snprintf(fault->variable, sizeof fault->variable, "%s", name);
    fault->before = address < (uintptr_t)array->start;
    fault->offset = fault->before ? (uintptr_t)array->start - address : address - (uintptr_t)array->start;
    fault->extent = (uint64_t)(array->end - array->start);
    fault->element = (unsigned)(variable ? variable->element_bytes : t->dynamic_element);
    fault->rank = variable ? variable->rank : 1;
    if (variable)
        memcpy(fault->dims, variable->dims, sizeof fault->dims);
}

void trace_name(struct tracer *t, struct checked_fault *fault, uintptr_t address, enum space space)
{
    uintptr_t start = 0, end = 0, nearest = 0;

    fault->space = space;
    fault->argument = -1;
    if (space == SPACE_STATIC || space == SPACE_DYNAMIC) {
        name_shared(t, fault, address);
        return;
    }
    if (trace_device_variable(address, fault))
        return;
    if (!memory_find((const void *)address, &start, &end)) {
        fault->offset = address;
        fault->space = SPACE_NONE;
        return;
    }
    for (int i = 0; i < t->trace->argument_count;
         i++) { /* the last one before the address, or else the first after it */
        const uintptr_t pointer = t->trace->arguments[i].pointer;
        const bool nearer = pointer <= address ? pointer > nearest || nearest > address : pointer < nearest;

        if (pointer >= start && pointer <= end && (fault->argument < 0 || nearer)) {
            fault->argument = t->trace->arguments[i].index;
            nearest = pointer;
        }
    }
    if (!nearest)
        nearest = start;
    fault->before = address < nearest;
    fault->offset = fault->before ? nearest - address : address - nearest;
    fault->extent = end - nearest;
    fault->bytes_before = nearest - start;
}

/* ---- faults ---- */

static bool same_location(const struct code_location *a, const struct code_location *b)
{
    if (a->item || b->item)
        return a->item == b->item && a->context == b->context;
    return a->line == b->line && (a->file == b->file || (a->file && b->file && strcmp(a->file, b->file) == 0));
}

struct checked_fault *trace_fault(struct tracer *t, enum fault_kind kind, struct code_location location,
                                  struct code_location other, enum hazard hazard)
{
    struct trace *trace = t->trace;
    struct checked_fault *fault = NULL;
    const struct worker *w = t->worker;

    pthread_mutex_lock(&trace_lock);
    for (int i = 0; i < trace->fault_count; i++) {
        fault = &trace->faults[i];
        if (fault->kind == kind && fault->hazard == hazard && same_location(&fault->location, &location) &&
            same_location(&fault->other, &other)) {
            fault->count++;
            return fault;
        }
    }
    if (trace->fault_count == MAX_FAULTS) {
        trace->fault_more++;
        return NULL;
    }
    fault = &trace->faults[trace->fault_count++];
    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    fault->hazard = hazard;
    fault->location = location;
    fault->other = other;
    fault->count = 1;
    fault->argument = -1;
    fault->block[0] = w->block.x;
    fault->block[1] = w->block.y;
    fault->block[2] = w->block.z;
    fault->threads = 1;
    fault->thread[0][0] = w->indices[w->current].x;
    fault->thread[0][1] = w->indices[w->current].y;
    fault->thread[0][2] = w->indices[w->current].z;
    return fault;
}

void trace_fault_done(void)
{
    pthread_mutex_unlock(&trace_lock);
}

void trace_fault_message(struct worker *w, enum fault_kind kind, struct code_location location,
                         struct code_location other, const char *message, bool thread)
{
    struct checked_fault *fault = trace_fault(w->tracer, kind, location, other, HAZARD_NONE);

    if (fault && fault->count == 1) {
        snprintf(fault->message, sizeof fault->message, "%s", message);
        fault->space = SPACE_NONE;
        fault->threads = thread;
    }
    trace_fault_done();
}

/* ---- variables of libraries ---- */

enum { MAX_GLOBALS = 1024 };

/* The __constant__ and __device__ variables of loaded libraries. Entries are only added, under trace_lock;
 * libraries are never unloaded. */
static struct global {
    char name[64];
    uintptr_t start;
    size_t bytes, element;
    bool constant;
} globals[MAX_GLOBALS];
static _Atomic int global_count;

static const struct global *global_at(uintptr_t address)
{
    for (int i = 0; i < global_count; i++)
        if (address - globals[i].start < globals[i].bytes)
            return &globals[i];
    return NULL;
}

void smemkit_checked_global(const char *name, const void *memory, size_t bytes, size_t element, int constant)
{
    pthread_mutex_lock(&trace_lock);
    if (!global_at((uintptr_t)memory) && global_count < MAX_GLOBALS) {
        struct global *global = &globals[global_count];

        snprintf(global->name, sizeof global->name, "%s", name);
        global->start = (uintptr_t)memory;
        global->bytes = bytes;
        global->element = element;
        global->constant = constant;
        global_count++;
    }
    pthread_mutex_unlock(&trace_lock);
}

static bool is_constant(uintptr_t address)
{
    const struct global *global = global_at(address);

    return global && global->constant;
}

bool trace_device_variable(uintptr_t address, struct checked_fault *fault)
{
    const struct global *global = global_at(address);

    if (!global)
        return false;
    memcpy(fault->variable, global->name, sizeof fault->variable);
    fault->offset = address - global->start;
    fault->extent = global->bytes;
    fault->element = (unsigned)global->element;
    fault->rank = global->bytes > global->element;
    return true;
}

/* ---- slow path of the hooks ---- */

/* The library's variable that contains an address, or the gap between two variables. */
static void find_data(const struct trace *trace, uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    *start = trace->library.data_start;
    *end = trace->library.data_end;
    for (int i = 0; i < global_count; i++) {
        const uintptr_t first = globals[i].start, last = first + globals[i].bytes;

        if (first <= address && first > *start)
            *start = first;
        if (last <= address && last > *start)
            *start = last;
        if (last > address && last < *end)
            *end = last;
        if (first > address && first < *end)
            *end = first;
    }
}

/* Makes the buffer or library variable at `address` the most recent span. */
static bool find_span(struct tracer *t, uintptr_t address)
{
    const struct trace *trace = t->trace;
    uintptr_t start, end;

    if (library_has_data(&trace->library, address)) {
        find_data(trace, address, &start, &end);
    } else if (!memory_find((const void *)address, &start, &end) || address < start || address >= end) {
        return false;
    }
    for (int i = SPANS - 1; i > RECENT; i--)
        t->spans[i] = t->spans[i - 1];
    t->spans[RECENT] =
        (struct span){.start = start, .bytes = end - start, .space = (uint64_t)SPACE_GLOBAL << SPACE_SHIFT};
    return true;
}

static enum space space_near(const struct tracer *t, uintptr_t address)
{
    const struct shared_array *array = shared_near(t->worker, (const void *)address);

    return !array ? SPACE_GLOBAL : array->variable ? SPACE_STATIC : SPACE_DYNAMIC;
}

/* Whether it is a built-in variable such as threadIdx, to which a kernel may have a reference. */
static bool is_index(uintptr_t address)
{
    const uintptr_t indices[] = {(uintptr_t)&smemkit_thread_index, (uintptr_t)&smemkit_block_index,
                                 (uintptr_t)&smemkit_block_dim, (uintptr_t)&smemkit_grid_dim};

    for (int i = 0; i < 4; i++)
        if (address - indices[i] < sizeof smemkit_thread_index)
            return true;
    return false;
}

/* The recent span that contains an address, or NULL. */
static const struct span *span_at(const struct tracer *t, uintptr_t address)
{
    for (int i = 0; i < SPANS; i++)
        if (address - t->spans[i].start < t->spans[i].bytes)
            return i == STATIC ? &t->statics[(address - t->spans[STATIC].start) >> t->static_shift] : &t->spans[i];
    return NULL;
}

uint64_t smemkit_trace_unusual(struct tracer *t, uintptr_t address, unsigned bytes, enum access_kind kind,
                               uint32_t item)
{
    const struct trace *trace = t->trace;
    const struct code_location nowhere = {0};
    struct code_location here = {.item = item};
    const struct span *span;
    bool misaligned = address & (bytes - 1), constant;
    struct checked_fault *fault;

    /* kernel arguments, the compiler's tables, and constants are not checked */
    if (kind == ACCESS_LOAD && address - trace->frame < LAUNCH_FRAMES)
        return SPACE_UNKNOWN;
    if (library_holds(&trace->library, address) && !library_has_data(&trace->library, address))
        return SPACE_UNKNOWN;
    if (is_index(address))
        return SPACE_UNKNOWN;
    constant = library_has_data(&trace->library, address) && is_constant(address);
    if (constant && kind == ACCESS_LOAD)
        return SPACE_UNKNOWN;
    span = span_at(t, address);
    if (!span && !constant && find_span(t, address))
        span = &t->spans[RECENT];
    if (!misaligned && span && address - span->start < span->bytes &&
        bytes <= span->bytes - (address - span->start))
        return span->space;
    if (t->worker->tracer != t) /* host code */
        return SPACE_UNKNOWN;

    misaligned &= span && address - span->start < span->bytes;
    trace_check_log(t, t->worker->current);
    here.context = t->context[t->worker->current];
    fault = trace_fault(t, misaligned ? KIND_MISALIGNED : KIND_OUT_OF_BOUNDS, here, nowhere, HAZARD_NONE);
    if (fault && fault->count == 1) {
        fault->access = kind;
        fault->size = (int)bytes;
        trace_name(t, fault, address, space_near(t, address));
        if (constant)
            snprintf(fault->message, sizeof fault->message, "writes constant memory");
    }
    trace_fault_done();
    worker_terminate_thread(t->worker);
}

void smemkit_trace_bounds(struct tracer *t, const char *file, int line, const char *type, int64_t index)
{
    const struct code_location here = {.file = file, .line = line}, nowhere = {0};
    struct checked_fault *fault = trace_fault(t, KIND_OUT_OF_BOUNDS, here, nowhere, HAZARD_NONE);

    if (fault && fault->count == 1) {
        fault->space = SPACE_NONE;
        snprintf(fault->message, sizeof fault->message, "uses index %lld of an array of type %s", (long long)index,
                 type);
    }
    trace_fault_done();
}

void smemkit_trace_full(struct tracer *t)
{
    worker_suspend(t->worker);
}

unsigned trace_random(struct tracer *t)
{
    t->random = mix(t->random + UINT64_C(0x632BE59BD9B4E019));
    return (unsigned)(t->random >> 32);
}

void smemkit_trace_yield(struct tracer *t)
{
    if (t->schedule == SCHEDULE_LOCKSTEP || trace_random(t) % 8 == 0)
        worker_yield(t->worker);
}

void *smemkit_trace_move(void *to, const void *from, size_t bytes)
{
    return memmove(to, from, bytes);
}

void *smemkit_trace_fill(void *to, int byte, size_t bytes)
{
    return memset(to, byte, bytes);
}

/* ---- atomics and fences ---- */

/* Logs an access that the dialect makes for the kernel, as the hooks do. */
static struct tracer *note_access(const volatile void *memory, unsigned bytes, enum access_kind kind,
                                  const void *code)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;
    const uintptr_t address = (uintptr_t)memory;
    uint32_t item;
    uint64_t space;

    if (!t || address - (uintptr_t)smemkit_stacks < STACKS_BYTES)
        return NULL;
    item = (uint32_t)(((uintptr_t)code - t->base) << ITEM_BITS | ITEM_ACCESS);
    space = smemkit_trace_unusual(t, address, bytes, kind, item);
    if (space == SPACE_UNKNOWN)
        return NULL;
    if (t->yield)
        smemkit_trace_yield(t);
    *t->address++ =
        (uint64_t)address | space | (uint64_t)kind << KIND_SHIFT | (uint64_t)__builtin_ctz(bytes) << SIZE_SHIFT;
    *t->control++ = item;
    if (t->control == t->control_end)
        smemkit_trace_full(t);
    return t;
}

void smemkit_checked_access(const volatile void *memory, unsigned bytes, int write, const void *code)
{
    note_access(memory, bytes, write ? ACCESS_STORE : ACCESS_LOAD, code);
}

uint32_t trace_async(struct tracer *t, void *to, const void *from, unsigned read, unsigned bytes, const void *code)
{
    const uint32_t item = (uint32_t)(((uintptr_t)code - t->base) << ITEM_BITS | ITEM_ACCESS);

    if (read & (read - 1))
        read = bytes; /* not a power of two: treated as a full read */
    if (read)
        note_access(from, read, ACCESS_LOAD, code);
    smemkit_trace_unusual(t, (uintptr_t)to, bytes, ACCESS_STORE, item);
    trace_check_log(t, t->worker->current);
    shadow_async(t, t->worker->current, to, bytes, item, false);
    return item;
}

void smemkit_checked_atomic(const volatile void *memory, unsigned bytes, int reads, const void *code)
{
    struct tracer *t = note_access(memory, bytes, reads ? ACCESS_ATOMIC : ACCESS_ATOMIC_STORE, code);

    if (t) {
        trace_check_log(t, t->worker->current);
        clock_atomic_begin(t);
    }
}

void smemkit_checked_atomic_done(const volatile void *memory, unsigned bytes, int wrote, int order)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    (void)bytes;
    if (t && t->in_atomic) {
        if (order & 4)
            trace_compare(t, t->worker->current, (uintptr_t)memory);
        clock_atomic(t, t->worker->current, (uintptr_t)memory, wrote, order & 3);
    }
}

void smemkit_checked_fence(int scope)
{
    struct tracer *t = smemkit_worker ? smemkit_worker->tracer : NULL;

    if (t) {
        trace_check_log(t, t->worker->current);
        clock_fence(t, t->worker->current, scope);
    }
}

/* ---- compare and swap ---- */

void trace_compare(struct tracer *t, unsigned thread, uintptr_t address)
{
    struct trace *trace = t->trace;
    const uint32_t *controls = controls_of(t, thread), *item = t->control;
    const uint64_t *at = t->address;
    uint32_t found = 0;

    while (item > controls && !found) {
        item--;
        if ((*item & ((1u << ITEM_BITS) - 1)) != ITEM_ACCESS)
            continue;
        at--;
        if ((*at & ((UINT64_C(1) << ADDRESS_BITS) - 1)) == address && (*at >> KIND_SHIFT & 15) == ACCESS_LOAD)
            found = *item;
    }
    if (!found)
        return;
    pthread_mutex_lock(&trace_lock);
    for (int i = 0; i < trace->guess_count; i++)
        if (trace->guesses[i] == found)
            found = 0;
    if (found && trace->guess_count < 64)
        trace->guesses[trace->guess_count++] = found;
    pthread_mutex_unlock(&trace_lock);
}

bool trace_is_guess(const struct trace *trace, const struct checked_fault *fault)
{
    const bool second = fault->access == ACCESS_LOAD && fault->other_access == ACCESS_ATOMIC;
    const bool first = fault->other_access == ACCESS_LOAD && fault->access == ACCESS_ATOMIC;

    if (fault->kind != KIND_RACE || !(first || second))
        return false;
    for (int i = 0; i < trace->guess_count; i++)
        if (trace->guesses[i] == (second ? fault->location.item : fault->other.item))
            return true;
    return false;
}

/* ---- launches ---- */

static void note_arguments(struct trace *trace, const struct smemkit_launch *launch)
{
    for (unsigned i = 0; i < launch->argument_count; i++) {
        const char *bytes = launch->arguments[i];

        for (size_t at = 0; at + sizeof(uintptr_t) <= launch->argument_bytes[i]; at += sizeof(uintptr_t)) {
            uintptr_t value, start, end;

            memcpy(&value, bytes + at, sizeof value);
            if (value && trace->argument_count < 64 && memory_find((const void *)value, &start, &end) &&
                value >= start && value <= end) {
                trace->arguments[trace->argument_count].pointer = value;
                trace->arguments[trace->argument_count++].index = (int)i;
            }
        }
    }
}

/* Adds a block to the sorted list of checked blocks, unless it is there already or does not exist. */
static void choose_block(struct trace *trace, uint64_t block)
{
    uint64_t at = trace->observed.blocks;

    if (block >= trace->blocks)
        return;
    while (at > 0 && trace->observed.order[at - 1] > block)
        at--;
    if (at > 0 && trace->observed.order[at - 1] == block)
        return;
    memmove(trace->observed.order + at + 1, trace->observed.order + at,
            (trace->observed.blocks - at) * sizeof *trace->observed.order);
    trace->observed.order[at] = block;
    trace->observed.blocks++;
}

/* The `i`th of `count` evenly spaced blocks. */
static uint64_t spread(const struct trace *trace, uint64_t i, uint64_t count)
{
    return count < 2 ? 0 : (uint64_t)((unsigned __int128)i * (trace->blocks - 1) / (count - 1));
}

/* Chooses the first block, the last, and evenly spaced ones with their neighbours, because most blocks that race
 * are neighbours. */
static bool choose_blocks(struct trace *trace, uint64_t wanted)
{
    const uint64_t columns = trace->grid[0], last = trace->blocks - 1, positions = (wanted + 2) / 3;

    trace->observed.blocks = trace->blocks;
    if (!wanted || wanted >= trace->blocks)
        return true; /* all blocks, in order */
    trace->observed.order = malloc((wanted + 1) * sizeof *trace->observed.order);
    if (!trace->observed.order)
        return false;
    trace->observed.blocks = 0;
    choose_block(trace, 0);
    if (wanted > 1)
        choose_block(trace, last);
    for (uint64_t i = 0; i < positions; i++) {
        const uint64_t block = spread(trace, i, positions), beside = block == last ? block - 1 : block + 1;
        const uint64_t below = columns == 1 || trace->grid[1] == 1 ? beside
                               : block + columns <= last           ? block + columns
                                                                   : block - columns;
        const uint64_t together[] = {block, beside, below};

        for (int j = 0; j < 3 && trace->observed.blocks < wanted; j++)
            choose_block(trace, together[j]);
    }
    for (uint64_t i = 0; trace->observed.blocks < wanted; i++) /* replaces neighbours that were chosen already */
        choose_block(trace, (spread(trace, i % (2 * wanted), 2 * wanted) + i / (2 * wanted)) % trace->blocks);
    return true;
}

struct trace *trace_begin(struct checking *check, const struct smemkit_launch *launch)
{
    struct trace *trace = calloc(1, sizeof *trace);

    if (!trace)
        return NULL;
    trace->blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    memcpy(trace->grid, launch->grid, sizeof trace->grid);
    trace->faults = calloc(MAX_FAULTS, sizeof *trace->faults);
    trace->contexts = calloc(MAX_CONTEXTS, sizeof *trace->contexts);
    trace->context_count = 1;
    if (!trace->faults || !trace->contexts || !choose_blocks(trace, check->all_blocks ? 0 : check->blocks)) {
        trace_free(trace);
        return NULL;
    }
    trace->launch = launch;
    trace->frame = (uintptr_t)__builtin_frame_address(0);
    memcpy(trace->block, launch->block, sizeof trace->block);
    trace->shared_bytes = launch->shared_bytes;
    snprintf(trace->kernel, sizeof trace->kernel, "%s", launch->kernel);
    trace->schedule = check->schedule;
    trace->seed = check->seed;
    trace->library = library_find((uintptr_t)launch->run);
    note_arguments(trace, launch);
    if (check->last)
        check->last->next = trace;
    else
        check->first = trace;
    check->last = trace;
    return trace;
}

void trace_end(struct trace *trace)
{
    shadow_free_all(trace);
    clocks_free_objects(trace);
    free(trace->observed.order);
    trace->observed.order = NULL;
    trace->launch = NULL;
}

void trace_free(struct trace *trace)
{
    if (trace) {
        free(trace->observed.order);
        free(trace->contexts);
        free(trace->sites);
        free(trace->faults);
        free(trace);
    }
}

static void *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static const size_t CONTROLS_BYTES = MAX_THREADS * (LOG_ITEMS * sizeof(uint32_t) + LOG_GAP);
static const size_t ADDRESSES_BYTES = MAX_THREADS * (LOG_ITEMS * sizeof(uint64_t) + LOG_GAP);

bool trace_enter(struct worker *w, struct trace *trace)
{
    struct tracer *t = calloc(1, sizeof *t);
    bool ok;

    if (!t)
        return false;
    t->worker = w;
    t->trace = trace;
    t->controls = reserve(CONTROLS_BYTES);
    t->addresses = reserve(ADDRESSES_BYTES);
    t->base = trace->library.base;
    t->schedule = (int)trace->schedule;
    t->yield = trace->schedule != SCHEDULE_SERIAL;
    w->tracer = t;
    t->static_shift = w->shared.shift;
    t->spans[STATIC] =
        (struct span){.start = (uintptr_t)w->shared.base, .bytes = (size_t)SHARED_SLOTS << w->shared.shift};
    t->spans[DYNAMIC] = (struct span){.start = (uintptr_t)w->shared.dynamic.start,
                                      .bytes = trace->shared_bytes,
                                      .space = (uint64_t)SPACE_DYNAMIC << SPACE_SHIFT};
    ok = t->controls && t->addresses && clocks_prepare(t) &&
         shadow_map(&t->shared[STATIC], t->spans[STATIC].start, t->spans[STATIC].bytes, false) &&
         (!trace->shared_bytes ||
          shadow_map(&t->shared[DYNAMIC], t->spans[DYNAMIC].start, trace->shared_bytes, false));
    t->shared[STATIC].used = 0; /* no variable is allocated yet; slots are used in order */
    if (ok)
        ((struct stack_region *)w->stacks)->tracer = t;
    else
        trace_leave(w);
    return ok;
}

void trace_leave(struct worker *w)
{
    struct tracer *t = w->tracer;

    ((struct stack_region *)w->stacks)->tracer = NULL;
    w->tracer = NULL;
    if (!t)
        return;
    pthread_mutex_lock(&trace_lock);
    for (unsigned i = 0; i < t->site_capacity; i++) {
        if (t->sites[i].item) {
            name_example(t, &t->sites[i]);
            add_site(t->trace, &t->sites[i]);
        }
    }
    pthread_mutex_unlock(&trace_lock);
    if (t->controls)
        munmap(t->controls, CONTROLS_BYTES);
    if (t->addresses)
        munmap(t->addresses, ADDRESSES_BYTES);
    shadow_free(&t->shared[0]);
    shadow_free(&t->shared[1]);
    clocks_dispose(t);
    free(t->sites);
    free(t);
}

void trace_block_begin(struct worker *w)
{
    struct tracer *t = w->tracer;

    for (unsigned i = 0; i < w->count; i++) {
        t->control_of[i] = controls_of(t, i);
        t->address_of[i] = addresses_of(t, i);
        t->checked[i] = t->checked_addresses[i] = 0;
        t->position[i] = 0;
        t->merged_context[i] = t->context[i] = 0;
        t->last[i] = 0;
    }
    for (unsigned i = 0; i < w->shared.count; i++)
        forget_shared(t, STATIC, &w->shared.slots[i]);
    if (t->spans[DYNAMIC].bytes)
        forget_shared(t, DYNAMIC, &w->shared.dynamic);
    t->random = mix(t->trace->seed + ((uint64_t)w->block.z << 42 ^ (uint64_t)w->block.y << 21 ^ w->block.x) * 977);
    clocks_block_begin(t);
    load_log_position(t, 0);
}

void trace_block_end(struct worker *w)
{
    trace_merge_block(w->tracer);
}

/* ---- the observer ---- */

static bool wants(void)
{
    return checking != NULL;
}

static struct observation *begin(const struct smemkit_launch *launch)
{
    struct trace *trace = trace_begin(checking, launch);

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
    trace_merge_block(w->tracer);
    clock_barrier(w->tracer);
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

static void shared_allocated(struct worker *w, unsigned slot)
{
    trace_shared(w->tracer, slot);
}

static uint32_t copy_issued(struct worker *w, void *to, const void *from, unsigned read, unsigned bytes,
                            const void *code)
{
    return trace_async(w->tracer, to, from, read, bytes, code);
}

static void copies_awaited(struct worker *w, unsigned thread)
{
    trace_check_log(w->tracer, thread); /* the accesses before */
}

static void copy_completed(struct worker *w, unsigned thread, void *to, unsigned bytes, uint32_t item)
{
    shadow_async(w->tracer, thread, to, bytes, item, true);
}

static void fault(struct worker *w, enum fault_kind kind, const char *message, bool thread, const char *file,
                  int line, const char *other_file, int other_line)
{
    trace_fault_message(w, kind, (struct code_location){.file = file, .line = line},
                        (struct code_location){.file = other_file, .line = other_line}, message, thread);
}

static void fault_at_code(struct worker *w, enum fault_kind kind, const char *message, const void *code)
{
    trace_fault_message(w, kind, trace_here(w->tracer, code), (struct code_location){0}, message, true);
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
    .shared_allocated = shared_allocated,
    .copy_issued = copy_issued,
    .copies_awaited = copies_awaited,
    .copy_completed = copy_completed,
    .fault = fault,
    .fault_at_code = fault_at_code,
};

void checking_set(struct checking *options)
{
    checking = options;
    smemkit_observer = &observer;
}
