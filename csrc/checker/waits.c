/* Counts of asynchronous work: the waits for mbarriers by line, and the copies in flight. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "executor/bulk.h"
#include "internal.h"

/* The counts of a line; NULL if there is no memory for them. */
static struct wait_count *count_at(struct trace *trace, struct wait_counts *counts, const char *file, int line)
{
    for (int i = 0; i < counts->count; i++)
        if (counts->lines[i].line == line && strcmp(counts->lines[i].file, file) == 0)
            return &counts->lines[i];
    if (counts->count == counts->capacity) {
        const int capacity = counts->capacity ? counts->capacity * 2 : 16;
        struct wait_count *larger = realloc(counts->lines, (size_t)capacity * sizeof *larger);

        if (!larger) {
            trace->observed.out_of_memory = true;
            return NULL;
        }
        counts->lines = larger;
        counts->capacity = capacity;
    }
    counts->lines[counts->count] = (struct wait_count){.file = file, .line = line};
    return &counts->lines[counts->count++];
}

void wait_tried(struct tracer *t, const char *file, int line, bool passed)
{
    struct wait_count *found = count_at(t->trace, &t->waits, file, line);

    if (found && passed)
        found->passed++;
    else if (found)
        found->idle++;
}

static void keep_most(struct flights *most, uint64_t copies, uint64_t bytes)
{
    most->copies = copies > most->copies ? copies : most->copies;
    most->bytes = bytes > most->bytes ? bytes : most->bytes;
}

void flight_begin(struct tracer *t, const struct bulk *bulk)
{
    t->flying.copies++;
    t->flying.bytes += bulk->copy.bytes;
    keep_most(&t->most_flying, t->flying.copies + t->of_threads.copies, t->flying.bytes + t->of_threads.bytes);
}

void flight_end(struct tracer *t, const struct bulk *bulk)
{
    if (!bulk->copy.bytes) /* its source was seen read before */
        return;
    t->flying.copies--;
    t->flying.bytes -= bulk->copy.bytes;
}

void thread_flight_begin(struct tracer *t, unsigned thread, unsigned bytes)
{
    struct flights *now = &t->of_thread[thread], *most = &t->most_of_thread[thread];
    const struct flights before = *most;

    now->copies++;
    now->bytes += bytes;
    keep_most(most, now->copies, now->bytes);
    t->of_threads.copies += most->copies - before.copies;
    t->of_threads.bytes += most->bytes - before.bytes;
    keep_most(&t->most_flying, t->flying.copies + t->of_threads.copies, t->flying.bytes + t->of_threads.bytes);
}

void thread_flight_end(struct tracer *t, unsigned thread, unsigned bytes)
{
    t->of_thread[thread].copies--;
    t->of_thread[thread].bytes -= bytes;
}

void waits_join(struct trace *trace, const struct tracer *t)
{
    for (int i = 0; i < t->waits.count; i++) {
        const struct wait_count *own = &t->waits.lines[i];
        struct wait_count *found = count_at(trace, &trace->waits, own->file, own->line);

        if (found) {
            found->passed += own->passed;
            found->idle += own->idle;
        }
    }
    keep_most(&trace->most_flying, t->most_flying.copies, t->most_flying.bytes);
}
