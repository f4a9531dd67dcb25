/* Asynchronous copies, cp.async. The bytes are copied when the thread waits for them, never before, so that a
 * kernel that reads them without waiting gets the old contents. The observer may have them copied at once instead,
 * which a GPU may do as well; to the observer the thread sees them only after its wait in either case.
 *
 * Each thread has a queue of its copies, oldest first. A commit closes a group of them; a wait completes all
 * groups but the last few. An arrival at an mbarrier is in the queue, too: it is made when a thread waits for the
 * mbarrier, or after a wait for the copies before it. On a GPU copies may complete earlier; a correct kernel
 * cannot observe that. If the observer has an arrival made at once, it and the copies before it stay in the queue
 * until a thread waits: only then are they visible.
 */
#define _GNU_SOURCE
#include "block.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "mbarrier.h"
#include "schedule.h"

/* Per worker, for all threads of its block. Pages are only committed as they are used. */
enum { MAX_COPIES = 1 << 20 };

struct copy {
    char *to; /* of an arrival: the mbarrier */
    const char *from;
    const char *file;
    int line;
    uint8_t bytes, zeros; /* no bytes: an arrival */
    bool moved;           /* the bytes have been copied early; of an arrival: it has been made */
    uint32_t item;  /* the observer's name for its instruction; of an arrival: the phase in which it was made */
    uint32_t group; /* index of the commit of its thread that closes it */
    uint32_t next;  /* in the thread's queue, or in the free list */
};

struct queue {
    uint32_t first, last; /* 0: empty */
    uint32_t groups;      /* commits so far */
};

struct async_copies {
    struct queue queues[MAX_THREADS];
    uint32_t free, used; /* free list; slots [1, used] have been used */
    struct copy copies[MAX_COPIES];
};

static struct async_copies *thread_copies(struct worker *w)
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

static bool completes_early(struct worker *w)
{
    return w->tracer && smemkit_observer->completes_early(w);
}

static void move_bytes(const struct copy *copy)
{
    memcpy(copy->to, copy->from, copy->bytes - copy->zeros);
    memset(copy->to + copy->bytes - copy->zeros, 0, copy->zeros);
}

static void make_arrival(const struct copy *arrival)
{
    int refused;

    smemkit_mbarrier_arrive(arrival->to, 1, 0, 0, &refused);
    if (refused)
        smemkit_mbarrier_refuse(arrival->to, 1, arrival->file, arrival->line);
}

/* Completes one copy or arrival: its thread has waited for it, or some thread for the mbarrier. */
static void complete_copy(struct worker *w, unsigned thread, const struct copy *copy)
{
    if (!copy->bytes) {
        if (w->tracer)
            smemkit_observer->copies_arrived(w, thread, copy->to);
        if (!copy->moved)
            make_arrival(copy);
        return;
    }
    if (w->tracer)
        smemkit_observer->copy_completed(w, thread, copy->to, copy->bytes, copy->item);
    if (!copy->moved)
        move_bytes(copy);
}

/* Completes the oldest copy of a thread. */
static void complete_oldest(struct worker *w, unsigned thread)
{
    struct async_copies *all = w->copies;
    struct queue *queue = &all->queues[thread];
    uint32_t number = queue->first;
    struct copy *copy = &all->copies[number];

    complete_copy(w, thread, copy);
    queue->first = copy->next;
    copy->next = all->free;
    all->free = number;
    w->copies_pending--;
}

/* Returns a free slot, or 0. */
static uint32_t take_slot(struct async_copies *all)
{
    uint32_t number = all->free;

    if (number)
        all->free = all->copies[number].next;
    else if (all->used + 1 < MAX_COPIES)
        number = ++all->used;
    return number;
}

/* Appends to the queue of the running thread. */
static void append(struct worker *w, struct copy copy)
{
    struct async_copies *all = thread_copies(w);
    struct queue *queue = &all->queues[w->current];
    uint32_t number = take_slot(all);

    while (!number && queue->first) { /* out of slots: completes the oldest copy early, as hardware may */
        complete_oldest(w, w->current);
        number = take_slot(all);
    }
    if (!number)
        worker_fail(w, KIND_TRAP, "too many asynchronous copies without a wait", copy.file, copy.line);
    copy.group = queue->groups;
    all->copies[number] = copy;
    if (queue->first)
        all->copies[queue->last].next = number;
    else
        queue->first = number;
    queue->last = number;
    w->copies_pending++;
}

/* Queues a copy of the running thread, whose bytes may be copied at once. */
static void issue(struct worker *w, struct copy copy)
{
    copy.moved = completes_early(w);
    if (copy.moved)
        move_bytes(&copy);
    append(w, copy);
}

void smemkit_async_copy(void *to, const void *from, unsigned bytes, unsigned zeros, enum smemkit_copy_path path,
                        const void *code, const char *file, int line)
{
    struct worker *w = smemkit_worker;
    uint32_t item = 0;
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
                 "asynchronous copy of %u bytes to an address that is not a multiple of %u at %.120s:%d", bytes,
                 bytes, file, line);
    else if ((uintptr_t)from % bytes)
        snprintf(what, sizeof what,
                 "asynchronous copy of %u bytes from an address that is not a multiple of %u at %.120s:%d", bytes,
                 bytes, file, line);
    if (what[0])
        worker_fail(w, KIND_MISALIGNED, what, file, line);
    if (w->tracer)
        item = smemkit_observer->copy_issued(w, to, from, bytes - zeros, bytes, path, code);

    issue(w, (struct copy){.to = to,
                           .from = from,
                           .file = file,
                           .line = line,
                           .bytes = (uint8_t)bytes,
                           .zeros = (uint8_t)zeros,
                           .item = item});
}

/* Makes the arrivals of the running thread: its copies are complete. */
static void arrive_early(struct worker *w)
{
    struct async_copies *all = w->copies;
    const struct queue *queue = &all->queues[w->current];

    for (uint32_t i = queue->first; i; i = i == queue->last ? 0 : all->copies[i].next) {
        struct copy *copy = &all->copies[i];

        if (!copy->moved && copy->bytes) {
            move_bytes(copy);
        } else if (!copy->moved) {
            copy->item = mbarrier_phase(copy->to);
            make_arrival(copy);
        }
        copy->moved = true;
    }
}

void smemkit_async_arrive(void *object, int more, const char *file, int line)
{
    struct worker *w = own_worker();

    mbarrier_add_pending(object, more != 0, file, line);
    if (w->tracer)
        smemkit_observer->copies_awaited(w, w->current); /* its accesses so far precede the arrival */
    append(w, (struct copy){.to = object, .file = file, .line = line});
    if (completes_early(w))
        arrive_early(w);
}

/* Whether this is an arrival at an object; with `made`, one that has been made in a phase that is complete. */
static bool is_arrival(const struct copy *copy, const void *object, bool made)
{
    return !copy->bytes && copy->to == object && (!made || (copy->moved && copy->item < mbarrier_phase(object)));
}

bool async_complete_for(struct worker *w, void *object, bool made)
{
    bool found = false;

    for (unsigned thread = 0; w->copies_pending && thread < w->count; thread++) {
        const struct async_copies *all = w->copies;
        unsigned arrivals = 0;

        for (uint32_t i = all->queues[thread].first; i;
             i = i == all->queues[thread].last ? 0 : all->copies[i].next)
            arrivals += is_arrival(&all->copies[i], object, made);
        found |= arrivals > 0;
        if (w->tracer && arrivals)
            smemkit_observer->copies_awaited(w, thread); /* its accesses so far precede the arrival */
        while (arrivals) {
            const struct copy *first = &all->copies[all->queues[thread].first];

            arrivals -= is_arrival(first, object, made);
            complete_oldest(w, thread);
        }
    }
    return found;
}

uint32_t async_group(const struct worker *w, unsigned thread)
{
    return w->copies ? w->copies->queues[thread].groups : 0;
}

bool async_is_in_flight(const struct worker *w, unsigned thread, uint32_t group)
{
    const struct async_copies *all = w->copies;

    for (uint32_t i = all ? all->queues[thread].first : 0; i;
         i = i == all->queues[thread].last ? 0 : all->copies[i].next)
        if (all->copies[i].bytes)
            return all->copies[i].group <= group;
    return false;
}

bool async_has_waited(const struct worker *w, unsigned thread, uint32_t group)
{
    return async_group(w, thread) > group && !async_is_in_flight(w, thread, group);
}

void smemkit_async_commit(void)
{
    struct worker *w = smemkit_worker;

    thread_copies(w)->queues[w->current].groups++;
}

void smemkit_async_wait(unsigned groups)
{
    struct worker *w = smemkit_worker;
    struct async_copies *all = thread_copies(w);
    struct queue *queue = &all->queues[w->current];

    if (w->tracer)
        smemkit_observer->copies_awaited(w, w->current);
    while (queue->first &&
           (queue->groups - all->copies[queue->first].group > groups || !all->copies[queue->first].bytes))
        complete_oldest(w, w->current);
}

/* Reports the copies of an exiting thread that neither it nor an mbarrier waits for. */
static void report_unfinished(struct worker *w, const struct queue *queue)
{
    const struct async_copies *all = w->copies;
    const struct copy *unfinished = NULL;
    char what[MESSAGE_BYTES];

    for (uint32_t i = queue->first; i; i = i == queue->last ? 0 : all->copies[i].next)
        if (!all->copies[i].bytes)
            unfinished = NULL; /* older copies arrive at an mbarrier */
        else if (!unfinished)
            unfinished = &all->copies[i];
    if (!unfinished)
        return;
    snprintf(what, sizeof what,
             "a thread exits without a wait for the asynchronous copy that it started at %.200s:%d",
             unfinished->file, unfinished->line);
    smemkit_observer->fault(w, KIND_LEAK, what, true, unfinished->file, unfinished->line, NULL, 0);
}

void async_finish(struct worker *w, unsigned thread)
{
    struct queue *queue = &w->copies->queues[thread];

    if (w->tracer && queue->first) {
        for (unsigned i = 0; i < w->count; i++) /* what others have read before it is complete */
            smemkit_observer->copies_awaited(w, i);
        report_unfinished(w, queue);
    }
    while (queue->first)
        complete_oldest(w, thread);
}
