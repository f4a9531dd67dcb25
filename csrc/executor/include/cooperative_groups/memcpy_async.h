/* cooperative_groups::memcpy_async: all threads of a group copy together, and wait together. */
#ifndef SMEMKIT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define SMEMKIT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include <cooperative_groups.h>

#include "../smemkit/async.h"

namespace cooperative_groups
{

/* Each call makes one group of copies. */
template <class Group, class To, class From, class Bytes>
SMEMKIT_INLINE void memcpy_async(const Group &group, To *to, const From *from, const Bytes &bytes, SMEMKIT_HERE)
{
    smemkit::copy_async((unsigned)group.thread_rank(), (unsigned)group.size(), to, from, (size_t)bytes, SMEMKIT_PC,
                        file, line);
    smemkit_async_commit();
}
/* layouts: numbers of elements; the smaller one is copied */
template <class Group, class T, class ToLayout, class FromLayout,
          class = std::enable_if_t<std::is_convertible_v<FromLayout, size_t>>>
SMEMKIT_INLINE void memcpy_async(const Group &group, T *to, const ToLayout &to_layout, const T *from,
                                 const FromLayout &from_layout, SMEMKIT_HERE)
{
    const size_t count = (size_t)from_layout < (size_t)to_layout ? (size_t)from_layout : (size_t)to_layout;
    smemkit::copy_async((unsigned)group.thread_rank(), (unsigned)group.size(), to, from, count * sizeof(T),
                        SMEMKIT_PC, file, line);
    smemkit_async_commit();
}

/* waits for all but the last Stages copies of this thread, then for the other threads of the group */
template <unsigned Stages, class Group>
SMEMKIT_INLINE void wait_prior(const Group &group, SMEMKIT_HERE)
{
    smemkit_async_wait(Stages);
    group.sync(file, line);
}
template <class Group>
SMEMKIT_INLINE void wait(const Group &group, SMEMKIT_HERE)
{
    smemkit_async_wait(0);
    group.sync(file, line);
}

} // namespace cooperative_groups

#endif
