/* assert ends the launch, not the process. Outside kernels it aborts, as ever. No guard: <assert.h> has none. */
#include_next <assert.h>

#ifndef NDEBUG
#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : smemkit_trap("assertion failed: " #condition, __FILE__, __LINE__))
#endif
