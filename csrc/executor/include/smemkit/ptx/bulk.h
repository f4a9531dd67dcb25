/* cp.async.bulk of PTX, and fence.proxy.async. The executor has the copies: csrc/executor/bulk.c. */
#ifndef SMEMKIT_PTX_BULK_H
#define SMEMKIT_PTX_BULK_H

#include "mbarrier.h"

namespace smemkit
{

/* For memory of these spaces */
SMEMKIT_INLINE void proxy_fence([[maybe_unused]] bool shared, [[maybe_unused]] bool global)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_proxy_fence(shared, global);
#endif
    smemkit_tick(0);
}

/* A pointer of one space where the instruction needs the other */
SMEMKIT_INLINE void bulk_space(const char *address, bool shared, const char *file, int line)
{
    if (smemkit_is_shared(address) != shared)
        smemkit_trap(
            shared ? "cp.async.bulk of an address outside the block's shared memory, which the instruction needs,"
                   : "cp.async.bulk of an address in shared memory, where the instruction needs global memory,",
            file, line);
}

SMEMKIT_INLINE void bulk_space_of_cluster(const char *address, const char *file, int line)
{
    if (!smemkit_is_cluster_shared(address))
        smemkit_trap(
            "cp.async.bulk of an address outside the cluster's shared memory, which the instruction needs,", file,
            line);
}

/* global to shared memory, or shared to shared memory of the cluster: the bytes arrive at an mbarrier */
SMEMKIT_INLINE void copy_bulk_to_shared(void *to, const void *from, bool from_shared, uint64_t bytes,
                                        void *mbarrier, const void *pc, const char *file, int line)
{
    bulk_space_of_cluster((const char *)to, file, line);
    bulk_space_of_cluster((const char *)mbarrier, file, line);
    bulk_space((const char *)from, from_shared, file, line);
    const smemkit_bulk copy = {"cp.async.bulk", to, from, bytes, mbarrier, nullptr, {}, nullptr, nullptr, {}};
    smemkit_bulk_copy(&copy, 0, pc, file, line);
}
SMEMKIT_INLINE void ptx_copy_bulk(char *to, const char *from, bool from_shared, uint64_t bytes, char *mbarrier,
                                  SMEMKIT_HERE)
{
    copy_bulk_to_shared(to, from, from_shared, bytes, mbarrier, SMEMKIT_PC, file, line);
}

/* Copies the bytes to the same offset in each block of the cluster whose bit is set; each copy arrives at the
 * block's own mbarrier */
SMEMKIT_INLINE void ptx_copy_bulk_multicast(char *to, const char *from, uint64_t bytes, char *mbarrier,
                                            uint64_t mask, SMEMKIT_HERE)
{
    for (unsigned rank = 0; rank < 16; rank++)
        if (mask >> rank & 1)
            copy_bulk_to_shared(smemkit_cluster_map(to, rank, file, line), from, false, bytes,
                                smemkit_cluster_map(mbarrier, rank, file, line), SMEMKIT_PC, file, line);
}

/* shared to global memory, in a bulk group of the thread */
SMEMKIT_INLINE void copy_bulk_to_global(void *to, const void *from, uint64_t bytes,
                                        void (*combine)(void *, const void *, uint64_t), const void *pc,
                                        const char *file, int line)
{
    bulk_space((const char *)to, false, file, line);
    bulk_space((const char *)from, true, file, line);
    const smemkit_bulk copy = {combine ? "cp.reduce.async.bulk" : "cp.async.bulk",
                               to,
                               from,
                               bytes,
                               nullptr,
                               nullptr,
                               {},
                               combine,
                               nullptr,
                               {}};
    smemkit_bulk_copy(&copy, 0, pc, file, line);
}
SMEMKIT_INLINE void ptx_copy_bulk_out(char *to, const char *from, uint64_t bytes, SMEMKIT_HERE)
{
    copy_bulk_to_global(to, from, bytes, nullptr, SMEMKIT_PC, file, line);
}

/* The elements of a reduction, each atomically: blocks on other cores may combine the same ones. T: as in
 * registers.h */
template <class T, class Op>
SMEMKIT_INLINE void combine(void *to, const void *from, uint64_t bytes)
{
    using bits = ptx_bits<T>;
    bits *old = (bits *)to;
    const bits *operand = (const bits *)from;
    for (uint64_t i = 0; i < bytes / sizeof(bits); i++) {
        bits before = __atomic_load_n(&old[i], __ATOMIC_RELAXED), after;
        do {
            if constexpr (std::is_same_v<T, ptx_f16> || std::is_same_v<T, ptx_bf16>)
                after = T::to((float)Op()(T::from(before), T::from(operand[i])));
            else
                after = (bits)ptx_to_bits((T)Op()(ptx_value<T>(before), ptx_value<T>(operand[i])));
        } while (!__atomic_compare_exchange_n(&old[i], &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}
template <class T, class Op>
SMEMKIT_INLINE void ptx_reduce_bulk(char *to, const char *from, Op, uint64_t bytes, SMEMKIT_HERE)
{
    copy_bulk_to_global(to, from, bytes, combine<T, Op>, SMEMKIT_PC, file, line);
}
/* to shared memory of the cluster: the bytes arrive at an mbarrier */
template <class T, class Op>
SMEMKIT_INLINE void ptx_reduce_bulk_to_shared(char *to, const char *from, Op, uint64_t bytes, char *mbarrier,
                                              SMEMKIT_HERE)
{
    bulk_space_of_cluster(to, file, line);
    bulk_space_of_cluster(mbarrier, file, line);
    bulk_space(from, true, file, line);
    const smemkit_bulk copy = {"cp.reduce.async.bulk", to,      from, bytes, mbarrier, nullptr, {},
                               combine<T, Op>,         nullptr, {}};
    smemkit_bulk_copy(&copy, 0, SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE void ptx_prefetch_bulk(const char *from, uint64_t bytes, SMEMKIT_HERE)
{
    smemkit_bulk_prefetch(from, bytes, file, line);
}

/* A box of a tensor, from its element `at` (innermost dimension first), to or from shared memory */
template <unsigned N, class T>
SMEMKIT_INLINE void copy_tensor(void *shared, const void *map, const T (&at)[N], void *mbarrier, const void *pc,
                                const char *file, int line,
                                smemkit_combine *(*combine_of)(unsigned type) = nullptr)
{
    static_assert(N >= 1 && N <= SMEMKIT_TENSOR_RANK, "a tensor map has 1 to 5 dimensions");
    if (mbarrier)
        bulk_space_of_cluster((const char *)shared, file, line);
    else
        bulk_space((const char *)shared, true, file, line);
    smemkit_bulk copy = {};
    copy.instruction = combine_of ? "cp.reduce.async.bulk.tensor" : "cp.async.bulk.tensor";
    copy.mbarrier = mbarrier;
    copy.tensor = (const smemkit_tensor *)map;
    copy.combine_of = combine_of;
    if (mbarrier) {
        bulk_space_of_cluster((const char *)mbarrier, file, line);
        copy.to = shared;
    } else {
        copy.from = shared;
    }
    for (unsigned i = 0; i < N; i++)
        copy.at[i] = (int32_t)at[i];
    smemkit_bulk_copy(&copy, N, pc, file, line);
}
template <unsigned Rank, unsigned N>
SMEMKIT_INLINE void ptx_copy_tensor(char *shared, const char *map, const uint32_t (&at)[N], char *mbarrier,
                                    SMEMKIT_HERE)
{
    static_assert(Rank == N, "cp.async.bulk.tensor needs as many coordinates as its name has dimensions");
    copy_tensor(shared, map, at, mbarrier, SMEMKIT_PC, file, line);
}
template <unsigned Rank, unsigned N>
SMEMKIT_INLINE void ptx_copy_tensor_multicast(char *shared, const char *map, const uint32_t (&at)[N],
                                              char *mbarrier, uint64_t mask, SMEMKIT_HERE)
{
    static_assert(Rank == N, "cp.async.bulk.tensor needs as many coordinates as its name has dimensions");
    for (unsigned rank = 0; rank < 16; rank++)
        if (mask >> rank & 1)
            copy_tensor(smemkit_cluster_map(shared, rank, file, line), map, at,
                        smemkit_cluster_map(mbarrier, rank, file, line), SMEMKIT_PC, file, line);
}
template <unsigned Rank, unsigned N>
SMEMKIT_INLINE void ptx_copy_tensor_out(const char *map, const uint32_t (&at)[N], char *shared, SMEMKIT_HERE)
{
    static_assert(Rank == N, "cp.async.bulk.tensor needs as many coordinates as its name has dimensions");
    copy_tensor(shared, map, at, nullptr, SMEMKIT_PC, file, line);
}

/* How cp.reduce.async.bulk.tensor combines elements of a type of the driver's CUtensorMapDataType; NULL: not at
 * all. (PTX ISA, cp.reduce.async.bulk.tensor) */
template <class Op>
SMEMKIT_NO_HOOKS smemkit_combine *combine_of_type(unsigned type)
{
    enum { U32 = 2, S32, U64, S64, F16, F32, BF16 = 9 };
    constexpr bool adds = std::is_same_v<Op, ptx_add_op>;
    constexpr bool extreme = std::is_same_v<Op, ptx_min_op> || std::is_same_v<Op, ptx_max_op>;
    constexpr bool counts = std::is_same_v<Op, ptx_inc_op> || std::is_same_v<Op, ptx_dec_op>;

    if constexpr (adds || extreme) {
        if (type == F16)
            return combine<ptx_f16, Op>;
        if (type == BF16)
            return combine<ptx_bf16, Op>;
    }
    if constexpr (adds) {
        if (type == F32)
            return combine<float, Op>;
    }
    if (type == U32)
        return combine<uint32_t, Op>;
    if constexpr (!counts) {
        if (type == S32)
            return combine<int32_t, Op>;
        if (type == U64)
            return combine<uint64_t, Op>;
        if (type == S64 && !adds)
            return combine<int64_t, Op>;
    }
    return nullptr;
}
template <unsigned Rank, class Op, unsigned N>
SMEMKIT_INLINE void ptx_reduce_tensor(const char *map, const uint32_t (&at)[N], char *shared, Op, SMEMKIT_HERE)
{
    static_assert(Rank == N, "cp.reduce.async.bulk.tensor needs as many coordinates as its name has dimensions");
    copy_tensor(shared, map, at, nullptr, SMEMKIT_PC, file, line, combine_of_type<Op>);
}

/* st.async, and red.async with `combine`: a store of registers to shared memory of the cluster, whose bytes arrive
 * at an mbarrier */
SMEMKIT_INLINE void store_async(const char *instruction, void *to, const void *value, unsigned bytes,
                                void *mbarrier, smemkit_combine *combine, const void *pc, const char *file,
                                int line)
{
    bulk_space_of_cluster((const char *)to, file, line);
    bulk_space_of_cluster((const char *)mbarrier, file, line);
    smemkit_bulk copy = {};
    copy.instruction = instruction;
    copy.to = to;
    copy.bytes = bytes;
    copy.mbarrier = mbarrier;
    copy.combine = combine;
    __builtin_memcpy(copy.value, value, bytes);
    smemkit_bulk_copy(&copy, 0, pc, file, line);
}
template <class T, class Bits, unsigned N>
SMEMKIT_INLINE void ptx_store_async_vector(char *to, const Bits (&bits)[N], char *mbarrier, SMEMKIT_HERE)
{
    static_assert(N * sizeof(T) <= 16, "st.async stores at most 16 bytes");
    T values[N];
    for (unsigned i = 0; i < N; i++)
        values[i] = ptx_value<T>(bits[i]);
    store_async("st.async", to, values, sizeof values, mbarrier, nullptr, SMEMKIT_PC, file, line);
}
template <class T>
SMEMKIT_INLINE void ptx_store_async(char *to, uint64_t bits, char *mbarrier, SMEMKIT_HERE)
{
    const T value = ptx_value<T>(bits);
    store_async("st.async", to, &value, sizeof value, mbarrier, nullptr, SMEMKIT_PC, file, line);
}
template <class T, class Op>
SMEMKIT_INLINE void ptx_reduce_async(char *to, Op, uint64_t bits, char *mbarrier, SMEMKIT_HERE)
{
    const T value = ptx_value<T>(bits);
    store_async("red.async", to, &value, sizeof value, mbarrier, combine<T, Op>, SMEMKIT_PC, file, line);
}

} // namespace smemkit

#endif
