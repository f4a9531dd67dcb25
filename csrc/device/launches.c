/* The number of launches of this process. */
#include "launches.h"

#include <stdatomic.h>

static atomic_ullong launches;

unsigned long long launch_count(void)
{
    return atomic_load(&launches);
}

void launch_counted(void)
{
    atomic_fetch_add(&launches, 1);
}
