/* What a warp's requests cost: merged accesses, counted per instruction and call stack. */
#define _GNU_SOURCE
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 29;
}

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

void add_site(struct trace *trace, const struct site *from)
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

void name_example(struct tracer *t, struct site *site)
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

/* Keeps the site's last request as its example, if no other cost more. */
static void keep_example(struct site *site, uint32_t mask, const uint64_t *addresses)
{
    const uint32_t cost = site->space == SPACE_GLOBAL
                              ? (uint32_t)site->cost_sectors
                              : (uint32_t)(site->cost.degree * LANES * LANES + site->cost.wavefronts);

    if (cost <= site->example_cost)
        return;
    site->example_cost = cost;
    site->example_mask = mask;
    memcpy(site->example, addresses, sizeof site->example);
}

static void cost_request(struct site *site, uint32_t mask, const uint64_t *addresses)
{
    struct warp_access access = {.store = site->kind != ACCESS_LOAD, .size = site->size, .mask = mask};

    memcpy(access.addresses, addresses, sizeof access.addresses);
    if (site->space == SPACE_GLOBAL) {
        site->cost_sectors = sector_count(&access);
        site->cost_ideal = ideal_sector_count(&access);
    } else {
        site->cost = bank_cost(&access, MAX_BANKS, 4);
    }
}

/* Whether a copy reads and writes as the site's last one did, up to shifts by whole lines. */
static bool copies_the_same(struct site *site, uint32_t mask, const uint64_t *to, const uint64_t *from,
                            enum smemkit_copy_path path)
{
    enum { LINE = 128, PATHS = 4 };
    const int first = __builtin_ctz(mask);
    const uint32_t phase = (uint32_t)((to[first] % LINE * LINE + from[first] % LINE) * PATHS + path);
    bool same = mask == site->mask && phase == site->phase;

    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const uint32_t step = (uint32_t)(to[lane] - to[first]);
        /* addresses are multiples of 4, so that a bit is free for whether the lane reads */
        const uint32_t source_step = (uint32_t)(from[lane] - from[first]) | (from[lane] != 0);

        same = same && site->steps[lane] == step && site->source_steps[lane] == source_step;
        site->steps[lane] = step;
        site->source_steps[lane] = source_step;
    }
    site->phase = phase;
    return same;
}

/* The cost of a copy's store. Past the L1 cache it has no bank conflicts, unless it writes zeros only. */
static void cost_copy(struct site *site, uint32_t mask, const uint64_t *to, const uint64_t *from,
                      enum smemkit_copy_path path)
{
    struct warp_copy copy = {.past_l1 = path == SMEMKIT_PAST_L1, .size = site->size, .mask = mask};
    bool reads = false;

    cost_request(site, mask, to);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);

        copy.to[lane] = to[lane];
        copy.from[lane] = from[lane];
        reads = reads || from[lane];
    }
    if (path != SMEMKIT_PAST_L1_OR_ZERO) {
        const struct copy_cost cost = copy_cost(&copy);

        site->cost.wavefronts = cost.wavefronts;
        site->cost.degree = cost.degree;
        site->cost.conflicts = copy.past_l1 ? 0 : cost.wavefronts - site->cost.groups;
    } else if (reads) {
        site->cost.degree = 1;
        site->cost.conflicts = 0;
    }
}

/* Counts the active lanes of a request, to compute how many full warps could have made the requests of a barrier
 * interval. */
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

/* Computes what a request costs, unless it is what the site's last one cost. */
static void update_cost(struct site *site, uint32_t mask, const uint64_t *tagged, unsigned access,
                        const uint64_t *sources)
{
    const bool is_copy = access >= ACCESS_COPY;
    const enum smemkit_copy_path path = (enum smemkit_copy_path)(is_copy ? access - ACCESS_COPY : 0);
    uint64_t addresses[LANES];
    uint32_t steps[LANES];

    if (!is_copy && costs_the_same(site, mask, tagged, steps))
        return;
    for (int lane = 0; lane < LANES; lane++)
        addresses[lane] = address_of(tagged[lane]);
    if (is_copy && copies_the_same(site, mask, addresses, sources, path))
        return;
    if (!is_copy)
        memcpy(site->steps, steps, sizeof steps);
    site->mask = mask;
    group_lanes(site);
    if (is_copy)
        cost_copy(site, mask, addresses, sources, path);
    else
        cost_request(site, mask, addresses);
    keep_example(site, mask, addresses);
}

/* Checks the stores of lanes to mbarriers, which have no site of their own. */
static void check_objects(struct tracer *t, uint32_t item, uint32_t context, uint32_t mask, const uint64_t *tagged,
                          unsigned warp, unsigned position)
{
    struct site lanes = {.item = item, .context = context, .kind = ACCESS_STORE};

    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        lanes.group_lane[lanes.group_count] = (uint8_t)__builtin_ctz(rest);
        lanes.group_lanes[lanes.group_count++] = rest & -rest;
    }
    shadow_request(t, &lanes, warp, tagged, position);
}

void count_request(struct tracer *t, uint32_t item, uint32_t context, uint32_t mask, const uint64_t *tagged,
                   bool unchecked, unsigned warp, unsigned position)
{
    uint64_t *sources = &t->sources[warp * LANES];

    while (mask) {
        const int first = __builtin_ctz(mask);
        const uint64_t tag = tagged[first] >> ADDRESS_BITS;
        const unsigned size = 1u << (tag & 15), access = tag >> (KIND_SHIFT - ADDRESS_BITS) & 15;
        const unsigned kind = access == ACCESS_ATOMIC_STORE ? ACCESS_ATOMIC
                              : access == ACCESS_READ_ONLY  ? ACCESS_LOAD
                              : access >= ACCESS_COPY       ? ACCESS_STORE
                                                            : access;
        const unsigned space = (unsigned)(tag >> (SPACE_SHIFT - ADDRESS_BITS));
        uint32_t others = 0;
        uint64_t differ = 0;
        struct site *site;

        for (int lane = 0; lane < LANES; lane++)
            differ |= tagged[lane] ^ tagged[first];
        if (differ >> ADDRESS_BITS) /* lanes may access different spaces with one instruction */
            for (uint32_t rest = mask; rest; rest &= rest - 1)
                if (tagged[__builtin_ctz(rest)] >> ADDRESS_BITS != tag)
                    others |= rest & -rest;
        mask &= ~others;
        if (access == ACCESS_OBJECT) {
            if (unchecked)
                check_objects(t, item, context, mask, tagged, warp, position);
            mask = others;
            continue;
        }
        if (access == ACCESS_SOURCE) {
            for (uint32_t rest = mask; rest; rest &= rest - 1)
                sources[__builtin_ctz(rest)] = address_of(tagged[__builtin_ctz(rest)]);
            mask = others;
            continue;
        }
        site = find_site(&t->sites, &t->site_capacity, &t->site_count, item, context,
                         (space == SPACE_DYNAMIC ? SPACE_STATIC : space) << 16 | kind << 8 | size);
        if (!site) {
            t->trace->observed.out_of_memory = true;
            return;
        }
        update_cost(site, mask, tagged, access, sources);
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
