/* PTX's registers, types and addresses. A register holds bits: uint16_t, uint32_t, uint64_t, and bool for
 * predicates. A type, ptx_s32, says how an instruction reads them. smemkit/cuda_source/ptx_instructions.py names
 * the functions of this folder; the prefix keeps them apart from the macros of a source. */
#ifndef SMEMKIT_PTX_REGISTERS_H
#define SMEMKIT_PTX_REGISTERS_H

#include <cuda_runtime.h>

#include "../../../ptx.h"
#include "../narrow_bits.h"

namespace smemkit
{

using ptx_b8 = uint8_t;
using ptx_b16 = uint16_t;
using ptx_b32 = uint32_t;
using ptx_b64 = uint64_t;
using ptx_u8 = uint8_t;
using ptx_u16 = uint16_t;
using ptx_u32 = uint32_t;
using ptx_u64 = uint64_t;
using ptx_s8 = int8_t;
using ptx_s16 = int16_t;
using ptx_s32 = int32_t;
using ptx_s64 = int64_t;
using ptx_f32 = float;
using ptx_f64 = double;
using ptx_pred = bool;

/* The types that C++ lacks. `value`: what is computed with. */
struct ptx_f16 {
    using value = float;
    SMEMKIT_NO_HOOKS static float from(uint64_t bits)
    {
        return float16_to_float((uint16_t)bits);
    }
    SMEMKIT_NO_HOOKS static uint16_t to(float x)
    {
        return float16_from_float(x);
    }
};
struct ptx_bf16 {
    using value = float;
    SMEMKIT_NO_HOOKS static float from(uint64_t bits)
    {
        return bfloat16_to_float((uint16_t)bits);
    }
    SMEMKIT_NO_HOOKS static uint16_t to(float x)
    {
        return bfloat16_from_float(x);
    }
};
struct ptx_f16x2 {
    using half = ptx_f16;
};
struct ptx_bf16x2 {
    using half = ptx_bf16;
};

template <class T>
struct ptx_bits_of {
    using type = typename bits_of<sizeof(T)>::type;
};
template <>
struct ptx_bits_of<ptx_f16> {
    using type = uint16_t;
};
template <>
struct ptx_bits_of<ptx_bf16> {
    using type = uint16_t;
};
template <class T>
using ptx_bits = typename ptx_bits_of<T>::type;

/* The value of a register's low bits, and the reverse. */
template <class T>
SMEMKIT_INLINE auto ptx_value(uint64_t bits)
{
    if constexpr (std::is_same_v<T, ptx_f16> || std::is_same_v<T, ptx_bf16>)
        return T::from(bits);
    else if constexpr (std::is_floating_point_v<T>)
        return bit_copy<T>((ptx_bits<T>)bits);
    else
        return (T)bits;
}
template <class T>
SMEMKIT_INLINE auto ptx_to_bits(T value)
{
    return bit_copy<ptx_bits<T>>(value);
}

/* An operand of asm, as the bits that its constraint requires. */
template <char Constraint, class T>
SMEMKIT_INLINE auto ptx_operand(T value)
{
    constexpr bool number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
    if constexpr (Constraint == 'f' || Constraint == 'd') {
        static_assert(std::is_arithmetic_v<T>, "the constraint \"f\" or \"d\" needs a number");
        return ptx_to_bits((std::conditional_t<Constraint == 'f', float, double>)value);
    } else {
        static_assert((number && !std::is_floating_point_v<T>) || std::is_pointer_v<T>,
                      "the constraints \"h\", \"r\", \"l\" and \"n\" need an integer or a pointer");
        return (uint64_t)value;
    }
}
template <class Target, class Bits>
SMEMKIT_INLINE auto ptx_as(Bits bits)
{
    using T = std::remove_cv_t<std::remove_reference_t<Target>>;
    if constexpr (std::is_floating_point_v<T>) {
        static_assert(sizeof(T) == sizeof(Bits), "an output's type and its constraint differ in size");
        return bit_copy<T>(bits);
    } else {
        return (T)bits;
    }
}

/* The meaning of the operand _ */
struct ptx_nothing {
    template <class T>
    SMEMKIT_NO_HOOKS void operator=(T) const
    {
    }
};

template <class T>
SMEMKIT_INLINE T ptx_saturated(int64_t x)
{
    constexpr int64_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
    return (T)(x < least ? least : x > most ? most : x);
}

/* ---- operations on values, which instructions and atomics share ---- */

#define SMEMKIT_PTX_OPERATION(name, parameters, expression) \
    struct ptx_##name##_op {                                \
        template <class T>                                  \
        SMEMKIT_NO_HOOKS auto operator() parameters const   \
        {                                                   \
            return expression;                              \
        }                                                   \
    };
SMEMKIT_PTX_OPERATION(add, (T x, T y), x + y)
SMEMKIT_PTX_OPERATION(sub, (T x, T y), x - y)
SMEMKIT_PTX_OPERATION(mul, (T x, T y), x *y)
SMEMKIT_PTX_OPERATION(div, (T x, T y), x / y)
SMEMKIT_PTX_OPERATION(and, (T x, T y), x &y)
SMEMKIT_PTX_OPERATION(or, (T x, T y), x | y)
SMEMKIT_PTX_OPERATION(xor, (T x, T y), x ^ y)
SMEMKIT_PTX_OPERATION(min, (T x, T y), y < x ? y : x)
SMEMKIT_PTX_OPERATION(max, (T x, T y), x < y ? y : x)
SMEMKIT_PTX_OPERATION(exch, (T, T y), y)
SMEMKIT_PTX_OPERATION(inc, (T x, T y), x >= y ? (T)0 : (T)(x + 1))
SMEMKIT_PTX_OPERATION(dec, (T x, T y), x == 0 || x > y ? y : (T)(x - 1))

/* ---- addresses ---- */

/* A 32-bit address of PTX's shared window, and the generic address that it stands for. An address outside the
 * block's shared memory is not translated: an access there is a fault like any other. */
SMEMKIT_INLINE char *ptx_at_shared(uint64_t address)
{
    return (char *)__cvta_shared_to_generic((size_t)address);
}
SMEMKIT_INLINE char *ptx_at_generic(uint64_t address)
{
    return (char *)address;
}
#define SMEMKIT_PTX_SPACE(name)                                    \
    SMEMKIT_INLINE char *ptx_at_##name(uint64_t address)           \
    {                                                              \
        return (char *)address;                                    \
    }                                                              \
    SMEMKIT_INLINE uint64_t ptx_window_of_##name(uint64_t address) \
    {                                                              \
        return address;                                            \
    }
SMEMKIT_PTX_SPACE(global)
SMEMKIT_PTX_SPACE(local)
SMEMKIT_PTX_SPACE(const)
SMEMKIT_PTX_SPACE(param)
#undef SMEMKIT_PTX_SPACE
SMEMKIT_INLINE uint64_t ptx_window_of_shared(uint64_t address)
{
    return __cvta_generic_to_shared((const void *)address);
}
SMEMKIT_INLINE bool ptx_is_shared(uint64_t address)
{
    return smemkit_is_shared((const void *)address);
}
SMEMKIT_INLINE bool ptx_is_global(uint64_t address)
{
    return __isGlobal((const void *)address);
}
SMEMKIT_INLINE bool ptx_is_local(uint64_t address)
{
    return __isLocal((const void *)address);
}
SMEMKIT_INLINE bool ptx_is_const(uint64_t address)
{
    return __isConstant((const void *)address);
}

} // namespace smemkit

#endif
