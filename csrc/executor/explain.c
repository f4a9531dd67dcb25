/* What a fault's message says: where it happened, and which threads wait for what. */
#define _GNU_SOURCE
#include "block.h"
#include "mbarrier.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "schedule.h"

bool same_line(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

bool same_site(const struct waiting *a, const struct waiting *b)
{
    return a->reason == b->reason && same_line(a->file, a->line, b->file, b->line) &&
           (a->reason != WAIT_NAMED || a->source == b->source);
}

void append_text(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void append_text(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, MESSAGE_BYTES - used, format, arguments);
    va_end(arguments);
}

void append_location(const struct worker *w, char *text, bool thread)
{
    append_text(text, " in kernel %s, block (%u, %u, %u)", w->launch->kernel, w->block.x, w->block.y, w->block.z);
    if (thread) {
        const struct index3 *t = &w->indices[w->current];

        append_text(text, ", thread (%u, %u, %u)", t->x, t->y, t->z);
    }
}

/* What a waiting thread waits for. */
static struct waiting wait_site(const struct worker *w, unsigned thread)
{
    struct waiting site = w->waiting[thread];

    if (site.reason == WAIT_AT_BARRIER) {
        site.file = w->barrier_file;
        site.line = w->barrier_line;
    }
    return site;
}

static bool is_waiting(const struct worker *w, unsigned thread)
{
    const uint32_t elsewhere = w->warp_exited[thread >> 5] | w->suspended[thread >> 5];

    return !bit(w->ready, thread) && !(elsewhere >> (thread & 31) & 1);
}

/* Appends "128 of 256 threads wait at k.cu:49, the rest have exited": threads grouped by what they wait for. */
static void append_waiters(const struct worker *w, char *text)
{
    unsigned counted = 0;
    const char *separator = ": ";

    for (unsigned i = 0; i < w->count; i++) {
        const struct waiting site = wait_site(w, i);
        unsigned here = 0, earlier = 0;

        for (unsigned j = 0; is_waiting(w, i) && j < w->count; j++) {
            const struct waiting other = wait_site(w, j);

            if (is_waiting(w, j) && same_site(&site, &other)) {
                earlier += j < i;
                here++;
            }
        }
        if (!here || earlier)
            continue;
        append_text(text, "%s%u of %u threads wait at %s:%d", separator, here, w->count, site.file, site.line);
        if (site.reason == WAIT_WARP)
            append_text(text, " for lanes of mask 0x%08x", (unsigned)site.mask);
        if (site.reason == WAIT_INIT)
            append_text(text, " for mbarrier.init");
        if (site.reason == WAIT_CLUSTER)
            append_text(text, " for the other blocks of their cluster");
        if (site.reason == WAIT_EARLIER)
            append_text(text, " for the launch before this one");
        if (site.reason == WAIT_WARPGROUP)
            append_text(text, " for the other warps of their warpgroup");
        if (site.reason == WAIT_NAMED)
            append_text(text, " for barrier %d, at which %u of %u have arrived", site.source,
                        w->named[site.source].arrived, w->named[site.source].expected);
        separator = ", ";
        counted += here;
    }
    if (w->exited && w->exited + counted == w->count)
        append_text(text, "%sthe rest have exited", separator);
    else if (w->exited)
        append_text(text, "%s%u have exited", separator, w->exited);
}

static void note_fault(struct worker *w, int error, const char *what, bool thread)
{
    w->fault.error = error;
    snprintf(w->fault.message, MESSAGE_BYTES, "%s", what);
    append_location(w, w->fault.message, thread);
}

void explain(struct worker *w, int error, const char *what, bool thread)
{
    note_fault(w, error, what, thread);
    append_waiters(w, w->fault.message);
}

void worker_fail_beside(struct worker *w, enum fault_kind kind, const char *what, const char *file, int line,
                        const char *other_file, int other_line)
{
    note_fault(w, ERROR_LAUNCH_FAILURE, what, true);
    if (kind != KIND_SHUFFLE) /* waiting threads do not explain it */
        append_waiters(w, w->fault.message);
    if (w->tracer)
        smemkit_observer->fault(w, kind, w->fault.message, true, file, line, other_file, other_line);
    worker_leave(w);
}

void worker_fail(struct worker *w, enum fault_kind kind, const char *what, const char *file, int line)
{
    worker_fail_beside(w, kind, what, file, line, NULL, 0);
}

void fail_waiting(struct worker *w) __attribute__((noreturn));
void fail_waiting(struct worker *w)
{
    struct waiting first = {0}, other = {0};
    bool barrier = false;

    for (unsigned i = 0; i < w->count; i++) {
        const struct waiting site = wait_site(w, i);

        if (!is_waiting(w, i))
            continue;
        barrier |= site.reason <= WAIT_NAMED;
        if (!first.file)
            first = site;
        else if (!other.file && !same_line(site.file, site.line, first.file, first.line))
            other = site;
    }
    explain(w, ERROR_LAUNCH_FAILURE, barrier ? "barrier divergence" : "warp divergence", false);
    if (w->tracer && !w->terminated)
        smemkit_observer->fault(w, KIND_BARRIER, w->fault.message, false, first.file, first.line, other.file,
                                other.line);
    worker_leave(w);
}

void explain_signal(struct worker *w)
{
    char where[160];

    w->fault.error = ERROR_LAUNCH_FAILURE;
    w->fault.message[0] = '\0';
    if (w->fault_signal == SIGFPE) {
        append_text(w->fault.message, "integer division by zero");
    } else if (w->fault_signal == SIGILL || w->fault_signal == SIGTRAP) {
        append_text(w->fault.message, "illegal instruction, as at the end of a function without its return");
    } else {
        const char *at = w->fault_address, *stack = w->stacks;

        w->fault.error = ERROR_ILLEGAL_ADDRESS;
        if (!shared_describe(w, at, where, sizeof where))
            memory_describe(at, where, sizeof where);
        if (!w->fault_address_known)
            append_text(w->fault.message, "misaligned or non-canonical address");
        else if (at >= stack && at < stack + STACK_REGION)
            append_text(w->fault.message, "stack overflow: a thread has %d KB for its locals and calls",
                        STACK_BYTES / 1024);
        else
            append_text(w->fault.message, "illegal %s: %s", w->fault_is_store ? "write" : "access", where);
    }
    append_location(w, w->fault.message, true);
    if (w->tracer) /* a checked build reports wild addresses before the access */
        smemkit_observer->fault_at_code(w,
                                        strncmp(w->fault.message, "illegal ", 8) ? KIND_TRAP : KIND_OUT_OF_BOUNDS,
                                        w->fault.message, w->fault_code);
}

void explain_abort(struct worker *w)
{
    if (*w->abort == ABORT_HANG || *w->abort == ABORT_DEADLOCK) {
        w->fault.error = ERROR_LAUNCH_TIMEOUT;
        snprintf(w->fault.message, MESSAGE_BYTES,
                 *w->abort == ABORT_HANG ? "time limit exceeded" : "endless wait");
        append_location(w, w->fault.message, true);
        if (*w->abort == ABORT_HANG)
            append_text(
                w->fault.message,
                ": the watchdog ended the block while this thread ran; if the kernel is correct and only slow, "
                "set SMEMKIT_WATCHDOG to more seconds, or to 0 for no limit");
        else
            append_text(w->fault.message, ": the threads that can run repeat the same reads forever");
        if (*w->abort == ABORT_DEADLOCK && w->unstarted)
            append_text(w->fault.message, "; %llu blocks have not begun, because this device runs %d at once",
                        (unsigned long long)w->unstarted, smemkit_workers());
        append_waiters(w, w->fault.message);
        if (*w->abort == ABORT_DEADLOCK && w->failed_waits[w->current].file) {
            char wait[320];

            mbarrier_describe(&w->failed_waits[w->current], wait, sizeof wait);
            append_text(w->fault.message, "; %s", wait);
        }
        if (w->tracer)
            smemkit_observer->fault_at_code(w, KIND_HANG, w->fault.message, NULL);
    } else {
        w->fault.error = ERROR_UNKNOWN;
        snprintf(w->fault.message, MESSAGE_BYTES, "interrupted");
    }
}

bool shared_is_intact(struct worker *w)
{
    char where[160];

    if (w->tracer || shared_intact(w, where, sizeof where)) /* a check tests each access */
        return true;
    w->fault.error = ERROR_ILLEGAL_ADDRESS;
    snprintf(w->fault.message, MESSAGE_BYTES, "illegal write: %s", where);
    append_location(w, w->fault.message, false);
    return false;
}
