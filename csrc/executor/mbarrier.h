/* What asynchronous copies and mbarrier objects know of each other. */
#ifndef SMEMKIT_MBARRIER_H
#define SMEMKIT_MBARRIER_H

#include "block.h"
#include "ptx.h"

/* A wait for an mbarrier that a thread has passed. */
struct mbarrier_pass {
    const char *file;
    int line;
    unsigned expected; /* arrivals in a phase */
    uint64_t phase;    /* which the object is in */
    bool late;         /* an earlier try has failed */
    bool by_preceding; /* it waited for the parity of the phase before, though it has arrived in this one: the wait
                          returned at once */
};

/* cp.async.mbarrier.arrive: there must be an object; without .noinc, its phase expects one arrival more. */
void mbarrier_add_pending(void *object, unsigned more, const char *file, int line);

/* "the thread waits at k.cu:20 for phase 1 (parity 1) of an mbarrier, which still expects 2 of 64 arrivals" */
void mbarrier_describe(const struct mbarrier_wait *, char *text, size_t length);

/* The number of an object's phase. Aborts the launch, in the name of `instruction`, if there is no object. */
uint64_t mbarrier_checked_phase(const void *object, const char *instruction, const char *file, int line);
/* Whether the phase has all its arrivals, so that it waits for bytes. */
bool mbarrier_lacks_bytes(const void *object);
/* Completes the phase if it waits for neither arrivals nor bytes. */
void mbarrier_settle(void *object);

/* The number of an object's phase. */
uint32_t mbarrier_phase(const void *object);

/* Of a thread's asynchronous copies: the group of the next one; whether one of this group, or of an earlier one,
 * is in flight; whether it has waited for this group. (async.c) */
uint32_t async_group(const struct worker *, unsigned thread);
bool async_is_in_flight(const struct worker *, unsigned thread, uint32_t group);
bool async_has_waited(const struct worker *, unsigned thread, uint32_t group);

/* Completes the copies that are to arrive at an object, and their arrivals: all, or those that have been `made` in
 * phases that are complete. False if there are none. (async.c) */
bool async_complete_for(struct worker *, void *object, bool made);

#endif
