/* PTX's mbarrier objects of one block. (PTX ISA, "Parallel Synchronization and Communication Instructions:
 * mbarrier")
 *
 * The object is one word: the arrivals that the phase still expects, those that each phase expects, the number of
 * the phase, and a bit that tells an initialised object from other memory. A phase is complete when nothing is
 * pending; the next one begins at once.
 */
#define _GNU_SOURCE
#include "mbarrier.h"

#include <stdio.h>

#include "bulk.h"

#include "schedule.h"

enum { COUNT_BITS = 20, PHASE_SHIFT = 2 * COUNT_BITS };

static const uint64_t COUNT = (UINT64_C(1) << COUNT_BITS) - 1, VALID = UINT64_C(1) << 63;

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
    return (word & ~VALID) >> PHASE_SHIFT;
}

static uint64_t make_word(uint64_t pending, uint64_t expected, uint64_t phase)
{
    return VALID | (phase << PHASE_SHIFT & ~VALID) | expected << COUNT_BITS | pending;
}

static uint64_t *word_at(void *address)
{
    return address;
}

/* Returns the object's word. Aborts the launch if there is no object. */
static uint64_t checked_word(const void *object, const char *instruction, const char *file, int line)
{
    const uint64_t word = (uintptr_t)object % 8 ? 0 : *(const uint64_t *)object;
    char what[MESSAGE_BYTES];

    if (word & VALID)
        return word;
    if ((uintptr_t)object % 8)
        snprintf(what, sizeof what, "%s of an address that is not a multiple of 8 at %.200s:%d", instruction, file,
                 line);
    else
        snprintf(what, sizeof what, "%s of an mbarrier that is not initialised at %.200s:%d", instruction, file,
                 line);
    worker_fail(own_worker(), (uintptr_t)object % 8 ? KIND_MISALIGNED : KIND_BARRIER, what, file, line);
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

void mbarrier_expect_more(void *object, const char *file, int line)
{
    const uint64_t word = checked_word(object, "cp.async.mbarrier.arrive", file, line);

    *word_at(object) = make_word(pending(word) + 1, expected(word), phase(word));
}

uint64_t mbarrier_phase(const void *object, const char *instruction, const char *file, int line)
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
    const uint64_t word = (uintptr_t)object % 8 ? 0 : *word_at(object);
    const uint64_t left = pending(word) - count, later = expected(word) - dropped;

    *refused = !(word & VALID) || count == 0 || count > pending(word) || (incomplete && left == 0);
    if (*refused)
        return word;
    *word_at(object) = make_word(left, later, phase(word));
    mbarrier_settle(object);
    note_change(own_worker());
    return word;
}

void smemkit_mbarrier_refuse(void *object, unsigned count, const char *file, int line)
{
    const uint64_t word = checked_word(object, "mbarrier.arrive", file, line);
    char what[MESSAGE_BYTES];

    if (count == pending(word))
        snprintf(what, sizeof what, "mbarrier.arrive.noComplete at %.200s:%d completes the phase", file, line);
    else
        snprintf(what, sizeof what,
                 "%u arrivals at %.200s:%d at an mbarrier whose phase still expects %u of %u arrivals", count,
                 file, line, (unsigned)pending(word), (unsigned)expected(word));
    worker_fail(own_worker(), KIND_BARRIER, what, file, line);
}

int smemkit_mbarrier_is_complete(void *object, uint64_t state, int parity, const char *file, int line)
{
    struct worker *w = own_worker();
    uint64_t word = checked_word(object, "a wait", file, line);
    const uint64_t waited = parity ? state & 1 : phase(state);

    bool complete = (parity ? phase(word) & 1 : phase(word)) != waited;

    if (!complete && (async_complete_for(w, object) | bulk_complete_for(w, object))) {
        word = *word_at(object);
        complete = (parity ? phase(word) & 1 : phase(word)) != waited;
    }
    if (complete && w->bulk_used)
        bulk_observed(w, object);
    w->failed_waits[w->current] = (struct mbarrier_wait){complete ? NULL : file, line, word_at(object)};
    w->waits_failed |= !complete;
    return complete;
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
