/* A launch that begins before the one before it has run: see early.c. */
#ifndef SMEMKIT_EARLY_H
#define SMEMKIT_EARLY_H

#include "block.h"

/* No thread of the block, and of its cluster, can run: if some wait for the earlier launch, waits until it has
 * ended, and releases them. Returns false if none does. */
bool early_await(struct worker *);

/* A thread of the block lets others run. After many such turns the block waits until the earlier launch has ended:
 * what it spins for may come from a thread, of any block, which waits for that. */
void early_turn(struct worker *);

#endif
