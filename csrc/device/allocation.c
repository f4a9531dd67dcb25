/* Memory of any device. See allocation.h. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "allocation.h"
#include "base/failure.h"
#include "base/strided_copy.h"
#include "device.h"

/* Per process: live allocations, and the countdown to the allocation that fails (0: none). */
static atomic_long live, fail_countdown;

long device_live_allocations(void)
{
    return atomic_load(&live);
}

long device_fail_allocation(long countdown)
{
    const long before = atomic_exchange(&fail_countdown, countdown);

    return before > 0 ? before : 0;
}

/* Whether this allocation has to fail, for a test. */
static bool must_fail(const struct device *device, size_t bytes, struct failure *failure)
{
    if (!bytes || atomic_load(&fail_countdown) <= 0 || atomic_fetch_sub(&fail_countdown, 1) != 1)
        return false;
    failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes requested, for a test", device->name,
                bytes);
    return true;
}

bool device_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                     struct failure *failure)
{
    *memory = NULL;
    if (must_fail(device, bytes, failure))
        return false;
    if (!device->type->allocate(device, bytes, stream, memory, failure))
        return false;
    if (*memory)
        atomic_fetch_add(&live, 1);
    return true;
}

void device_release(struct device *device, void *memory, device_stream stream)
{
    if (memory)
        atomic_fetch_sub(&live, 1);
    device->type->release(device, memory, stream);
}

bool device_allocate_result_slot(struct device *device, void **memory, struct failure *failure)
{
    *memory = NULL;
    if (must_fail(device, MAX_RESULT_BYTES, failure))
        return false;
    if (device->type->allocate_result_slot)
        *memory = device->type->allocate_result_slot(device);
    if (*memory)
        atomic_fetch_add(&live, 1);
    return *memory != NULL;
}

void device_release_result_slot(struct device *device, void *memory, bool unused)
{
    atomic_fetch_sub(&live, 1);
    device->type->release_result_slot(device, memory, unused);
}

bool device_read(struct device *device, void *to, const void *from, size_t bytes, device_stream stream,
                 struct failure *failure)
{
    const struct segments segments = {.data = to, .segment_bytes = bytes};
    struct transfer *download;

    return device->type->download_begin(device, &segments, from, stream, &download, failure) &&
           device->type->download_end(device, download, NULL, failure);
}
