/* The shadow memory: see races.c. */
#define _GNU_SOURCE
#include "shadow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/memory.h"

atomic_flag shadow_stripes[STRIPES];
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

void shadow_after_fork(void)
{
    pthread_mutex_init(&regions_lock, NULL);
    for (int i = 0; i < STRIPES; i++)
        atomic_flag_clear(&shadow_stripes[i]);
}

/* Their memory, which is freed after the launch. */
struct uses_chunk {
    struct uses_chunk *next;
    struct extra_uses items[USES_IN_CHUNK];
};

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static size_t cells_of(const struct region *region, int shift)
{
    return (region->bytes + ((size_t)1 << shift) - 1) >> shift;
}

static bool map_cells(struct region *region, int shift)
{
    region->shift = shift;
    region->cells = map(cells_of(region, shift) * sizeof(struct cell));
    region->origins = map(cells_of(region, shift) * sizeof(struct origins));
    if (!region->cells || !region->origins)
        shadow_free(region);
    return region->cells != NULL;
}

void shadow_forget(struct region *region, uintptr_t start, size_t bytes)
{
    const size_t first = (start - region->start) >> region->shift;
    const size_t last = (start - region->start + bytes + (1u << region->shift) - 1) >> region->shift;

    if (region->cells)
        memset(region->cells + first, 0, (last - first) * sizeof(struct cell));
}

bool shadow_map(struct region *region, uintptr_t start, size_t bytes, bool global)
{
    const size_t extra = start & 3; /* cells are aligned words, even if a borrowed array is not */

    *region = (struct region){
        .start = start - extra, .bytes = bytes + extra, .used = bytes + extra, .shift = 2, .global = global};
    return map_cells(region, 2);
}

void shadow_free(struct region *region)
{
    const size_t count = cells_of(region, region->shift);

    if (region->cells)
        munmap(region->cells, count * sizeof(struct cell));
    if (region->origins)
        munmap(region->origins, count * sizeof(struct origins));
    region->cells = NULL;
    region->origins = NULL;
}

struct extra_uses *take_extra_use(struct tracer *t)
{
    struct extra_uses *extra = t->free_uses;
    struct uses_chunk *chunk;

    if (!extra) {
        chunk = calloc(1, sizeof *chunk);
        if (!chunk) {
            t->trace->observed.out_of_memory = true;
            return NULL;
        }
        for (int i = 0; i < USES_IN_CHUNK; i++)
            chunk->items[i].next = i + 1 < USES_IN_CHUNK ? &chunk->items[i + 1] : NULL;
        pthread_mutex_lock(&regions_lock);
        chunk->next = t->trace->uses;
        t->trace->uses = chunk;
        pthread_mutex_unlock(&regions_lock);
        extra = chunk->items;
    }
    t->free_uses = extra->next;
    extra->next = NULL;
    return extra;
}

void release_extra_uses(struct tracer *t, struct origins *origins)
{
    while (origins->more) {
        struct extra_uses *next = origins->more->next;

        origins->more->next = t->free_uses;
        t->free_uses = origins->more;
        origins->more = next;
    }
}

static struct extra_uses *copy_extra_uses(struct tracer *t, const struct extra_uses *from)
{
    struct extra_uses *first = NULL, **link = &first;

    for (; from && (*link = take_extra_use(t)); from = from->next, link = &(*link)->next) {
        (*link)->use = from->use;
        (*link)->origin = from->origin;
    }
    return first;
}

static bool refine(struct tracer *t, struct region *region)
{
    struct region coarse = *region;
    const size_t words = (region->used + 3) / 4, bytes = cells_of(region, 0);

    if (!map_cells(region, 0)) {
        *region = coarse;
        return false;
    }
    for (size_t i = 0; i < words; i++) {
        const struct cell *word = &coarse.cells[i];

        if (!word->written && !word->pending && !word->uses[0].epoch)
            continue;
        for (size_t j = i * 4; j < i * 4 + 4 && j < bytes; j++) {
            region->cells[j] = *word;
            region->origins[j] = coarse.origins[i];
            region->origins[j].more = word->uses[0].epoch ? copy_extra_uses(t, coarse.origins[i].more) : NULL;
        }
    }
    shadow_free(&coarse);
    return true;
}

void shadow_refine(struct tracer *t, struct region *region)
{
    if (!region->shift)
        return;
    if (region->global)
        for (unsigned i = 0; i < STRIPES; i++)
            lock_stripe(i);
    if (region->shift && !refine(t, region))
        t->trace->observed.out_of_memory = true;
    if (region->global)
        for (unsigned i = 0; i < STRIPES; i++)
            unlock_stripe(i);
}

struct region *find_region(struct tracer *t, uintptr_t address)
{
    struct trace *trace = t->trace;
    struct region *found = NULL;
    uintptr_t start, end;

    const struct tracer *remote = remote_tracer(t, address);

    if (remote)
        return (struct region *)&remote
            ->shared[address - remote->spans[STATIC].start >= remote->spans[STATIC].bytes];
    if (t->recent && address - t->recent->start < t->recent->bytes)
        return t->recent;
    pthread_mutex_lock(&regions_lock);
    for (found = trace->regions; found; found = found->next)
        if (address - found->start < found->bytes)
            break;
    if (!found && (found = calloc(1, sizeof *found))) {
        if (library_has_data(&trace->library, address)) {
            start = trace->library.data_start;
            end = trace->library.data_end;
        } else if (!memory_find((const void *)address, &start, &end)) {
            start = end = 0;
        }
        if (start == end || !shadow_map(found, start, end - start, true)) {
            free(found);
            found = NULL;
        } else {
            found->next = trace->regions;
            trace->regions = found;
        }
    }
    pthread_mutex_unlock(&regions_lock);
    if (found)
        t->recent = found;
    return found;
}

void shadow_free_all(struct trace *trace)
{
    while (trace->regions) {
        struct region *region = trace->regions;

        trace->regions = region->next;
        shadow_free(region);
        free(region);
    }
    while (trace->uses) {
        struct uses_chunk *chunk = trace->uses;

        trace->uses = chunk->next;
        free(chunk);
    }
}
