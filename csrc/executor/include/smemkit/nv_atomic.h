/* The __nv_atomic_… functions of CUDA 12.8 and later: GCC's atomics with a scope. */
#ifndef SMEMKIT_NV_ATOMIC_H
#define SMEMKIT_NV_ATOMIC_H

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5

#define __NV_THREAD_SCOPE_THREAD  0
#define __NV_THREAD_SCOPE_BLOCK   1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE  3
#define __NV_THREAD_SCOPE_SYSTEM  4

namespace smemkit
{

SMEMKIT_INLINE order nv_order(int order)
{
    return order == __NV_ATOMIC_RELAXED   ? RELAXED
           : order <= __NV_ATOMIC_ACQUIRE ? ACQUIRE
           : order == __NV_ATOMIC_RELEASE ? RELEASE
                                          : ACQUIRE_RELEASE;
}

template <class T>
SMEMKIT_INLINE T nv_load(const T *address, const void *pc, int order)
{
    using Bits = typename bits_of<sizeof(T)>::type;
    before_atomic(address, sizeof(T), pc);
    const Bits bits = load_bits((const Bits *)address);
    after_atomic(address, sizeof(T), false, nv_order(order) & ACQUIRE);
    smemkit_tick(0);
    return bit_copy<T>(bits);
}
template <class T>
SMEMKIT_INLINE void nv_store(T *address, const void *pc, T value, int order)
{
    using Bits = typename bits_of<sizeof(T)>::type;
    before_atomic(address, sizeof(T), pc, false);
    store_bits((Bits *)address, bit_copy<Bits>(value));
    after_atomic(address, sizeof(T), true, nv_order(order) & RELEASE);
    smemkit_tick(1);
}

/* A barrier of all blocks, which must run together. Thread 0 of each arrives and waits for the others. */
SMEMKIT_INLINE void grid_barrier(const void *pc, const char *file, int line)
{
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    if (blocks > 1 && !smemkit_runs_together())
        smemkit_trap("a grid-wide barrier in a launch that is not cooperative", file, line);
    const unsigned arrived = __atomic_load_n(&grid_arrivals, __ATOMIC_SEQ_CST),
                   target = arrived - arrived % blocks + blocks;

    smemkit_barrier(0, file, line);
    if (lane() == 0 && warp() == 0) {
        atomic_update(
            &grid_arrivals, pc, [](unsigned old) SMEMKIT_NO_HOOKS { return old + 1; }, ACQUIRE_RELEASE);
        while (nv_load(&grid_arrivals, pc, __NV_ATOMIC_SEQ_CST) < target)
            ;
    }
    smemkit_barrier(0, file, line);
}

template <class T>
using same = std::enable_if_t<true, T>; /* not deduced from this argument */

} // namespace smemkit

template <class T>
SMEMKIT_INLINE T __nv_atomic_load_n(const T *address, int order, int = __NV_THREAD_SCOPE_SYSTEM)
{
    return smemkit::nv_load(address, SMEMKIT_PC, order);
}
template <class T>
SMEMKIT_INLINE void __nv_atomic_load(const T *address, smemkit::same<T> *result, int order,
                                     int = __NV_THREAD_SCOPE_SYSTEM)
{
    *result = smemkit::nv_load(address, SMEMKIT_PC, order);
}
template <class T>
SMEMKIT_INLINE void __nv_atomic_store_n(T *address, smemkit::same<T> value, int order,
                                        int = __NV_THREAD_SCOPE_SYSTEM)
{
    smemkit::nv_store(address, SMEMKIT_PC, value, order);
}
template <class T>
SMEMKIT_INLINE void __nv_atomic_store(T *address, smemkit::same<T> *value, int order,
                                      int = __NV_THREAD_SCOPE_SYSTEM)
{
    smemkit::nv_store(address, SMEMKIT_PC, *value, order);
}
template <class T>
SMEMKIT_INLINE bool __nv_atomic_compare_exchange_n(T *address, T *expected, smemkit::same<T> value, bool,
                                                   int success, int failure, int = __NV_THREAD_SCOPE_SYSTEM)
{
    const T before = *expected;
    *expected = smemkit::atomic_compare(address, SMEMKIT_PC, before, value, smemkit::nv_order(success),
                                        smemkit::nv_order(failure));
    return memcmp(&before, expected, sizeof before) == 0;
}
template <class T>
SMEMKIT_INLINE bool __nv_atomic_compare_exchange(T *address, T *expected, smemkit::same<T> *value, bool,
                                                 int success, int failure, int = __NV_THREAD_SCOPE_SYSTEM)
{
    const T before = *expected;
    *expected = smemkit::atomic_compare(address, SMEMKIT_PC, before, *value, smemkit::nv_order(success),
                                        smemkit::nv_order(failure));
    return memcmp(&before, expected, sizeof before) == 0;
}
#define SMEMKIT_NV_ATOMIC(fetch, name, expression)                                                          \
    template <class T>                                                                                      \
    SMEMKIT_INLINE T fetch(T *address, smemkit::same<T> value, int order, int = __NV_THREAD_SCOPE_SYSTEM)   \
    {                                                                                                       \
        return smemkit::atomic_update(                                                                      \
            address, SMEMKIT_PC, [=](T old) SMEMKIT_NO_HOOKS { return (T)(expression); },                   \
            smemkit::nv_order(order));                                                                      \
    }                                                                                                       \
    template <class T>                                                                                      \
    SMEMKIT_INLINE void name(T *address, smemkit::same<T> value, int order, int = __NV_THREAD_SCOPE_SYSTEM) \
    {                                                                                                       \
        smemkit::atomic_update(                                                                             \
            address, SMEMKIT_PC, [=](T old) SMEMKIT_NO_HOOKS { return (T)(expression); },                   \
            smemkit::nv_order(order));                                                                      \
    }
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_add, __nv_atomic_add, old + value)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_sub, __nv_atomic_sub, old - value)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_and, __nv_atomic_and, old &value)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_or, __nv_atomic_or, old | value)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_xor, __nv_atomic_xor, old ^ value)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_min, __nv_atomic_min, value < old ? value : old)
SMEMKIT_NV_ATOMIC(__nv_atomic_fetch_max, __nv_atomic_max, old < value ? value : old)
SMEMKIT_NV_ATOMIC(__nv_atomic_exchange_n, smemkit_unused_exchange, ((void)old, value))
#undef SMEMKIT_NV_ATOMIC
template <class T>
SMEMKIT_INLINE void __nv_atomic_exchange(T *address, smemkit::same<T> *value, smemkit::same<T> *old, int order,
                                         int = __NV_THREAD_SCOPE_SYSTEM)
{
    const T wanted = *value;
    *old = smemkit::atomic_update(
        address, SMEMKIT_PC, [=](T) SMEMKIT_NO_HOOKS { return wanted; }, smemkit::nv_order(order));
}
SMEMKIT_INLINE void __nv_atomic_thread_fence(int, int scope = __NV_THREAD_SCOPE_SYSTEM)
{
    smemkit::fence(scope <= __NV_THREAD_SCOPE_BLOCK ? 1 : scope == __NV_THREAD_SCOPE_SYSTEM ? 3 : 2);
}

#endif
