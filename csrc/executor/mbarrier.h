/* What asynchronous copies and mbarrier objects know of each other. */
#ifndef SMEMKIT_MBARRIER_H
#define SMEMKIT_MBARRIER_H

#include "block.h"
#include "ptx.h"

/* cp.async.mbarrier.arrive without .noinc: the phase expects one arrival more. */
void mbarrier_expect_more(void *object, const char *file, int line);

/* Completes the copies that are to arrive at an object, and their arrivals. False if there are none. (async.c) */
bool async_complete_for(struct worker *, void *object);

#endif
