/* A checked launch: which blocks are checked, and the checker's state of each worker. */
#define _GNU_SOURCE
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "executor/block.h"
#include "executor/memory.h"
#include "internal.h"

pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;

/* The logs of tracers that have left, each with a pointer to the next at its start. They are kept, one per worker
 * of the pool, because fresh memory costs two page faults per CUDA thread: a third of the time of a short check.
 */
static void *spare_logs;
static int spare_count;

void trace_after_fork(void)
{
    pthread_mutex_init(&trace_lock, NULL);
    spare_logs = NULL; /* the parent may have been changing the list */
    spare_count = 0;
    races_after_fork();
}

unsigned trace_random(struct tracer *t)
{
    t->random = mix(t->random + UINT64_C(0x632BE59BD9B4E019));
    return (unsigned)(t->random >> 32);
}

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
    if (!trace->faults || !trace->contexts ||
        !choose_blocks(trace,
                       check->all_blocks || launch->cooperative || launch->cluster[0] ? 0 : check->blocks)) {
        trace_free(trace);
        return NULL;
    }
    trace->launch = launch;
    trace->frame = (uintptr_t)__builtin_frame_address(0);
    memcpy(trace->block, launch->block, sizeof trace->block);
    memcpy(trace->cluster, launch->cluster, sizeof trace->cluster);
    trace->shared_bytes = launch->shared_bytes;
    snprintf(trace->kernel, sizeof trace->kernel, "%s", launch->kernel);
    trace->schedule = check->schedule;
    trace->completion = check->completion;
    trace->seed = check->seed;
    trace->library = library_find((uintptr_t)launch->run);
    note_arguments(trace, launch);
    trace->earlier = check->overtakes ? check->last : NULL;
    trace->kept = check->chained;
    check->overtakes = false;
    if (check->last)
        check->last->next = trace;
    else
        check->first = trace;
    check->last = trace;
    return trace;
}

void trace_end(struct trace *trace)
{
    if (!trace->kept)
        shadow_free_all(trace);
    clocks_free_objects(trace);
    free(trace->observed.order);
    trace->observed.order = NULL;
    trace->launch = NULL;
}

void trace_free(struct trace *trace)
{
    if (trace) {
        shadow_free_all(trace);
        free(trace->observed.order);
        free(trace->contexts);
        free(trace->waits.lines);
        free(trace->sites);
        free(trace->faults);
        free(trace);
    }
}

static const size_t CONTROLS_BYTES = MAX_THREADS * (LOG_ITEMS * sizeof(uint32_t) + LOG_GAP);
static const size_t ADDRESSES_BYTES = MAX_THREADS * (LOG_ITEMS * sizeof(uint64_t) + LOG_GAP);

static bool take_logs(struct tracer *t)
{
    void *memory;

    pthread_mutex_lock(&trace_lock);
    memory = spare_logs;
    if (memory) {
        memcpy(&spare_logs, memory, sizeof spare_logs);
        spare_count--;
    }
    pthread_mutex_unlock(&trace_lock);
    if (!memory)
        memory = mmap(NULL, CONTROLS_BYTES + ADDRESSES_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    t->addresses = memory;
    t->controls = (uint32_t *)((char *)memory + ADDRESSES_BYTES);
    return true;
}

/* Under trace_lock. The system may take the memory of kept logs where it is short. */
static void give_logs_back(struct tracer *t)
{
    const size_t bytes = CONTROLS_BYTES + ADDRESSES_BYTES;

    if (!t->addresses)
        return;
    if (spare_count >= smemkit_workers()) {
        munmap(t->addresses, bytes);
        return;
    }
#ifdef MADV_FREE
    (void)madvise(t->addresses, bytes, MADV_FREE);
#endif
    memcpy(t->addresses, &spare_logs, sizeof spare_logs);
    spare_logs = t->addresses;
    spare_count++;
}

bool trace_enter(struct worker *w, struct trace *trace)
{
    struct tracer *t = calloc(1, sizeof *t);
    bool ok;

    if (!t)
        return false;
    t->worker = w;
    t->trace = trace;
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
    ok = take_logs(t) && clocks_prepare(t) &&
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
    t->trace->barriers += t->barriers;
    waits_join(t->trace, t);
    for (unsigned i = 0; i < t->site_capacity; i++) {
        if (t->sites[i].item) {
            name_example(t, &t->sites[i]);
            add_site(t->trace, &t->sites[i]);
        }
    }
    give_logs_back(t);
    pthread_mutex_unlock(&trace_lock);
    shadow_free(&t->shared[0]);
    shadow_free(&t->shared[1]);
    clocks_dispose(t);
    locals_dispose(t);
    remotes_dispose(t);
    free(t->waits.lines);
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
        t->poisoned[i] = t->poisoned_logs[i] = 0;
        t->merged_context[i] = t->context[i] = 0;
        t->passes[i].pass.file = NULL;
        t->passed_over[i / LANES] = 0;
        t->last[i] = 0;
        t->of_thread[i] = t->most_of_thread[i] = (struct flights){0};
    }
    for (unsigned i = 0; i < w->shared.count; i++)
        forget_shared(t, STATIC, &w->shared.slots[i]);
    if (t->spans[DYNAMIC].bytes)
        forget_shared(t, DYNAMIC, &w->shared.dynamic);
    t->random = mix(t->trace->seed + ((uint64_t)w->block.z << 42 ^ (uint64_t)w->block.y << 21 ^ w->block.x) * 977);
    t->ended_poison = (struct code_location){0};
    t->flying = t->of_threads = (struct flights){0};
    t->block_poisoned = false;
    t->poisoned_barriers = 0;
    clocks_block_begin(t);
    locals_begin(t);
    remotes_begin(t);
    load_log_position(t, 0);
}

void trace_block_end(struct worker *w)
{
    trace_merge_block(w->tracer);
    if (w->in_cluster && !w->terminated)
        remotes_end(w->tracer);
}
