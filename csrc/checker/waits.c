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

/* Whether the pass is the mistake: the wait returned at once, for the parity of the phase before. A thread that
 * fills a stage passes the first phase so, because the stage is free. */
static bool passed_too_early(const struct mbarrier_pass *pass, const struct access *access)
{
    return pass && pass->by_preceding && (access->kind == ACCESS_LOAD || pass->phase > 0);
}

void note_waits(struct tracer *t, struct checked_fault *fault, const struct access *first,
                const struct access *second)
{
    const struct mbarrier_pass *pass = pass_before(t, second), *other = pass_before(t, first);

    if (first->thread == second->thread && t->passes[second->thread % COPIES].position < first->position)
        pass = other = NULL; /* one thread's wait before both accesses is not the one between them */
    if (!passed_too_early(pass, second) && (passed_too_early(other, first) || (pass && pass->by_preceding)))
        pass = passed_too_early(other, first) ? other : NULL;
    if (pass && first->block == second->block && !(fault->pass.file && fault->pass.by_preceding))
        fault->pass = *pass;
    if (second->kind == ACCESS_LOAD && first->copied && second->thread < COPIES) {
        fault->unwaited |= async_is_in_flight(t->worker, second->thread, first->group);
        fault->waited |= async_has_waited(t->worker, second->thread, first->group);
    }
}
