/* The scope of a thread's calls. */
#include "scope.h"

#include <stddef.h>

static _Thread_local struct scope thread_scope;

const struct scope *current_scope(void)
{
    return &thread_scope;
}

struct scope scope_set(struct scope inner)
{
    const struct scope outer = thread_scope;

    thread_scope = inner;
    return outer;
}
