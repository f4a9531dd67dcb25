/* The operators of cooperative_groups::reduce and scans. */
#ifndef SMEMKIT_FUNCTIONAL_H
#define SMEMKIT_FUNCTIONAL_H

#include <cooperative_groups.h>

namespace cooperative_groups
{

#define SMEMKIT_OPERATOR(name, expression)            \
    template <class T>                                \
    struct name {                                     \
        SMEMKIT_NO_HOOKS T operator()(T a, T b) const \
        {                                             \
            return expression;                        \
        }                                             \
    };
SMEMKIT_OPERATOR(plus, a + b)
SMEMKIT_OPERATOR(less, b < a ? b : a)
SMEMKIT_OPERATOR(greater, a < b ? b : a)
SMEMKIT_OPERATOR(bit_and, a &b)
SMEMKIT_OPERATOR(bit_or, a | b)
SMEMKIT_OPERATOR(bit_xor, a ^ b)
#undef SMEMKIT_OPERATOR

} // namespace cooperative_groups

#endif
