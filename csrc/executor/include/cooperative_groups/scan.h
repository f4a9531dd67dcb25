/* cooperative_groups::inclusive_scan and exclusive_scan over a tile or over coalesced lanes */
#ifndef SMEMKIT_COOPERATIVE_GROUPS_SCAN_H
#define SMEMKIT_COOPERATIVE_GROUPS_SCAN_H

#include "../smemkit/functional.h"

namespace cooperative_groups
{

template <class T, class Operator>
SMEMKIT_NO_HOOKS T inclusive_scan(const smemkit_lanes &group, T value, Operator &&combine, SMEMKIT_HERE)
{
    const unsigned rank = group.rank(), count = group.count();
    T result = value;
    for (unsigned step = 1; step < count; step *= 2) {
        const T left = group.from(result, rank >= step ? rank - step : rank, file, line);
        if (rank >= step)
            result = combine(left, result);
    }
    return result;
}
template <class T>
SMEMKIT_NO_HOOKS T inclusive_scan(const smemkit_lanes &group, T value, SMEMKIT_HERE)
{
    return inclusive_scan(group, value, plus<T>(), file, line);
}

/* rank 0 gets a zero, as without an operator on the GPU */
template <class T, class Operator>
SMEMKIT_NO_HOOKS T exclusive_scan(const smemkit_lanes &group, T value, Operator &&combine, SMEMKIT_HERE)
{
    const unsigned rank = group.rank();
    const T all = inclusive_scan(group, value, combine, file, line);
    const T left = group.from(all, rank ? rank - 1 : 0, file, line);
    return rank ? left : T();
}
template <class T>
SMEMKIT_NO_HOOKS T exclusive_scan(const smemkit_lanes &group, T value, SMEMKIT_HERE)
{
    return exclusive_scan(group, value, plus<T>(), file, line);
}

} // namespace cooperative_groups

#endif
