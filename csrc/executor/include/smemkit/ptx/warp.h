/* Votes, shuffles and barriers of PTX that the dialect's own functions do not have. */
#ifndef SMEMKIT_PTX_WARP_H
#define SMEMKIT_PTX_WARP_H

#include "registers.h"

namespace smemkit
{

SMEMKIT_INLINE bool ptx_uniform(uint64_t mask, bool predicate, SMEMKIT_HERE)
{
    const unsigned votes = __ballot_sync((unsigned)mask, predicate, file, line);
    return votes == 0 || votes == __ballot_sync((unsigned)mask, 1, file, line);
}
template <class T>
SMEMKIT_INLINE uint32_t ptx_match_all(uint64_t mask, uint64_t value, bool *all, SMEMKIT_HERE)
{
    int same;
    const unsigned lanes = __match_all_sync((unsigned)mask, (T)value, &same, file, line);
    if (all)
        *all = same;
    return lanes;
}
/* the lane with the lowest number is elected; the hardware may elect another one */
SMEMKIT_INLINE uint32_t ptx_elect(uint64_t mask, bool *elected, SMEMKIT_HERE)
{
    const unsigned lanes = __ballot_sync((unsigned)mask, 1, file, line);
    const int leader = __builtin_ctz(lanes);
    if (elected)
        *elected = lane() == leader;
    return (uint32_t)leader;
}
/* bar.red of the whole block, by the barrier of __syncthreads */
SMEMKIT_INLINE uint32_t ptx_barrier_count(uint64_t barrier, bool predicate, SMEMKIT_HERE)
{
    if (barrier != 0)
        smemkit_trap("bar.red at a barrier other than 0, which the CPU device lacks", file, line);
    return (uint32_t)smemkit_barrier(predicate, file, line);
}

/* Clusters. An address of the shared window, or a generic one, in the block of this rank */
SMEMKIT_INLINE uint64_t ptx_map_window(uint64_t address, uint64_t rank, SMEMKIT_HERE)
{
    return smemkit_to_shared(smemkit_cluster_map(ptx_at_shared(address), (unsigned)rank, file, line));
}
SMEMKIT_INLINE uint64_t ptx_map_address(uint64_t address, uint64_t rank, SMEMKIT_HERE)
{
    return (uint64_t)smemkit_cluster_map(ptx_at_generic(address), (unsigned)rank, file, line);
}
SMEMKIT_INLINE void ptx_cluster_arrive(bool aligned, bool releases, SMEMKIT_HERE)
{
    smemkit_cluster_arrive(aligned, releases, file, line);
}
SMEMKIT_INLINE void ptx_cluster_wait(bool aligned, SMEMKIT_HERE)
{
    smemkit_cluster_wait(aligned, file, line);
}

} // namespace smemkit

#endif
