/* A worker's shared memory: the block's dynamic array and each static __shared__ variable, between guard pages.
 *
 *   | no access | slack | the array | slack | guard, no access |
 *
 * An array ends at its guard, or as little before it as its alignment allows. A write past its end faults. A write
 * to the slack is found at the end of the block, and hits neither another array nor the process's own data. The
 * slack before an array is the rest of its first page; below it nothing is accessible. A static variable gets its
 * slot when a thread first reaches its declaration, for the rest of the launch.
 *
 * The low WINDOW_BITS bits of an address in PTX's shared window are the byte's offset among the block's arrays,
 * which begin at the same multiples of WINDOW_ALIGNMENT there as in memory. Above them is twice the array's
 * number, so that an address before or past the array still identifies it; and above that the rank of a block of
 * the cluster.
 */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cluster.h"
#include "memory.h"
#include "ptx.h"
#include "schedule.h"

enum {
    STATIC_BYTES = 48 * 1024, /* nvcc's limit for all static variables of a kernel */
    DYNAMIC_ALIGNMENT = 1024, /* of 128-byte swizzles */
    SLACK_BYTE = 0xFE,
    WINDOW_ALIGNMENT = 1024,
    RANK_SHIFT = 27, /* above: 1 + the rank of a block of the cluster, 0 for the own one */
};

static const size_t GUARD = (size_t)1 << 24; /* around all slots; address space only, as in memory.c */

static char *round_down(char *at, size_t unit)
{
    return (char *)((uintptr_t)at & ~(uintptr_t)(unit - 1));
}

/* ---- arrays ---- */

/* Places an array of `bytes` bytes before the guard at a->limit. False if the system refuses another mapping. */
static bool place_before_guard(struct shared_array *a, size_t bytes, size_t alignment, size_t page)
{
    char *start = round_down(a->limit - bytes, alignment), *first = round_down(start, page);

    if (first < a->first && mprotect(first, (size_t)(a->first - first), PROT_READ | PROT_WRITE) != 0)
        return false;
    if (first > a->first && mprotect(a->first, (size_t)(first - a->first), PROT_NONE) != 0)
        return false;
    a->first = first;
    a->start = start;
    a->end = start + bytes;
    memset(a->first, SLACK_BYTE, (size_t)(a->start - a->first));
    memset(a->end, SLACK_BYTE, (size_t)(a->limit - a->end));
    return true;
}

static void place_in_window(struct shared_memory *s, struct shared_array *a)
{
    a->window = s->window_end + (((uintptr_t)a->start - s->window_end) & (WINDOW_ALIGNMENT - 1));
    s->window_end = a->window + (size_t)(a->end - a->start);
}

/* Returns the first overwritten slack byte in [from, to), or NULL. */
static const char *find_overwritten(const char *from, const char *to)
{
    const size_t bytes = (size_t)(to - from);

    if (bytes == 0 || ((unsigned char)*from == SLACK_BYTE && memcmp(from, from + 1, bytes - 1) == 0))
        return NULL;
    while ((unsigned char)*from == SLACK_BYTE)
        from++;
    return from;
}

static const char *find_overwritten_slack(const struct shared_array *a)
{
    const char *at = find_overwritten(a->end, a->limit);

    return at ? at : find_overwritten(a->first, a->start);
}

static void describe(const struct shared_array *a, const char *at, char *text, size_t length)
{
    const bool before = at < a->start;
    const size_t bytes = (size_t)(a->end - a->start), away = (size_t)(before ? a->start - at : at - a->end);
    const char *where = before ? "before" : "past the end of";

    if (a->variable)
        snprintf(text, length, "%zu bytes %s the shared variable %s of %zu bytes", away, where, a->variable->name,
                 bytes);
    else
        snprintf(text, length, "%zu bytes %s the dynamic shared memory of %zu bytes", away, where, bytes);
}

/* ---- a worker's memory ---- */

bool shared_prepare(struct worker *w)
{
    struct shared_memory *s = &w->shared;
    char *mapped;

    s->shift = w->page > 16384 ? 17 : 16; /* the first power of two that holds STATIC_BYTES and a page */
    s->bytes = (SHARED_SLOTS << s->shift) + SHARED_MAPPED + w->page;
    mapped = mmap(NULL, s->bytes + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    s->base = mapped + GUARD;
    for (size_t i = 0; i < SHARED_SLOTS; i++)
        s->slots[i].first = s->slots[i].limit = s->base + ((i + 1) << s->shift) - w->page;
    s->dynamic.first = s->dynamic.limit = s->base + s->bytes;
    return true;
}

void shared_dispose(struct worker *w)
{
    if (w->shared.base)
        munmap(w->shared.base - GUARD, w->shared.bytes + 2 * GUARD);
    w->shared.base = NULL;
}

bool shared_begin(struct worker *w, const struct smemkit_launch *launch)
{
    struct shared_memory *s = &w->shared;

    while (s->count)
        s->slots[--s->count].variable = NULL;
    s->static_bytes = 0;
    s->window_end = WINDOW_ALIGNMENT;
    if (!place_before_guard(&s->dynamic, launch->shared_bytes, DYNAMIC_ALIGNMENT, w->page))
        return false;
    place_in_window(s, &s->dynamic);
    return true;
}

bool shared_intact(struct worker *w, char *text, size_t length)
{
    struct shared_memory *s = &w->shared;
    const char *at = find_overwritten_slack(&s->dynamic);

    if (at)
        describe(&s->dynamic, at, text, length);
    for (unsigned i = 0; i < s->count && !at; i++)
        if ((at = find_overwritten_slack(&s->slots[i])))
            describe(&s->slots[i], at, text, length);
    return !at;
}

const struct shared_array *nearest_shared_array(const struct worker *w, const void *address)
{
    const struct shared_memory *s = &w->shared;
    const char *at = address;
    size_t slot;

    if (!s->base || at < s->base - GUARD || at >= s->base + s->bytes + GUARD)
        return NULL;
    slot = at < s->base ? 0 : (size_t)(at - s->base) >> s->shift;
    if (slot >= SHARED_SLOTS)
        return &s->dynamic;
    if (slot > 0 && s->slots[slot - 1].variable &&
        (!s->slots[slot].variable || at - s->slots[slot - 1].end < s->slots[slot].start - at))
        return &s->slots[slot - 1];
    return s->slots[slot].variable ? &s->slots[slot] : NULL;
}

bool shared_describe(const struct worker *w, const void *address, char *text, size_t length)
{
    const struct shared_array *a = nearest_shared_array(w, address);

    if (a)
        describe(a, address, text, length);
    return a != NULL;
}

/* Whether an address is in the accessible pages around an array. */
static bool is_accessible(const struct shared_memory *s, const char *at)
{
    for (unsigned i = 0; i < SHARED_SLOTS; i++)
        if (at >= s->slots[i].first && at < s->slots[i].limit)
            return true;
    return at >= s->dynamic.first && at < s->dynamic.limit;
}

bool shared_poison_guard(struct worker *w, const void *address, size_t bytes)
{
    struct shared_memory *s = &w->shared;
    const char *first = address, *last = first + bytes - 1;

    if (!s->base || first < s->base - GUARD || last >= s->base + s->bytes + GUARD)
        return false;
    return (is_accessible(s, first) || poison_pages(&s->poisoned, first, first)) &&
           (is_accessible(s, last) || poison_pages(&s->poisoned, last, last));
}

bool shared_restore_guards(struct worker *w)
{
    struct shared_memory *s = &w->shared;
    bool restored = true;

    while (s->poisoned.count) {
        char *page = s->poisoned.page[--s->poisoned.count];

        if (!is_accessible(s, page)) /* a variable may have been allocated there since */
            restored &= unpoison_page(page);
    }
    return restored;
}

/* ---- called by kernels ---- */

void *shared_allocate(struct worker *w, const struct smemkit_shared *variable)
{
    struct shared_memory *s = &w->shared;
    char what[MESSAGE_BYTES];
    const unsigned i = s->count;

    s->static_bytes += variable->bytes;
    if (s->static_bytes > STATIC_BYTES)
        snprintf(
            what, sizeof what,
            "too much static shared memory: %zu bytes with %s, at most %d are allowed; use dynamic shared memory",
            s->static_bytes, variable->name, STATIC_BYTES);
    else if (i == SHARED_SLOTS)
        snprintf(what, sizeof what, "too many shared variables: %s exceeds the limit of %d", variable->name,
                 SHARED_SLOTS);
    else if (!place_before_guard(&s->slots[i], variable->bytes, variable->alignment, w->page))
        snprintf(what, sizeof what, "no memory for the shared variable %s", variable->name);
    else
        what[0] = '\0';
    if (what[0])
        worker_fail(w, KIND_TRAP, what, "", 0);
    place_in_window(s, &s->slots[i]);
    s->slots[i].variable = variable;
    s->count = i + 1;
    if (w->tracer)
        smemkit_observer->shared_allocated(w, i);
    return s->slots[i].start;
}

uint64_t shared_hash(const struct worker *w)
{
    const struct shared_memory *s = &w->shared;
    uint64_t hash = memory_hash(s->dynamic.start, (size_t)(s->dynamic.end - s->dynamic.start));

    for (unsigned i = 0; i < s->count; i++)
        hash = hash * 31 + memory_hash(s->slots[i].start, (size_t)(s->slots[i].end - s->slots[i].start));
    return hash;
}

static const struct shared_array *array_number(const struct shared_memory *s, size_t number)
{
    return number == 0 ? &s->dynamic : number <= s->count ? &s->slots[number - 1] : NULL;
}

char *shared_in_window(const struct worker *w, size_t low)
{
    const struct shared_memory *s = &w->shared;

    for (size_t i = 0; i <= s->count; i++) {
        const struct shared_array *a = array_number(s, i);

        if (low - a->window < (size_t)(a->end - a->start))
            return a->start + (low - a->window);
    }
    return NULL;
}

size_t smemkit_to_shared(const void *address)
{
    struct worker *w = own_worker(), *owner = w->in_cluster ? cluster_owner(w, address) : w;
    const struct shared_array *a = owner ? nearest_shared_array(owner, address) : NULL;
    size_t number;

    if (!a)
        return SIZE_MAX;
    number = a == &owner->shared.dynamic ? 0 : (size_t)(a - owner->shared.slots) + 1;
    return (owner == w ? 0 : (size_t)(owner->rank + 1) << RANK_SHIFT) + (number << (WINDOW_BITS + 1)) + a->window +
           (size_t)((const char *)address - a->start);
}

/* The block that an address names: the running one, or one of its cluster. NULL: none. */
static const struct worker *named_block(size_t address)
{
    const struct worker *w = own_worker(), *host = w->host ? w->host : w;
    const size_t rank = address >> RANK_SHIFT;

    if (!rank)
        return w;
    return w->in_cluster && rank <= host->cluster->size ? host->cluster->members[rank - 1] : NULL;
}

void *smemkit_from_shared(size_t full)
{
    const struct worker *w = named_block(full);
    const size_t address = full & (((size_t)1 << RANK_SHIFT) - 1);
    const size_t low = address & (((size_t)1 << WINDOW_BITS) - 1), half = (size_t)1 << (WINDOW_BITS - 1);
    const size_t twice = address >> WINDOW_BITS; /* odd: past the end of one array, or before the next one */
    const size_t number = (twice + (twice & 1 && low >= half)) >> 1;
    const struct shared_array *a = w ? array_number(&w->shared, number) : NULL;

    if (!a)
        return (void *)(address & 0xfff); /* the null page */
    return a->start + (ptrdiff_t)(address - (number << (WINDOW_BITS + 1)) - a->window);
}

int smemkit_is_shared(const void *address)
{
    const struct shared_memory *s = &own_worker()->shared;

    return (size_t)((const char *)address - s->base) < s->bytes;
}

int smemkit_is_cluster_shared(const void *address)
{
    return cluster_owner(own_worker(), address) != NULL;
}
