/* assert in a kernel aborts the launch, not the process; in host code it aborts as usual. No include guard, like
 * <assert.h>. */
#include_next <assert.h>

#ifndef NDEBUG
#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : smemkit_trap("assertion failed: " #condition, __FILE__, __LINE__))
#endif
