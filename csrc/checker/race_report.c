/* How a race is reported: which of its accesses is named first, and what its threads had waited for before. */
#define _GNU_SOURCE
#include "shadow.h"

#include <string.h>

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

/* Records what the threads have waited for: an mbarrier, or, for a reader, its own copies of the group. */
static void note_waits(struct tracer *t, struct checked_fault *fault, const struct access *first,
                       const struct access *second)
{
    const struct mbarrier_pass *pass = pass_before(t, second);

    if (!pass || !pass->by_preceding)
        pass = pass_before(t, first) && pass_before(t, first)->by_preceding ? pass_before(t, first) : pass;
    if (pass && first->block == second->block && !(fault->pass.file && fault->pass.by_preceding))
        fault->pass = *pass;
    if (second->kind == ACCESS_LOAD && first->copied && second->thread < COPIES && first->block == second->block) {
        fault->unwaited |= async_is_in_flight(t->worker, second->thread, first->group);
        fault->waited |= async_has_waited(t->worker, second->thread, first->group);
    }
}

void block_index(const unsigned grid[3], uint32_t block, unsigned *index)
{
    const uint32_t number = block - 1, columns = grid[0], rows = grid[1];

    index[0] = number % columns;
    index[1] = number / columns % rows;
    index[2] = number / columns / rows;
}

/* Whether it is an access of wgmma. */
static bool multiplies(const struct access *access)
{
    return access->multiplies || access->thread >= MULTIPLICATIONS;
}

/* Whether the report names `now` first. Within a block or a cluster the report follows the kernel's order, not the
 * executor's, except for wgmma, whose warps wait for each other at mbarriers. Between other blocks, a block that
 * waits for another one takes any number of steps, so the report follows the order of the code. A copy takes its
 * thread one step more than a read: of two accesses at almost the same position, the copy is named first. */
static bool comes_first(const struct tracer *t, const struct access *now, const struct access *earlier)
{
    const int64_t ahead = (int64_t)earlier->position - now->position;

    if (multiplies(now) || multiplies(earlier))
        return false;
    if (now->block != earlier->block && !t->worker->in_cluster)
        return earlier->item > now->item;
    if (earlier->copied && now->kind == ACCESS_LOAD && ahead == 1)
        return false;
    return ahead > 0;
}

void report_race(struct tracer *t, const struct access *now, const struct access *earlier)
{
    const bool swapped = comes_first(t, now, earlier);
    const struct access *first = swapped ? now : earlier, *second = swapped ? earlier : now;
    const enum hazard hazard = second->kind == ACCESS_LOAD  ? HAZARD_RAW
                               : first->kind == ACCESS_LOAD ? HAZARD_WAR
                                                            : HAZARD_WAW;
    const struct code_location here = {.item = second->item, .context = second->context};
    const struct code_location other = {.item = first->item, .context = first->context};
    struct checked_fault *fault = trace_fault(t, KIND_RACE, here, other, hazard);
    const bool copies = now->async || earlier->async, incoherent = now->read_only || earlier->read_only;
    const bool same_warp =
        first->block == second->block && first->thread / 32 == second->thread / 32 && !copies && !incoherent;
    const bool same_thread = first->block == second->block && first->thread == second->thread;
    const bool within = fault && memcmp(fault->block, fault->other_block, sizeof fault->block) == 0;

    /* a pair of different warps, or of different blocks, is the better example */
    if (fault && (fault->count == 1 || (fault->warp_synchronous && !same_warp) ||
                  (within && first->block != second->block))) {
        const struct index3 *a = &t->worker->indices[second->thread % COPIES];
        const struct index3 *b = &t->worker->indices[first->thread % COPIES];

        fault->threads = 2;
        memcpy(fault->thread[0], a, sizeof fault->thread[0]);
        memcpy(fault->thread[1], b, sizeof fault->thread[1]);
        block_index(t->trace->grid, second->block, fault->block);
        block_index(t->trace->grid, first->block, fault->other_block);
        fault->access = second->kind;
        fault->other_access = first->kind;
        fault->warp_synchronous = same_warp;
        fault->async = copies;
        fault->copy = second->async || second->copied;
        fault->other_copy = first->async;
        fault->multiplies = multiplies(second);
        fault->other_multiplies = multiplies(first);
        fault->size = (int)now->size;
        trace_name(t, fault, now->address, now->space);
    }
    if (fault) {
        note_waits(t, fault, first, second);
        fault->incoherent |= incoherent;
        if (incoherent) /* a thread that itself loads and later stores gets the right value on today's GPUs */
            fault->doubtful = same_thread && hazard == HAZARD_WAR && (fault->count == 1 || fault->doubtful);
    }
    trace_fault_done();
}
