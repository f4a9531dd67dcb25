/* malloc, free, new and delete of kernels. Compiled once, and linked into every library of a user's kernels. They
 * are hidden there, and weak, so that a library that has its own keeps them.
 */
#include <stdlib.h>

#include "executor.h"

#define OWN_UNLESS_DEFINED __attribute__((visibility("hidden"), weak))
#define CALLER             __builtin_return_address(0)

OWN_UNLESS_DEFINED void *malloc(size_t bytes)
{
    return smemkit_heap_allocate(bytes);
}

OWN_UNLESS_DEFINED void free(void *memory)
{
    smemkit_heap_release(memory, CALLER);
}

static void *new_memory(size_t bytes)
{
    void *memory = smemkit_heap_allocate(bytes ? bytes : 1);

    if (!memory && !smemkit_in_kernel()) /* the host's new never returns NULL, and C cannot throw */
        abort();
    return memory;
}

#define NEW(name)                               \
    OWN_UNLESS_DEFINED void *name(size_t bytes) \
    {                                           \
        return new_memory(bytes);               \
    }
#define DELETE(name)                           \
    OWN_UNLESS_DEFINED void name(void *memory) \
    {                                          \
        smemkit_heap_release(memory, CALLER);  \
    }
#define DELETE_SIZED(name)                                   \
    OWN_UNLESS_DEFINED void name(void *memory, size_t bytes) \
    {                                                        \
        (void)bytes;                                         \
        smemkit_heap_release(memory, CALLER);                \
    }

NEW(_Znwm) /* operator new(size_t), and of arrays */
NEW(_Znam)
DELETE(_ZdlPv) /* operator delete(void *), and of arrays */
DELETE(_ZdaPv)
DELETE_SIZED(_ZdlPvm) /* operator delete(void *, size_t), and of arrays */
DELETE_SIZED(_ZdaPvm)
