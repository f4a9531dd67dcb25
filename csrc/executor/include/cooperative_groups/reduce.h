/* cooperative_groups::reduce over a tile or over coalesced lanes */
#ifndef SMEMKIT_COOPERATIVE_GROUPS_REDUCE_H
#define SMEMKIT_COOPERATIVE_GROUPS_REDUCE_H

#include "../smemkit/functional.h"

namespace cooperative_groups
{

/* In each step every rank that is a multiple of 2 * step combines two adjacent ranges of step values; at the end
 * rank 0 has combined all, in order. */
template <class T, class Operator>
SMEMKIT_NO_HOOKS T reduce(const smemkit_lanes &group, T value, Operator &&combine, SMEMKIT_HERE)
{
    const unsigned rank = group.rank(), count = group.count();
    T result = value;
    for (unsigned step = 1; step < count; step *= 2) {
        const unsigned other = rank + step < count ? rank + step : rank;
        const T right = group.from(result, other, file, line);
        if (rank % (2 * step) == 0 && other != rank)
            result = combine(result, right);
    }
    return group.from(result, 0, file, line);
}

template <class T, class Operator>
std::decay_t<T> reduce(const thread_block &, T &&, Operator &&)
    SMEMKIT_UNAVAILABLE("reduce takes a tile or a coalesced group, not a block");

template <class Group, class Atomic, class T, class Operator>
void reduce_update_async(const Group &, Atomic &, T &&, Operator &&)
    SMEMKIT_UNAVAILABLE("reduce_update_async does not run on the CPU device; use reduce, and an atomic by rank 0");
template <class Group, class Atomic, class T, class Operator>
void reduce_store_async(const Group &, Atomic &, T &&, Operator &&)
    SMEMKIT_UNAVAILABLE("reduce_store_async does not run on the CPU device; use reduce, and a store by rank 0");

} // namespace cooperative_groups

#endif
