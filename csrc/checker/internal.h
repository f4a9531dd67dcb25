/* What the files of the checker share, besides trace.h. */
#ifndef SMEMKIT_CHECKER_INTERNAL_H
#define SMEMKIT_CHECKER_INTERNAL_H

#include <pthread.h>

#include "trace.h"

struct shared_array;

enum {
    STATIC = 0, /* indices of `spans` */
    DYNAMIC = 1,
    RECENT = 2, /* and above: buffers in global memory, most recently used first */
    FIRST_SITES = 256,
    LAUNCH_FRAMES = 256 * 1024, /* bytes of the launching thread's stack that may hold the kernel's arguments */
    LOG_GAP = 192, /* bytes between two threads' logs, which would share cache sets at power-of-two distances */
    POISON = 0xFF, /* initial byte of shared memory: NaN and -1 */
};

/* Protects a launch's faults and sites, which all workers write. */
extern pthread_mutex_t trace_lock;

uint64_t mix(uint64_t x);

void add_site(struct trace *trace, const struct site *from);

/* Finds the array that contains the example's addresses. */
void name_example(struct tracer *t, struct site *site);

/* Counts one request: the lanes of `mask` access the tagged addresses; other entries are arbitrary. If it is
 * `unchecked`, checks it for races too. */
void count_request(struct tracer *t, uint32_t item, uint32_t context, uint32_t mask, const uint64_t *tagged,
                   bool unchecked, unsigned warp, unsigned position);

uint32_t *controls_of(const struct tracer *t, unsigned thread);

uint64_t *addresses_of(const struct tracer *t, unsigned thread);

void load_log_position(struct tracer *t, unsigned thread);

bool is_constant(uintptr_t address);

/* The library's variable that contains an address, or the gap between two variables. */
void find_data(const struct trace *trace, uintptr_t address, uintptr_t *start, uintptr_t *end);

/* Resets shared memory and its shadow for a block. */
void forget_shared(struct tracer *t, int space, const struct shared_array *array);

#endif
