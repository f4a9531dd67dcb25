/* The stacks of the workers' threads. They are in one range of address space, so that code can find out from its
 * stack pointer alone whether it runs in a kernel, and on which worker. */
#ifndef SMEMKIT_STACKS_H
#define SMEMKIT_STACKS_H

#include <stdint.h>

struct worker;
struct tracer;

static const uintptr_t STACK_REGION = (uintptr_t)512 << 20; /* bytes per worker */
static const uintptr_t STACKS_BYTES = (uintptr_t)256 * ((uintptr_t)512 << 20);

/* The start of a worker's region. */
struct stack_region {
    struct worker *worker;
    struct tracer *tracer; /* NULL unless the block is observed */
};

#pragma GCC visibility push(default)
extern char *smemkit_stacks;
#pragma GCC visibility pop

#endif
