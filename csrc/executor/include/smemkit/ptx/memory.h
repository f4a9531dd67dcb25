/* Loads, stores, atomics and asynchronous copies of PTX. Cache operators and eviction hints change nothing here.
 */
#ifndef SMEMKIT_PTX_MEMORY_H
#define SMEMKIT_PTX_MEMORY_H

#include "registers.h"

namespace smemkit
{

enum ptx_order {
    ptx_relaxed = RELAXED,
    ptx_acquire = ACQUIRE,
    ptx_release = RELEASE,
    ptx_acq_rel = ACQUIRE_RELEASE
};

/* extended to the register: a signed type by its sign */
template <class T>
SMEMKIT_INLINE uint64_t ptx_extended(T value)
{
    if constexpr (std::is_floating_point_v<T>)
        return ptx_to_bits(value);
    else
        return (uint64_t)(int64_t)value;
}

/* a volatile load may be one of a loop that waits for another thread */
template <class T, bool Volatile, bool ReadOnly = false>
SMEMKIT_INLINE uint64_t ptx_load(const char *from)
{
    if (Volatile)
        smemkit_tick(0);
    report_read(from, sizeof(T), SMEMKIT_PC, ReadOnly);
    return ptx_extended(load((const T *)from));
}
template <class T>
SMEMKIT_INLINE void ptx_store(char *to, uint64_t bits)
{
    report_write(to, sizeof(T), SMEMKIT_PC);
    store((T *)to, ptx_value<T>(bits));
}
template <class T, bool ReadOnly, unsigned N>
SMEMKIT_INLINE void ptx_load_vector(const char *from, uint64_t (&d)[N])
{
    static_assert(N * sizeof(T) <= 32, "a vector has at most 32 bytes");
    const unsigned most = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
    for (unsigned at = 0; at < N * sizeof(T); at += most)
        report_read(from + at, most, SMEMKIT_PC, ReadOnly);
    for (unsigned i = 0; i < N; i++)
        d[i] = ptx_extended(load((const T *)from + i));
}
template <class T, unsigned N>
SMEMKIT_INLINE void ptx_store_vector(char *to, const uint64_t (&bits)[N])
{
    static_assert(N * sizeof(T) <= 32, "a vector has at most 32 bytes");
    const unsigned most = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
    for (unsigned at = 0; at < N * sizeof(T); at += most)
        report_write(to + at, most, SMEMKIT_PC);
    for (unsigned i = 0; i < N; i++)
        store((T *)to + i, ptx_value<T>(bits[i]));
}

/* ---- atomics ---- */

template <class T>
SMEMKIT_INLINE uint64_t ptx_load_atomic(const char *from, ptx_order order)
{
    return ptx_extended(
        nv_load((const T *)from, SMEMKIT_PC, order == ptx_acquire ? __NV_ATOMIC_ACQUIRE : __NV_ATOMIC_RELAXED));
}
template <class T>
SMEMKIT_INLINE void ptx_store_atomic(char *to, uint64_t bits, ptx_order order)
{
    nv_store((T *)to, SMEMKIT_PC, ptx_value<T>(bits),
             order == ptx_release ? __NV_ATOMIC_RELEASE : __NV_ATOMIC_RELAXED);
}
template <class T, class Op>
SMEMKIT_INLINE ptx_bits<T> ptx_atomic(char *at, Op op, uint64_t bits, ptx_order order)
{
    const T operand = ptx_value<T>(bits);
    return ptx_to_bits(atomic_update(
        (T *)at, SMEMKIT_PC, [=](T old) SMEMKIT_NO_HOOKS { return (T)op(old, operand); }, (smemkit::order)order));
}
template <class T>
SMEMKIT_INLINE T ptx_compare_and_swap(char *at, uint64_t expected, uint64_t bits, ptx_order order)
{
    return atomic_compare((T *)at, SMEMKIT_PC, (T)expected, (T)bits, (smemkit::order)order);
}
/* add.noftz of halves; a pair is not atomic as a whole on a GPU */
template <class T>
SMEMKIT_INLINE uint32_t ptx_atomic_packed(char *at, uint64_t bits, ptx_order order)
{
    if constexpr (std::is_same_v<T, ptx_f16> || std::is_same_v<T, ptx_bf16>) {
        return atomic_update((uint16_t *)at, SMEMKIT_PC,
                             [=](uint16_t old) SMEMKIT_NO_HOOKS { return T::to(T::from(old) + T::from(bits)); },
                             (smemkit::order)order);
    } else {
        using half = typename T::half;
        return atomic_update((uint32_t *)at, SMEMKIT_PC,
                             [=](uint32_t old) SMEMKIT_NO_HOOKS {
                                 const uint32_t low = half::to(half::from(old) + half::from(bits));
                                 return low | (uint32_t)half::to(half::from(old >> 16) + half::from(bits >> 16))
                                                  << 16;
                             },
                             (smemkit::order)order);
    }
}

/* ---- asynchronous copies ---- */

/* cp.async: `taken` bytes of `bytes` are copied, the others become zeros. Constant: the compiler knows how many.
 */
template <bool Global, bool Constant>
SMEMKIT_INLINE void ptx_copy_async(char *to, const char *from, uint64_t bytes, uint64_t taken, SMEMKIT_HERE)
{
    if (Global && bytes != 16)
        smemkit_trap("cp.async.cg of other than 16 bytes", file, line);
    if (taken > bytes)
        smemkit_trap("cp.async with a src-size larger than its cp-size", file, line);
    smemkit_async_copy(to, from, (unsigned)bytes, (unsigned)(bytes - taken),
                       !Global             ? SMEMKIT_THROUGH_L1
                       : Constant && taken ? SMEMKIT_PAST_L1
                                           : SMEMKIT_PAST_L1_OR_ZERO,
                       SMEMKIT_PC, file, line);
}
SMEMKIT_INLINE void ptx_copy_async_wait_all()
{
    smemkit_async_commit();
    smemkit_async_wait(0);
}

} // namespace smemkit

#endif
