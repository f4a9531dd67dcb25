/* mbarrier of PTX, in the shared memory of one block. An arrival releases, a wait that succeeds acquires, unless
 * they are relaxed. The executor has the object's word: csrc/executor/mbarrier.c. */
#ifndef SMEMKIT_PTX_MBARRIER_H
#define SMEMKIT_PTX_MBARRIER_H

#include "registers.h"

namespace smemkit
{

/* init and inval are stores: other threads need a barrier before they may use the object */
SMEMKIT_INLINE void mbarrier_init(void *at, uint64_t count, const void *pc, const char *file, int line)
{
    report_object(at, pc);
    smemkit_mbarrier_init(at, (unsigned)count, file, line);
}
SMEMKIT_INLINE void mbarrier_inval(void *at, const void *pc, const char *file, int line)
{
    report_object(at, pc);
    smemkit_mbarrier_inval(at, file, line);
}
SMEMKIT_INLINE void ptx_mbarrier_init(char *at, uint64_t count, SMEMKIT_HERE)
{
    mbarrier_init(at, count, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE void ptx_mbarrier_inval(char *at, SMEMKIT_HERE)
{
    mbarrier_inval(at, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE uint64_t mbarrier_arrive(void *at, uint64_t count, uint64_t dropped, bool incomplete,
                                        const void *pc, const char *file, int line, bool releases = true)
{
    int refused;
    smemkit_mbarrier_await_init(at, file, line);
    before_atomic(at, 8, pc);
    const uint64_t state = smemkit_mbarrier_arrive(at, (unsigned)count, (unsigned)dropped, incomplete, &refused);
    after_atomic(at, 8, true, releases ? RELEASE : RELAXED);
    if (refused) /* only now: the checker holds a lock around an atomic */
        smemkit_mbarrier_refuse(at, (unsigned)count, file, line);
    smemkit_tick(1);
    return state;
}
/* Whether an arrival releases. `own_block`: the instruction says .cta; then it does not release to those who wait
 * for another block's mbarrier. PTX takes .cta if there is no scope, too; but CUTLASS and others write arrivals
 * without one and rely on .cluster: those release. Likewise for a wait. */
SMEMKIT_INLINE bool arrival_releases(const void *at, bool relaxed, bool own_block)
{
    return !relaxed && !(own_block && smemkit_cluster_rank_of(at) != smemkit_cluster_rank());
}
SMEMKIT_INLINE uint64_t ptx_mbarrier_arrive(char *at, uint64_t count, uint64_t dropped, bool incomplete,
                                            bool relaxed, bool own_block, SMEMKIT_HERE)
{
    return mbarrier_arrive(at, count, dropped, incomplete, SMEMKIT_PC, file, line,
                           arrival_releases(at, relaxed, own_block));
}
/* A use of the object that orders nothing. The executor checks it first: the checker holds a lock around it. */
SMEMKIT_INLINE void mbarrier_relaxed_use(void *at, const void *pc)
{
    before_atomic(at, 8, pc);
    after_atomic(at, 8, true, RELAXED);
}
SMEMKIT_INLINE void mbarrier_expect(void *at, uint64_t bytes, const void *pc, const char *file, int line)
{
    smemkit_mbarrier_expect(at, bytes, file, line);
    mbarrier_relaxed_use(at, pc);
}
/* expects `bytes` more, and arrives */
SMEMKIT_INLINE uint64_t mbarrier_arrive_expect(void *at, uint64_t bytes, const void *pc, const char *file,
                                               int line, bool releases = true)
{
    smemkit_mbarrier_expect(at, bytes, file, line);
    return mbarrier_arrive(at, 1, 0, false, pc, file, line, releases);
}
SMEMKIT_INLINE uint64_t ptx_mbarrier_arrive_expect(char *at, uint64_t bytes, bool relaxed, bool own_block,
                                                   SMEMKIT_HERE)
{
    return mbarrier_arrive_expect(at, bytes, SMEMKIT_PC, file, line, arrival_releases(at, relaxed, own_block));
}
SMEMKIT_INLINE void ptx_mbarrier_expect(char *at, uint64_t bytes, SMEMKIT_HERE)
{
    mbarrier_expect(at, bytes, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE void ptx_mbarrier_complete(char *at, uint64_t bytes, SMEMKIT_HERE)
{
    smemkit_mbarrier_complete(at, bytes, file, line);
    mbarrier_relaxed_use(at, SMEMKIT_PC);
}
/* What a wait acquires. `own_block`: the instruction says .cta */
SMEMKIT_INLINE constexpr order wait_order(bool relaxed, bool own_block)
{
    return relaxed ? RELAXED : own_block ? ACQUIRE_OF_BLOCK : ACQUIRE;
}
SMEMKIT_INLINE bool mbarrier_is_complete(void *at, uint64_t state, bool parity, const void *pc, const char *file,
                                         int line, order acquires = ACQUIRE)
{
    const int complete = smemkit_mbarrier_is_complete(at, state, parity, file, line);
    if (complete >= 0) {
        before_atomic(at, 8, pc);
        after_atomic(at, 8, false, complete ? acquires : FAILED_WAIT);
    } else {
        try_again(pc);
    }
    smemkit_tick(0);
    return complete > 0;
}
SMEMKIT_INLINE bool ptx_mbarrier_test_wait(char *at, uint64_t state, order acquires, SMEMKIT_HERE)
{
    return mbarrier_is_complete(at, state, false, SMEMKIT_PC, file, line, acquires);
}
SMEMKIT_INLINE bool ptx_mbarrier_test_wait_parity(char *at, uint64_t parity, order acquires, SMEMKIT_HERE)
{
    return mbarrier_is_complete(at, parity, true, SMEMKIT_PC, file, line, acquires);
}
SMEMKIT_INLINE uint32_t ptx_mbarrier_pending_count(uint64_t state)
{
    return smemkit_mbarrier_pending(state);
}
SMEMKIT_INLINE void ptx_copy_async_arrive(char *at, bool no_increment, SMEMKIT_HERE)
{
    smemkit_async_arrive(at, !no_increment, file, line);
}

} // namespace smemkit

#endif
