/* Counts of asynchronous work: the waits for mbarriers by line, and the bulk copies in flight. */
#define _GNU_SOURCE
#include <string.h>

#include "executor/bulk.h"
#include "internal.h"

/* The counts of a line; NULL if there are too many lines. */
static struct wait_count *count_at(struct wait_counts *counts, const char *file, int line)
{
    for (int i = 0; i < counts->count; i++)
        if (counts->lines[i].line == line && strcmp(counts->lines[i].file, file) == 0)
            return &counts->lines[i];
    if (counts->count == MAX_WAIT_LINES)
        return NULL;
    counts->lines[counts->count] = (struct wait_count){.file = file, .line = line};
    return &counts->lines[counts->count++];
}

void wait_tried(struct tracer *t, const char *file, int line, bool passed)
{
    struct wait_count *found = count_at(&t->waits, file, line);

    if (found && passed)
        found->passed++;
    else if (found)
        found->idle++;
}

void flight_begin(struct tracer *t, const struct bulk *bulk)
{
    struct flights *now = &t->flying, *most = &t->most_flying;

    now->copies++;
    now->bytes += bulk->copy.bytes;
    most->copies = now->copies > most->copies ? now->copies : most->copies;
    most->bytes = now->bytes > most->bytes ? now->bytes : most->bytes;
}

void flight_end(struct tracer *t, const struct bulk *bulk)
{
    if (!bulk->copy.bytes) /* its source was seen read before */
        return;
    t->flying.copies--;
    t->flying.bytes -= bulk->copy.bytes;
}

void waits_join(struct trace *trace, const struct tracer *t)
{
    struct flights *most = &trace->most_flying;

    for (int i = 0; i < t->waits.count; i++) {
        const struct wait_count *own = &t->waits.lines[i];
        struct wait_count *found = count_at(&trace->waits, own->file, own->line);

        if (found) {
            found->passed += own->passed;
            found->idle += own->idle;
        }
    }
    most->copies = t->most_flying.copies > most->copies ? t->most_flying.copies : most->copies;
    most->bytes = t->most_flying.bytes > most->bytes ? t->most_flying.bytes : most->bytes;
}
