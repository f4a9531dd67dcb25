/* What the threads of a race have waited for before it. */
#define _GNU_SOURCE
#include "shadow.h"

#include "executor/block.h"

/* The mbarrier wait that a thread has passed before an access, in the same barrier interval; NULL: none. */
static const struct mbarrier_pass *pass_before(const struct tracer *t, const struct access *access)
{
    const struct passed_wait *wait = &t->passes[access->thread % COPIES];
    const unsigned interval = 32 - INTERVAL_BITS;

    if (!wait->pass.file || access->block != t->block_number || wait->position > access->position ||
        wait->position >> interval != access->position >> interval)
        return NULL;
    return &wait->pass;
}

void note_waits(struct tracer *t, struct checked_fault *fault, const struct access *first,
                const struct access *second)
{
    const struct mbarrier_pass *pass = pass_before(t, second);

    if (!pass || !pass->by_preceding)
        pass = pass_before(t, first) && pass_before(t, first)->by_preceding ? pass_before(t, first) : pass;
    if (pass && first->block == second->block && !(fault->pass.file && fault->pass.by_preceding))
        fault->pass = *pass;
    if (second->kind == ACCESS_LOAD && first->copied && second->thread < COPIES) {
        fault->unwaited |= async_is_in_flight(t->worker, second->thread, first->group);
        fault->waited |= async_has_waited(t->worker, second->thread, first->group);
    }
}
