/* Asynchronous copies, cp.async: the bytes move when the thread waits for them, never before, so that a kernel
 * that reads them without waiting gets what was there.
 *
 * Each thread has a queue of its copies, the oldest first. A commit closes a group of them; a wait moves the bytes
 * of all groups but the last few. On a GPU copies may land earlier: nothing may depend on that.
 */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* In a worker, for all threads of its block; the memory is only touched as far as it is used. */
enum { MAX_COPIES = 1 << 20 };

struct copy {
    char *to;
    const char *from;
    const char *file;
    int line;
    uint8_t bytes, zeros;
    uint32_t item;  /* of the checker: where it was asked for */
    uint32_t group; /* which commit of its thread closes it: 0 is the first */
    uint32_t next;  /* in the thread's queue, or of the free ones */
};

struct queue {
    uint32_t first, last; /* 0: empty */
    uint32_t groups;      /* commits so far */
};

struct async_copies {
    struct queue queues[MAX_THREADS];
    uint32_t free, used; /* those of `copies` that were given back; how many have ever been in use */
    struct copy copies[MAX_COPIES];
};

static struct async_copies *copies_of(struct worker *w)
{
    if (!w->copies) {
        void *mapped = mmap(NULL, sizeof *w->copies, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (mapped == MAP_FAILED)
            worker_fail(w, KIND_TRAP, "no memory for asynchronous copies", __FILE__, __LINE__);
        w->copies = mapped;
    }
    return w->copies;
}

void async_dispose(struct worker *w)
{
    if (w->copies)
        munmap(w->copies, sizeof *w->copies);
    w->copies = NULL;
}

void async_forget(struct worker *w)
{
    struct async_copies *all = w->copies;

    memset(all->queues, 0, sizeof all->queues);
    all->free = all->used = 0;
    w->copies_pending = 0;
}

/* The bytes of one copy become visible, here and nowhere else. */
static void land(struct worker *w, unsigned thread, const struct copy *copy)
{
    if (w->tracer)
        shadow_async(w->tracer, thread, copy->to, copy->bytes, copy->item, true);
    memcpy(copy->to, copy->from, copy->bytes - copy->zeros);
    memset(copy->to + copy->bytes - copy->zeros, 0, copy->zeros);
}

/* Lands the oldest copy of a thread. */
static void land_first(struct worker *w, unsigned thread)
{
    struct async_copies *all = w->copies;
    struct queue *queue = &all->queues[thread];
    uint32_t number = queue->first;
    struct copy *copy = &all->copies[number];

    land(w, thread, copy);
    queue->first = copy->next;
    copy->next = all->free;
    all->free = number;
    w->copies_pending--;
}

/* A place for a copy; 0 where there is none. */
static uint32_t take(struct async_copies *all)
{
    uint32_t number = all->free;

    if (number)
        all->free = all->copies[number].next;
    else if (all->used + 1 < MAX_COPIES)
        number = ++all->used;
    return number;
}

void smemkit_async_copy(void *to, const void *from, unsigned bytes, unsigned zeros, const void *code,
                        const char *file, int line)
{
    struct worker *w = smemkit_worker;
    uint32_t item = 0;
    struct async_copies *all = copies_of(w);
    struct queue *queue = &all->queues[w->current];
    uint32_t number;
    char what[256];

    what[0] = '\0';
    if (bytes != 4 && bytes != 8 && bytes != 16)
        snprintf(what, sizeof what, "asynchronous copy of %u bytes, not 4, 8 or 16, at %.120s:%d", bytes, file,
                 line);
    else if (zeros > bytes)
        snprintf(what, sizeof what, "asynchronous copy of %u bytes with %u of them zero at %.120s:%d", bytes,
                 zeros, file, line);
    else if ((uintptr_t)to % bytes)
        snprintf(what, sizeof what,
                 "asynchronous copy of %u bytes to an address that is no multiple of it at %.120s:%d", bytes, file,
                 line);
    else if ((uintptr_t)from % bytes)
        snprintf(what, sizeof what,
                 "asynchronous copy of %u bytes from an address that is no multiple of it at %.120s:%d", bytes,
                 file, line);
    if (what[0])
        worker_fail(w, KIND_MISALIGNED, what, file, line);
    if (w->tracer)
        item = trace_async(w->tracer, to, from, bytes - zeros, bytes, code);

    number = take(all);
    while (!number && queue->first) { /* more than anybody needs: the oldest are done early, as they may be */
        land_first(w, w->current);
        number = take(all);
    }
    if (!number)
        worker_fail(w, KIND_TRAP, "too many asynchronous copies that nobody waits for", file, line);
    all->copies[number] = (struct copy){.to = to,
                                        .from = from,
                                        .file = file,
                                        .line = line,
                                        .bytes = (uint8_t)bytes,
                                        .zeros = (uint8_t)zeros,
                                        .item = item,
                                        .group = queue->groups};
    if (queue->first)
        all->copies[queue->last].next = number;
    else
        queue->first = number;
    queue->last = number;
    w->copies_pending++;
}

void smemkit_async_commit(void)
{
    struct worker *w = smemkit_worker;

    copies_of(w)->queues[w->current].groups++;
}

void smemkit_async_wait(unsigned groups)
{
    struct worker *w = smemkit_worker;
    struct async_copies *all = copies_of(w);
    struct queue *queue = &all->queues[w->current];

    if (w->tracer)
        trace_settle(w->tracer, w->current); /* what it read before the wait came before it */
    while (queue->first && queue->groups - all->copies[queue->first].group > groups)
        land_first(w, w->current);
}

void async_finish(struct worker *w, unsigned thread)
{
    struct queue *queue = &w->copies->queues[thread];

    if (w->tracer && queue->first)
        trace_settle(w->tracer, thread); /* what it touched without a wait came before it */
    while (queue->first)
        land_first(w, thread);
}
