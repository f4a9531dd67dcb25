/* What asynchronous copies and mbarrier objects know of each other. */
#ifndef SMEMKIT_MBARRIER_H
#define SMEMKIT_MBARRIER_H

#include "block.h"
#include "ptx.h"

/* cp.async.mbarrier.arrive: there must be an object; without .noinc, its phase expects one arrival more. */
void mbarrier_expect(void *object, unsigned more, const char *file, int line);

/* "the thread waits at k.cu:20 for phase 1 (parity 1) of an mbarrier, which still expects 2 of 64 arrivals" */
void mbarrier_describe(const struct mbarrier_wait *, char *text, size_t length);

/* The number of an object's phase. */
uint32_t mbarrier_phase(const void *object);

/* Completes the copies that are to arrive at an object, and their arrivals: all, or those that have been `made` in
 * phases that are complete. False if there are none. (async.c) */
bool async_complete_for(struct worker *, void *object, bool made);

#endif
