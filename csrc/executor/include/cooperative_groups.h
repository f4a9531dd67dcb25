/* Cooperative groups: blocks, tiles of a warp, and coalesced lanes. Grids report their size, but cannot be
 * synchronised: blocks run one after another here. */
#ifndef SMEMKIT_COOPERATIVE_GROUPS_H
#define SMEMKIT_COOPERATIVE_GROUPS_H

#include <cuda_runtime.h>

namespace cooperative_groups
{

namespace smemkit_detail
{

SMEMKIT_INLINE unsigned linear(const uint3 &index, const uint3 &extent)
{
    return index.x + extent.x * (index.y + extent.y * index.z);
}
SMEMKIT_INLINE unsigned volume(const uint3 &extent)
{
    return extent.x * extent.y * extent.z;
}
SMEMKIT_INLINE unsigned rank_in_block()
{
    return linear(threadIdx, blockDim);
}

/* A shuffle of any trivially copyable type, 8 bytes at a time */
template <class T>
SMEMKIT_INLINE T shuffle(unsigned mask, const T &value, int lane, const char *file, int line)
{
    static_assert(std::is_trivially_copyable_v<T>, "a shuffle moves plain data");
    T result;
    for (size_t at = 0; at < sizeof(T); at += 8) {
        const size_t bytes = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
        uint64_t piece = 0;
        memcpy(&piece, (const char *)&value + at, bytes);
        piece = smemkit_warp(SMEMKIT_SHUFFLE, mask, piece, lane, file, line);
        memcpy((char *)&result + at, &piece, bytes);
    }
    return result;
}

} // namespace smemkit_detail

/* Threads of one warp (those in `mask`), or a whole block (mask 0) */
class thread_group
{
  public:
    SMEMKIT_NO_HOOKS unsigned long long size() const
    {
        return mask ? (unsigned)__builtin_popcount(mask) : smemkit_detail::volume(blockDim);
    }
    SMEMKIT_NO_HOOKS unsigned long long num_threads() const
    {
        return size();
    }
    SMEMKIT_NO_HOOKS unsigned long long thread_rank() const
    {
        return mask ? (unsigned)__builtin_popcount(mask & ((1u << smemkit::lane()) - 1))
                    : smemkit_detail::rank_in_block();
    }
    SMEMKIT_NO_HOOKS void sync(SMEMKIT_HERE) const
    {
        if (mask)
            smemkit_warp(SMEMKIT_SYNC, mask, 0, 0, file, line);
        else
            smemkit_barrier(0, file, line);
    }
    SMEMKIT_NO_HOOKS bool is_valid() const
    {
        return true;
    }

    SMEMKIT_NO_HOOKS unsigned lanes() const
    {
        return mask;
    }
    SMEMKIT_NO_HOOKS explicit thread_group(unsigned mask) : mask(mask)
    {
    }

  protected:
    unsigned mask;
};

class thread_block : public thread_group
{
  public:
    SMEMKIT_NO_HOOKS thread_block() : thread_group(0)
    {
    }
    SMEMKIT_NO_HOOKS static void sync(SMEMKIT_HERE)
    {
        smemkit_barrier(0, file, line);
    }
    SMEMKIT_NO_HOOKS static unsigned size()
    {
        return smemkit_detail::volume(blockDim);
    }
    SMEMKIT_NO_HOOKS static unsigned num_threads()
    {
        return smemkit_detail::volume(blockDim);
    }
    SMEMKIT_NO_HOOKS static unsigned thread_rank()
    {
        return smemkit_detail::rank_in_block();
    }
    SMEMKIT_NO_HOOKS static dim3 group_index()
    {
        return {blockIdx.x, blockIdx.y, blockIdx.z};
    }
    SMEMKIT_NO_HOOKS static dim3 thread_index()
    {
        return {threadIdx.x, threadIdx.y, threadIdx.z};
    }
    SMEMKIT_NO_HOOKS static dim3 group_dim()
    {
        return {blockDim.x, blockDim.y, blockDim.z};
    }
    SMEMKIT_NO_HOOKS static dim3 dim_threads()
    {
        return {blockDim.x, blockDim.y, blockDim.z};
    }
    static int barrier_arrive()
        SMEMKIT_UNAVAILABLE("thread_block::barrier_arrive does not run on the CPU device; use sync()");
};

/* the memory that tiles of several warps need on a GPU */
template <unsigned Threads = 1024>
struct block_tile_memory {
    char unused;
};
template <unsigned Threads>
SMEMKIT_INLINE thread_block this_thread_block(block_tile_memory<Threads> &)
{
    return thread_block();
}
SMEMKIT_INLINE thread_block this_thread_block()
{
    return thread_block();
}

/* The base of groups within a warp. Threads are numbered by rank; bit i of a vote's result is rank i.
 */
class smemkit_lanes : public thread_group
{
  public:
    template <class T>
    SMEMKIT_NO_HOOKS T shfl(T value, int rank, SMEMKIT_HERE) const
    {
        return from(value, (unsigned)rank, file, line);
    }
    template <class T>
    SMEMKIT_NO_HOOKS T shfl_up(T value, unsigned delta, SMEMKIT_HERE) const
    {
        const unsigned rank = this->rank();
        return from(value, rank < delta ? rank : rank - delta, file, line);
    }
    template <class T>
    SMEMKIT_NO_HOOKS T shfl_down(T value, unsigned delta, SMEMKIT_HERE) const
    {
        const unsigned rank = this->rank();
        return from(value, delta >= count() - rank ? rank : rank + delta, file, line);
    }
    SMEMKIT_NO_HOOKS int any(int predicate, SMEMKIT_HERE) const
    {
        return vote(predicate, file, line) != 0;
    }
    SMEMKIT_NO_HOOKS int all(int predicate, SMEMKIT_HERE) const
    {
        return vote(!predicate, file, line) == 0;
    }
    SMEMKIT_NO_HOOKS unsigned ballot(int predicate, SMEMKIT_HERE) const
    {
        return packed(vote(predicate, file, line));
    }
    template <class T>
    SMEMKIT_NO_HOOKS unsigned match_any(T value, SMEMKIT_HERE) const
    {
        return packed(match(value, file, line));
    }
    template <class T>
    SMEMKIT_NO_HOOKS unsigned match_all(T value, int &all, SMEMKIT_HERE) const
    {
        all = vote(match(value, file, line) != vote(1, file, line), file, line) == 0;
        return all ? packed(vote(1, file, line)) : 0;
    }

    /* for the functions of this header */
    SMEMKIT_NO_HOOKS unsigned rank() const
    {
        return (unsigned)__builtin_popcount(mask & ((1u << smemkit::lane()) - 1));
    }
    SMEMKIT_NO_HOOKS unsigned count() const
    {
        return (unsigned)__builtin_popcount(mask);
    }
    SMEMKIT_NO_HOOKS unsigned vote(int predicate, const char *file, int line) const
    {
        return (unsigned)smemkit_warp(SMEMKIT_BALLOT, mask, predicate != 0, 0, file, line);
    }
    template <class T>
    SMEMKIT_NO_HOOKS unsigned match(const T &value, const char *file, int line) const
    {
        static_assert(sizeof(T) <= 8, "a match compares at most 8 bytes");
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof value);
        return (unsigned)smemkit_warp(SMEMKIT_MATCH, mask, bits, 0, file, line);
    }
    template <class T>
    SMEMKIT_NO_HOOKS T from(const T &value, unsigned rank, const char *file, int line) const
    {
        return smemkit_detail::shuffle(mask, value, lane_of(rank % count()), file, line);
    }
    SMEMKIT_NO_HOOKS int lane_of(unsigned rank) const
    {
        unsigned rest = mask;
        while (rank-- > 0)
            rest &= rest - 1;
        return __builtin_ctz(rest);
    }
    /* the votes of the group's lanes in the order of their ranks */
    SMEMKIT_NO_HOOKS unsigned packed(unsigned votes) const
    {
        unsigned result = 0, rank = 0;
        for (unsigned rest = mask; rest; rest &= rest - 1, rank++)
            result |= (votes >> __builtin_ctz(rest) & 1) << rank;
        return result;
    }

  protected:
    SMEMKIT_NO_HOOKS explicit smemkit_lanes(unsigned mask) : thread_group(mask)
    {
    }
};

/* The lanes that are converged at a point of the kernel, or some of them */
class coalesced_group : public smemkit_lanes
{
  public:
    SMEMKIT_NO_HOOKS unsigned meta_group_rank() const
    {
        return group_rank;
    }
    SMEMKIT_NO_HOOKS unsigned meta_group_size() const
    {
        return groups;
    }
    SMEMKIT_NO_HOOKS explicit coalesced_group(unsigned mask, unsigned group_rank = 0, unsigned groups = 1)
        : smemkit_lanes(mask), group_rank(group_rank), groups(groups)
    {
    }

  private:
    unsigned group_rank, groups;
};

SMEMKIT_INLINE coalesced_group coalesced_threads(SMEMKIT_HERE)
{
    return coalesced_group(smemkit_active_mask(file, line));
}

/* Size consecutive lanes of a warp. Parent: the group it is a tile of; void if unknown. */
template <unsigned Size, class Parent = void>
class thread_block_tile : public smemkit_lanes
{
    static_assert((Size & (Size - 1)) == 0 && Size >= 1, "a tile has 1, 2, 4, 8, 16 or 32 threads");
    static_assert(Size <= 32, "tiles of more than 32 threads do not run on the CPU device");

  public:
    SMEMKIT_NO_HOOKS static constexpr unsigned size()
    {
        return Size;
    }
    SMEMKIT_NO_HOOKS static constexpr unsigned num_threads()
    {
        return Size;
    }
    SMEMKIT_NO_HOOKS static unsigned thread_rank()
    {
        return (unsigned)smemkit::lane() % Size;
    }
    SMEMKIT_NO_HOOKS unsigned meta_group_rank() const
    {
        return group_rank;
    }
    SMEMKIT_NO_HOOKS unsigned meta_group_size() const
    {
        return groups;
    }
    template <class T>
    SMEMKIT_NO_HOOKS T shfl_xor(T value, unsigned bits, SMEMKIT_HERE) const
    {
        const unsigned rank = this->rank(), other = rank ^ bits;
        return from(value, other < Size ? other : rank, file, line);
    }

    SMEMKIT_NO_HOOKS explicit thread_block_tile(unsigned group_rank, unsigned groups)
        : smemkit_lanes((Size == 32 ? 0xffffffffu : (1u << Size % 32) - 1)
                        << ((unsigned)smemkit::lane() & (0u - Size))),
          group_rank(group_rank), groups(groups)
    {
    }
    template <class Other>
    SMEMKIT_NO_HOOKS thread_block_tile(const thread_block_tile<Size, Other> &other)
        : smemkit_lanes(other.lanes()), group_rank((unsigned)other.meta_group_rank()),
          groups((unsigned)other.meta_group_size())
    {
    }

  private:
    unsigned group_rank, groups;
};

template <unsigned Size>
SMEMKIT_NO_HOOKS inline std::enable_if_t<(Size <= 32), thread_block_tile<Size, thread_block>>
tiled_partition(const thread_block &)
{
    return thread_block_tile<Size, thread_block>(smemkit_detail::rank_in_block() / Size,
                                                 (smemkit_detail::volume(blockDim) + Size - 1) / Size);
}
template <unsigned Size>
std::enable_if_t<(Size > 32), thread_block_tile<32, thread_block>> tiled_partition(const thread_block &)
    SMEMKIT_UNAVAILABLE("tiles of more than 32 threads do not run on the CPU device");
template <unsigned Size, unsigned Of, class Parent>
SMEMKIT_INLINE thread_block_tile<Size, thread_block_tile<Of, Parent>>
tiled_partition(const thread_block_tile<Of, Parent> &parent)
{
    static_assert(Size <= Of, "a tile cannot be larger than its parent group");
    return thread_block_tile<Size, thread_block_tile<Of, Parent>>((unsigned)parent.thread_rank() / Size,
                                                                  Of / Size);
}
/* with a run-time size: a block or a tile is divided into consecutive threads, other lanes by rank */
SMEMKIT_INLINE thread_group tiled_partition(const thread_group &parent, unsigned size)
{
    const unsigned mask = parent.lanes() ? parent.lanes() : 0xffffffffu,
                   rank = (unsigned)parent.thread_rank() % 32;
    const unsigned first = rank / size * size;
    unsigned lanes = 0, number = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1, number++)
        if (number >= first && number < first + size)
            lanes |= rest & -rest;
    return thread_group(lanes);
}
SMEMKIT_INLINE coalesced_group tiled_partition(const coalesced_group &parent, unsigned size)
{
    const unsigned first = parent.rank() / size * size;
    unsigned lanes = 0, number = 0;
    for (unsigned rest = parent.lanes(); rest; rest &= rest - 1, number++)
        if (number >= first && number < first + size)
            lanes |= rest & -rest;
    return coalesced_group(lanes, parent.rank() / size, (parent.count() + size - 1) / size);
}

SMEMKIT_INLINE thread_block_tile<1> this_thread()
{
    return thread_block_tile<1>(0, 1);
}

/* The lanes of a group with the same predicate, or label */
SMEMKIT_INLINE coalesced_group binary_partition(const smemkit_lanes &group, bool predicate, SMEMKIT_HERE)
{
    const unsigned yes = group.vote(predicate, file, line);
    return coalesced_group(predicate ? yes : group.lanes() & ~yes, predicate, 2);
}
template <class Label>
SMEMKIT_INLINE coalesced_group labeled_partition(const smemkit_lanes &group, Label label, SMEMKIT_HERE)
{
    return coalesced_group(group.match(label, file, line));
}

/* A grid: the position of this thread in it. */
class grid_group
{
  public:
    SMEMKIT_NO_HOOKS static unsigned long long size()
    {
        return (unsigned long long)smemkit_detail::volume(blockDim) * num_blocks();
    }
    SMEMKIT_NO_HOOKS static unsigned long long num_threads()
    {
        return size();
    }
    SMEMKIT_NO_HOOKS static unsigned long long thread_rank()
    {
        return block_rank() * smemkit_detail::volume(blockDim) + smemkit_detail::rank_in_block();
    }
    SMEMKIT_NO_HOOKS static unsigned long long num_blocks()
    {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    SMEMKIT_NO_HOOKS static unsigned long long block_rank()
    {
        return blockIdx.x +
               (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    SMEMKIT_NO_HOOKS static dim3 group_dim()
    {
        return {gridDim.x, gridDim.y, gridDim.z};
    }
    SMEMKIT_NO_HOOKS static dim3 dim_blocks()
    {
        return {gridDim.x, gridDim.y, gridDim.z};
    }
    SMEMKIT_NO_HOOKS static dim3 block_index()
    {
        return {blockIdx.x, blockIdx.y, blockIdx.z};
    }
    SMEMKIT_NO_HOOKS static dim3 thread_index()
    {
        return {threadIdx.x, threadIdx.y, threadIdx.z};
    }
    SMEMKIT_NO_HOOKS static bool is_valid()
    {
        return true;
    }
    SMEMKIT_NO_HOOKS void sync(SMEMKIT_HERE) const
    {
        smemkit::grid_barrier(SMEMKIT_PC, file, line);
    }
};

SMEMKIT_INLINE grid_group this_grid()
{
    return grid_group();
}

/* The blocks of a cluster; in a launch without clusters each block is one of its own */
class cluster_group
{
  public:
    struct arrival_token {
    };
    SMEMKIT_NO_HOOKS static arrival_token barrier_arrive(SMEMKIT_HERE)
    {
        smemkit_cluster_arrive(0, 1, file, line);
        return {};
    }
    SMEMKIT_NO_HOOKS static void barrier_wait(SMEMKIT_HERE)
    {
        smemkit_cluster_wait(0, file, line);
    }
    SMEMKIT_NO_HOOKS static void barrier_wait(arrival_token &&, SMEMKIT_HERE)
    {
        smemkit_cluster_wait(0, file, line);
    }
    SMEMKIT_NO_HOOKS static void sync(SMEMKIT_HERE)
    {
        smemkit_cluster_arrive(0, 1, file, line);
        smemkit_cluster_wait(0, file, line);
    }
    SMEMKIT_NO_HOOKS static dim3 dim_blocks()
    {
        return __clusterDim();
    }
    SMEMKIT_NO_HOOKS static unsigned num_blocks()
    {
        return __clusterSizeInBlocks();
    }
    SMEMKIT_NO_HOOKS static dim3 block_index()
    {
        return __clusterRelativeBlockIdx();
    }
    SMEMKIT_NO_HOOKS static unsigned block_rank()
    {
        return smemkit_cluster_rank();
    }
    SMEMKIT_NO_HOOKS static dim3 dim_threads()
    {
        return {smemkit_cluster_dim(0) * blockDim.x, smemkit_cluster_dim(1) * blockDim.y,
                smemkit_cluster_dim(2) * blockDim.z};
    }
    SMEMKIT_NO_HOOKS static unsigned num_threads()
    {
        return num_blocks() * smemkit_detail::volume(blockDim);
    }
    SMEMKIT_NO_HOOKS static unsigned size()
    {
        return num_threads();
    }
    SMEMKIT_NO_HOOKS static dim3 thread_index()
    {
        const dim3 block = block_index();
        return {block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y,
                block.z * blockDim.z + threadIdx.z};
    }
    SMEMKIT_NO_HOOKS static unsigned thread_rank()
    {
        return block_rank() * smemkit_detail::volume(blockDim) + smemkit_detail::rank_in_block();
    }
    template <class T>
    SMEMKIT_NO_HOOKS static T *map_shared_rank(T *address, int rank, SMEMKIT_HERE)
    {
        return (T *)smemkit_cluster_map((const void *)address, (unsigned)rank, file, line);
    }
    SMEMKIT_NO_HOOKS static unsigned query_shared_rank(const void *address)
    {
        return smemkit_cluster_rank_of(address);
    }
    SMEMKIT_NO_HOOKS static bool is_valid()
    {
        return true;
    }
};

SMEMKIT_INLINE cluster_group this_cluster()
{
    return cluster_group();
}
thread_block this_multi_grid() SMEMKIT_UNAVAILABLE("grids on several devices do not run on the CPU device");
template <class Group>
SMEMKIT_INLINE void sync(const Group &group, SMEMKIT_HERE)
{
    group.sync(file, line);
}
template <class Group>
SMEMKIT_INLINE auto thread_rank(const Group &group)
{
    return group.thread_rank();
}
template <class Group>
SMEMKIT_INLINE auto group_size(const Group &group)
{
    return group.size();
}
template <class Group, class Call, class... Arguments>
SMEMKIT_INLINE void invoke_one(const Group &group, Call &&call, Arguments &&...arguments)
{
    if (group.thread_rank() == 0)
        call(std::forward<Arguments>(arguments)...);
}

} // namespace cooperative_groups

#endif
