/* Atomics on shared and global memory, for all types that CUDA supports. Each returns the old value, and yields to
 * other threads now and then. The scopes _block and _system are the same here. */
#ifndef SMEMKIT_ATOMICS_H
#define SMEMKIT_ATOMICS_H

namespace smemkit
{

template <size_t Bytes>
struct bits_of;
template <>
struct bits_of<1> {
    using type = uint8_t;
};
template <>
struct bits_of<2> {
    using type = uint16_t;
};
template <>
struct bits_of<4> {
    using type = uint32_t;
};
template <>
struct bits_of<8> {
    using type = uint64_t;
};
using wide = unsigned __int128;
template <>
struct bits_of<16> {
    using type = wide;
};

/* The processor's atomics. For 16 bytes compilers call a library, which kernels are not linked with. */
template <class Bits>
SMEMKIT_INLINE bool swap_if_equal(Bits *address, Bits *expected, Bits value)
{
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
SMEMKIT_INLINE bool swap_if_equal(wide *address, wide *expected, wide value)
{
#ifdef __x86_64__
    uint64_t low = (uint64_t)*expected, high = (uint64_t)(*expected >> 64);
    bool equal;

    asm volatile("lock cmpxchg16b %0"
                 : "+m"(*address), "=@cce"(equal), "+a"(low), "+d"(high)
                 : "b"((uint64_t)value), "c"((uint64_t)(value >> 64))
                 : "memory");
    *expected = (wide)high << 64 | low;
#else
    const wide wanted = *expected;
    bool equal;

    *expected = __sync_val_compare_and_swap(address, wanted, value);
    equal = *expected == wanted;
#endif
    return equal;
}
template <class Bits>
SMEMKIT_INLINE Bits load_bits(const Bits *address)
{
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}
SMEMKIT_INLINE wide load_bits(const wide *address)
{
    wide found = 0;

    swap_if_equal((wide *)address, &found, found);
    return found;
}
template <class Bits>
SMEMKIT_INLINE void store_bits(Bits *address, Bits value)
{
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}
SMEMKIT_INLINE void store_bits(wide *address, wide value)
{
    wide old = 0;

    while (!swap_if_equal(address, &old, value))
        ;
}

template <class To, class From>
SMEMKIT_INLINE To bit_copy(const From &from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* The checker's encoding. ACQUIRE_OF_BLOCK: acquires what threads of the own block have released. FAILED_WAIT: not
 * even a later fence acquires anything from it */
enum order { RELAXED, ACQUIRE, RELEASE, ACQUIRE_RELEASE, COMPARES, ACQUIRE_OF_BLOCK = 8, FAILED_WAIT = 16 };

/* *address = update(*address), atomically */
template <class T, class Update>
SMEMKIT_INLINE T atomic_update(T *address, const void *pc, Update update, order order = RELAXED)
{
    using Bits = typename bits_of<sizeof(T)>::type;
    before_atomic(address, sizeof(T), pc);
    Bits old = load_bits((const Bits *)address), updated;
    do
        updated = bit_copy<Bits>(update(bit_copy<T>(old)));
    while (!swap_if_equal((Bits *)address, &old, updated));
    after_atomic(address, sizeof(T), true, order);
    smemkit_tick(updated != old);
    return bit_copy<T>(old);
}

/* Atomic compare-and-swap. Returns the old value; compares bits. */
template <class T>
SMEMKIT_INLINE T atomic_compare(T *address, const void *pc, T expected, T value, order order = RELAXED,
                                smemkit::order otherwise = RELAXED)
{
    using Bits = typename bits_of<sizeof(T)>::type;
    before_atomic(address, sizeof(T), pc);
    Bits old = bit_copy<Bits>(expected);
    bool swapped = swap_if_equal((Bits *)address, &old, bit_copy<Bits>(value));
    after_atomic(address, sizeof(T), swapped, (swapped ? order : otherwise) | COMPARES);
    smemkit_tick(swapped && old != bit_copy<Bits>(value));
    return bit_copy<T>(old);
}

} // namespace smemkit

#define SMEMKIT_ATOMIC_OF_SCOPE(specifiers, name, type, expression)                                   \
    specifiers type name(type *address, type value)                                                   \
    {                                                                                                 \
        return smemkit::atomic_update(address, SMEMKIT_PC,                                            \
                                      [=](type old) SMEMKIT_NO_HOOKS { return (type)(expression); }); \
    }
#define SMEMKIT_ATOMIC_OF_SCOPES(specifiers, name, type, expression)    \
    SMEMKIT_ATOMIC_OF_SCOPE(specifiers, name, type, expression)         \
    SMEMKIT_ATOMIC_OF_SCOPE(specifiers, name##_block, type, expression) \
    SMEMKIT_ATOMIC_OF_SCOPE(specifiers, name##_system, type, expression)
#define SMEMKIT_ATOMIC(name, type, expression) SMEMKIT_ATOMIC_OF_SCOPES(SMEMKIT_IF_USED, name, type, expression)

/* unsigned arithmetic wraps; signed overflow is undefined in C++ */
SMEMKIT_ATOMIC(atomicAdd, int, (unsigned)old + (unsigned)value)
SMEMKIT_ATOMIC(atomicAdd, unsigned int, old + value)
SMEMKIT_ATOMIC(atomicAdd, unsigned long long, old + value)
SMEMKIT_ATOMIC(atomicAdd, float, old + value)
SMEMKIT_ATOMIC(atomicAdd, double, old + value)
SMEMKIT_ATOMIC(atomicSub, int, (unsigned)old - (unsigned)value)
SMEMKIT_ATOMIC(atomicSub, unsigned int, old - value)
SMEMKIT_ATOMIC(atomicExch, int, ((void)old, value))
SMEMKIT_ATOMIC(atomicExch, unsigned int, ((void)old, value))
SMEMKIT_ATOMIC(atomicExch, unsigned long long, ((void)old, value))
SMEMKIT_ATOMIC(atomicExch, float, ((void)old, value))
SMEMKIT_ATOMIC(atomicMin, int, value < old ? value : old)
SMEMKIT_ATOMIC(atomicMin, unsigned int, value < old ? value : old)
SMEMKIT_ATOMIC(atomicMin, long long, value < old ? value : old)
SMEMKIT_ATOMIC(atomicMin, unsigned long long, value < old ? value : old)
SMEMKIT_ATOMIC(atomicMax, int, value > old ? value : old)
SMEMKIT_ATOMIC(atomicMax, unsigned int, value > old ? value : old)
SMEMKIT_ATOMIC(atomicMax, long long, value > old ? value : old)
SMEMKIT_ATOMIC(atomicMax, unsigned long long, value > old ? value : old)
SMEMKIT_ATOMIC_OF_SCOPES(SMEMKIT_INLINE, atomicInc, unsigned int, old >= value ? 0 : old + 1)
SMEMKIT_ATOMIC_OF_SCOPES(SMEMKIT_INLINE, atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)
SMEMKIT_ATOMIC(atomicAnd, int, old &value)
SMEMKIT_ATOMIC(atomicAnd, unsigned int, old &value)
SMEMKIT_ATOMIC(atomicAnd, unsigned long long, old &value)
SMEMKIT_ATOMIC(atomicOr, int, old | value)
SMEMKIT_ATOMIC(atomicOr, unsigned int, old | value)
SMEMKIT_ATOMIC(atomicOr, unsigned long long, old | value)
SMEMKIT_ATOMIC(atomicXor, int, old ^ value)
SMEMKIT_ATOMIC(atomicXor, unsigned int, old ^ value)
SMEMKIT_ATOMIC(atomicXor, unsigned long long, old ^ value)
#undef SMEMKIT_ATOMIC
#undef SMEMKIT_ATOMIC_OF_SCOPES
#undef SMEMKIT_ATOMIC_OF_SCOPE

/* float2 and float4: each component is atomic, the vector is not, as on the GPU. */
namespace smemkit
{

SMEMKIT_IF_USED float atomic_add(float *address, const void *pc, float value)
{
    return atomic_update(address, pc, [=](float old) SMEMKIT_NO_HOOKS { return old + value; });
}

} // namespace smemkit

SMEMKIT_IF_USED float2 atomicAdd(float2 *address, float2 value)
{
    const void *pc = SMEMKIT_PC;
    return {smemkit::atomic_add(&address->x, pc, value.x), smemkit::atomic_add(&address->y, pc, value.y)};
}
SMEMKIT_IF_USED float4 atomicAdd(float4 *address, float4 value)
{
    const void *pc = SMEMKIT_PC;
    return {smemkit::atomic_add(&address->x, pc, value.x), smemkit::atomic_add(&address->y, pc, value.y),
            smemkit::atomic_add(&address->z, pc, value.z), smemkit::atomic_add(&address->w, pc, value.w)};
}

#define SMEMKIT_CAS_OF_SCOPE(name, type)                                      \
    SMEMKIT_IF_USED type name(type *address, type expected, type value)       \
    {                                                                         \
        return smemkit::atomic_compare(address, SMEMKIT_PC, expected, value); \
    }
#define SMEMKIT_CAS(type)                       \
    SMEMKIT_CAS_OF_SCOPE(atomicCAS, type)       \
    SMEMKIT_CAS_OF_SCOPE(atomicCAS_block, type) \
    SMEMKIT_CAS_OF_SCOPE(atomicCAS_system, type)
SMEMKIT_CAS(int)
SMEMKIT_CAS(unsigned int)
SMEMKIT_CAS(unsigned long long)
SMEMKIT_CAS(unsigned short)
#undef SMEMKIT_CAS
#undef SMEMKIT_CAS_OF_SCOPE

/* of 16 bytes, for any type of that size and alignment */
namespace smemkit
{
template <class T>
using if_wide = std::enable_if_t<sizeof(T) == 16 && alignof(T) >= 16 && std::is_trivially_copyable_v<T>, T>;
} // namespace smemkit
#define SMEMKIT_WIDE_OF_SCOPE(scope)                                                                   \
    template <class T>                                                                                 \
    SMEMKIT_INLINE smemkit::if_wide<T> atomicCAS##scope(T *address, T expected, T value)               \
    {                                                                                                  \
        return smemkit::atomic_compare(address, SMEMKIT_PC, expected, value);                          \
    }                                                                                                  \
    template <class T>                                                                                 \
    SMEMKIT_INLINE smemkit::if_wide<T> atomicExch##scope(T *address, T value)                          \
    {                                                                                                  \
        return smemkit::atomic_update(address, SMEMKIT_PC, [=](T) SMEMKIT_NO_HOOKS { return value; }); \
    }
SMEMKIT_WIDE_OF_SCOPE()
SMEMKIT_WIDE_OF_SCOPE(_block)
SMEMKIT_WIDE_OF_SCOPE(_system)
#undef SMEMKIT_WIDE_OF_SCOPE

#endif
