/* PTX's mbarrier objects of one block. (PTX ISA, "Parallel Synchronization and Communication Instructions:
 * mbarrier")
 *
 * The object is one word: the arrivals that the phase still expects, those that each phase expects, the number of
 * the phase, and a mark that distinguishes an initialised object from other memory, all zeros or ones. A phase is
 * complete when nothing is pending; the next one begins at once.
 *
 * The worker remembers where the objects of its block were initialised and invalidated, so that a second init can
 * be distinguished from the first one, and a use after inval from one before init.
 */
#define _GNU_SOURCE
#include "mbarrier.h"

#include <stdio.h>

#include "bulk.h"
#include "cluster.h"
#include "schedule.h"

enum { COUNT_BITS = 20, PHASE_SHIFT = 2 * COUNT_BITS };

static const uint64_t COUNT = (UINT64_C(1) << COUNT_BITS) - 1, MARKS = UINT64_C(3) << 62, MARK = UINT64_C(2) << 62;

static uint64_t pending(uint64_t word)
{
    return word & COUNT;
}

static uint64_t expected(uint64_t word)
{
    return word >> COUNT_BITS & COUNT;
}

static uint64_t phase(uint64_t word)
{
    return (word & ~MARKS) >> PHASE_SHIFT;
}

static uint64_t make_word(uint64_t pending, uint64_t expected, uint64_t phase)
{
    return MARK | (phase << PHASE_SHIFT & ~MARKS) | expected << COUNT_BITS | pending;
}

static uint64_t *word_at(void *address)
{
    return address;
}

/* What is known of the last object at an address; NULL: none of this block, or long ago. */
static struct mbarrier_record *record_at(struct worker *w, const void *object)
{
    const unsigned known = w->mbarriers < MBARRIER_RECORDS ? w->mbarriers : MBARRIER_RECORDS;

    for (unsigned i = 0; i < known; i++)
        if (w->mbarrier_records[i].object == object)
            return &w->mbarrier_records[i];
    return NULL;
}

static void describe_thread(const struct worker *w, unsigned thread, char *text, size_t length)
{
    const struct index3 *t = &w->indices[thread];

    snprintf(text, length, "thread (%u, %u, %u)", t->x, t->y, t->z);
}

static bool is_object(const void *object)
{
    return (uintptr_t)object % 8 == 0 && (*(const uint64_t *)object & MARKS) == MARK;
}

/* Aborts the launch: there is no object here, or not any more. */
static void reject(struct worker *, const void *object, const char *instruction, const char *file, int line)
    __attribute__((noreturn));
static void reject(struct worker *w, const void *object, const char *instruction, const char *file, int line)
{
    struct worker *owner = cluster_owner(w, object);
    const struct mbarrier_record *record = record_at(owner ? owner : w, object);
    const struct thread_location *other = !record                    ? NULL
                                          : record->invalidated.file ? &record->invalidated
                                                                     : &record->initialised;
    const bool misaligned = (uintptr_t)object % 8;
    char what[MESSAGE_BYTES], by[64];

    if (misaligned || !other) {
        snprintf(what, sizeof what, "%s of an %s at %.200s:%d", instruction,
                 misaligned ? "address that is not a multiple of 8" : "mbarrier that is not initialised", file,
                 line);
        worker_fail(w, misaligned ? KIND_MISALIGNED : KIND_BARRIER, what, file, line);
    }
    describe_thread(w, other->thread, by, sizeof by);
    if (!other->line) {
        if (line)
            snprintf(what, sizeof what, "%s at %.200s:%d of a cuda::barrier that %s has destroyed", instruction,
                     file, line, by);
        else
            snprintf(what, sizeof what, "a second ~barrier of a cuda::barrier that %s has destroyed", by);
        worker_fail(w, KIND_BARRIER, what, file, line);
    }
    snprintf(what, sizeof what,
             other == &record->invalidated
                 ? "%s at %.200s:%d of an mbarrier that %s has invalidated at %.200s:%d"
                 : "%s at %.200s:%d of an mbarrier whose memory has been overwritten since %s initialised it at "
                   "%.200s:%d",
             instruction, file, line, by, other->file, other->line);
    worker_fail_beside(w, KIND_BARRIER, what, file, line, other->file, other->line);
}

/* Returns the object's word. Aborts the launch if there is no object. */
static uint64_t checked_word(const void *object, const char *instruction, const char *file, int line)
{
    smemkit_mbarrier_await_init(object, file, line);
    if (!is_object(object))
        reject(own_worker(), object, instruction, file, line);
    return *(const uint64_t *)object;
}

uint64_t smemkit_mbarrier_word(unsigned count, const char *file, int line)
{
    char what[MESSAGE_BYTES];

    if (count >= 1 && count <= COUNT)
        return make_word(count, count, 0);
    snprintf(what, sizeof what, "mbarrier.init for %u arrivals, not 1 to %u, at %.200s:%d", count, (unsigned)COUNT,
             file, line);
    worker_fail(own_worker(), KIND_BARRIER, what, file, line);
}

/* Aborts the launch: the memory of a new object is misaligned, or holds an object. */
static void check_address(struct worker *w, const void *object, const struct mbarrier_record *record,
                          const char *file, int line)
{
    char what[MESSAGE_BYTES], by[64];

    if ((uintptr_t)object % 8) {
        snprintf(what, sizeof what, "mbarrier.init of an address that is not a multiple of 8 at %.200s:%d", file,
                 line);
        worker_fail(w, KIND_MISALIGNED, what, file, line);
    }
    if (record && !record->invalidated.file) {
        describe_thread(w, record->initialised.thread, by, sizeof by);
        snprintf(what, sizeof what,
                 "mbarrier.init at %.200s:%d of an mbarrier that %s has initialised at %.200s:%d, without "
                 "mbarrier.inval in between",
                 file, line, by, record->initialised.file, record->initialised.line);
        worker_fail_beside(w, KIND_BARRIER, what, file, line, record->initialised.file, record->initialised.line);
    }
}

void smemkit_mbarrier_init(void *object, unsigned count, const char *file, int line)
{
    struct worker *w = own_worker();
    struct mbarrier_record *record = record_at(w, object);

    check_address(w, object, record, file, line);
    *word_at(object) = smemkit_mbarrier_word(count, file, line);
    bulk_forget_object(w, object);
    if (!record)
        record = &w->mbarrier_records[w->mbarriers++ % MBARRIER_RECORDS];
    *record = (struct mbarrier_record){object, {file, line, w->current}, {0}};
    for (unsigned i = 0; i < w->count; i++) {
        if (w->waiting[i].reason == WAIT_INIT && w->waiting[i].value == (uintptr_t)object)
            set_ready(w, i);
        if (w->mbarrier_arrivals[i].object == object)
            w->mbarrier_arrivals[i].object = NULL;
    }
}

/* A kernel that does not order the use after the init is wrong, whichever comes first. The checker is to see the
 * init first in either case, because then it finds a race, with both lines. */
void smemkit_mbarrier_await_init(const void *object, const char *file, int line)
{
    struct worker *w = own_worker();
    const unsigned me = w->current;

    if ((uintptr_t)object % 8 || is_object(object) || record_at(w, object) || cluster_owner(w, object) != w)
        return;
    w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_INIT, .value = (uintptr_t)object};
    clear_ready(w, me);
    yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
}

void smemkit_mbarrier_inval(void *object, const char *file, int line)
{
    struct worker *w = own_worker();
    struct mbarrier_record *record;

    checked_word(object, "mbarrier.inval", file, line);
    *word_at(object) = 0;
    bulk_forget_object(w, object);
    record = record_at(w, object);
    if (record)
        record->invalidated = (struct thread_location){file, line, w->current};
}

uint32_t mbarrier_phase(const void *object)
{
    return (uint32_t)phase(*(const uint64_t *)object);
}

void mbarrier_add_pending(void *object, unsigned more, const char *file, int line)
{
    const uint64_t word = checked_word(object, "cp.async.mbarrier.arrive", file, line);
    char what[MESSAGE_BYTES];

    if (pending(word) + more > COUNT) {
        snprintf(what, sizeof what,
                 "cp.async.mbarrier.arrive at %.200s:%d at an mbarrier whose phase expects %u arrivals, the "
                 "maximum, to which it would add one; .noinc adds none",
                 file, line, (unsigned)pending(word));
        worker_fail(own_worker(), KIND_BARRIER, what, file, line);
    }
    *word_at(object) = make_word(pending(word) + more, expected(word), phase(word));
}

uint64_t mbarrier_checked_phase(const void *object, const char *instruction, const char *file, int line)
{
    return phase(checked_word(object, instruction, file, line));
}

bool mbarrier_lacks_bytes(const void *object)
{
    return pending(*(const uint64_t *)object) == 0;
}

void mbarrier_settle(void *object)
{
    const uint64_t word = *word_at(object);

    if (pending(word) == 0 && !bulk_is_open(own_worker(), object))
        *word_at(object) = make_word(expected(word), expected(word), phase(word) + 1);
}

uint64_t smemkit_mbarrier_arrive(void *object, unsigned count, unsigned dropped, int incomplete, int *refused)
{
    const bool valid = is_object(object);
    const uint64_t word = valid ? *word_at(object) : 0;
    const uint64_t left = pending(word) - count, later = expected(word) - dropped;

    *refused = !valid || count == 0 || count > pending(word) || (incomplete && left == 0);
    if (*refused)
        return word;
    *word_at(object) = make_word(left, later, phase(word));
    if (own_worker()->tracer)
        own_worker()->mbarrier_arrivals[own_worker()->current] = (struct mbarrier_arrival){object, phase(word)};
    mbarrier_settle(object);
    note_change(own_worker());
    return word;
}

void smemkit_mbarrier_refuse(void *object, unsigned count, const char *file, int line)
{
    struct worker *w = own_worker();
    char what[MESSAGE_BYTES];
    uint64_t word;

    if (!is_object(object))
        reject(w, object, "mbarrier.arrive", file, line);
    word = *word_at(object);
    if (count == pending(word))
        snprintf(what, sizeof what, "mbarrier.arrive.noComplete at %.200s:%d completes the phase", file, line);
    else
        snprintf(what, sizeof what, "%u arrival%s at %.200s:%d at an mbarrier whose phase still expects %u of %u",
                 count, count == 1 ? "" : "s", file, line, (unsigned)pending(word), (unsigned)expected(word));
    worker_fail(w, KIND_BARRIER, what, file, line);
}

/* Reports a try of the running thread to the observer. Returns whether it fails again, and the observer need not
 * be told of its access. */
static bool note_try(struct worker *w, const void *object, bool complete, bool parity, const char *file, int line)
{
    const struct mbarrier_wait *failed = &w->failed_waits[w->current];
    const struct mbarrier_arrival *arrival = &w->mbarrier_arrivals[w->current];
    const uint64_t word = *(const uint64_t *)object;
    const bool late = failed->file && failed->object == object;
    const bool arrived = arrival->object == object && arrival->phase == phase(word);

    const bool idle = smemkit_observer->mbarrier_tried(w, file, line, complete);

    if (!complete && !late)
        smemkit_observer->mbarrier_failed(w);
    if (complete)
        smemkit_observer->mbarrier_passed(w, &(struct mbarrier_pass){.file = file,
                                                                     .line = line,
                                                                     .expected = (unsigned)expected(word),
                                                                     .phase = phase(word),
                                                                     .late = late,
                                                                     .by_preceding = parity && !late && arrived});
    return idle && !complete && late && failed->file == file && failed->line == line;
}

int smemkit_mbarrier_is_complete(void *object, uint64_t state, int parity, const char *file, int line)
{
    struct worker *w = own_worker();
    uint64_t word = checked_word(object, "a wait", file, line);
    const uint64_t waited = parity ? state & 1 : phase(state);
    bool idle = false;

    bool complete = (parity ? phase(word) & 1 : phase(word)) != waited;

    if (complete && w->copies_pending)
        async_complete_for(w, object, true);
    if (!complete && (async_complete_for(w, object, false) | bulk_complete_for(w, object))) {
        word = *word_at(object);
        complete = (parity ? phase(word) & 1 : phase(word)) != waited;
    }
    if (complete && w->bulk_used)
        bulk_observed(w, object);
    if (w->tracer)
        idle = note_try(w, object, complete, parity, file, line);
    w->failed_waits[w->current] = (struct mbarrier_wait){complete ? NULL : file, line, word_at(object)};
    w->waits_failed |= !complete;
    return idle ? -1 : complete;
}

void mbarrier_describe(const struct mbarrier_wait *wait, char *text, size_t length)
{
    const uint64_t word = *wait->object;
    const unsigned long long now = phase(word);
    char bytes[120] = "";

    bulk_describe(smemkit_worker, wait->object, bytes, sizeof bytes);
    snprintf(
        text, length,
        "the thread waits at %.200s:%d for phase %llu (parity %llu) of an mbarrier, which still expects %u of "
        "%u arrivals%s",
        wait->file, wait->line, now, now & 1, (unsigned)pending(word), (unsigned)expected(word), bytes);
}

unsigned smemkit_mbarrier_pending(uint64_t state)
{
    return (unsigned)pending(state);
}
