/* Atomics on shared and global memory, of all types that CUDA has. Each returns the old value, and gives other
 * threads a turn now and then. The scopes _block and _system are the same thing here. */
#ifndef SMEMKIT_ATOMICS_H
#define SMEMKIT_ATOMICS_H

namespace smemkit
{

template <size_t BYTES>
struct bits_of;
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

/* *address = update(*address), as one step */
template <class T, class Update>
static inline T atomic_update(T *address, Update update)
{
    using Bits = typename bits_of<sizeof(T)>::type;
    Bits old_bits = __atomic_load_n((Bits *)address, __ATOMIC_RELAXED), new_bits;
    T old;

    do {
        memcpy(&old, &old_bits, sizeof old);
        T updated = update(old);
        memcpy(&new_bits, &updated, sizeof new_bits);
    } while (!__atomic_compare_exchange_n((Bits *)address, &old_bits, new_bits, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED));
    smemkit_tick();
    return old;
}

} // namespace smemkit

#define SMEMKIT_ATOMIC(name, type, expression)                                                \
    static inline type name(type *address, type value)                                        \
    {                                                                                         \
        return smemkit::atomic_update(address, [=](type old) { return (type)(expression); }); \
    }                                                                                         \
    static inline type name##_block(type *address, type value)                                \
    {                                                                                         \
        return name(address, value);                                                          \
    }                                                                                         \
    static inline type name##_system(type *address, type value)                               \
    {                                                                                         \
        return name(address, value);                                                          \
    }

/* unsigned arithmetic wraps; signed arithmetic must not overflow in C++ */
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
SMEMKIT_ATOMIC(atomicInc, unsigned int, old >= value ? 0 : old + 1)
SMEMKIT_ATOMIC(atomicDec, unsigned int, old == 0 || old > value ? value : old - 1)
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

/* float2 and float4: each component is atomic, the vector is not; so it is on the GPU. */
static inline float2 atomicAdd(float2 *address, float2 value)
{
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
static inline float4 atomicAdd(float4 *address, float4 value)
{
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
            atomicAdd(&address->w, value.w)};
}

#define SMEMKIT_CAS(type)                                                                                \
    static inline type atomicCAS(type *address, type expected, type value)                               \
    {                                                                                                    \
        return smemkit::atomic_update(address, [=](type old) { return old == expected ? value : old; }); \
    }                                                                                                    \
    static inline type atomicCAS_block(type *address, type expected, type value)                         \
    {                                                                                                    \
        return atomicCAS(address, expected, value);                                                      \
    }                                                                                                    \
    static inline type atomicCAS_system(type *address, type expected, type value)                        \
    {                                                                                                    \
        return atomicCAS(address, expected, value);                                                      \
    }
SMEMKIT_CAS(int)
SMEMKIT_CAS(unsigned int)
SMEMKIT_CAS(unsigned long long)
SMEMKIT_CAS(unsigned short)
#undef SMEMKIT_CAS

#endif
