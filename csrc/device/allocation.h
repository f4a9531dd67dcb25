/* Memory of any device. Allocations are counted, so that tests find leaks; tests can make one fail. */
#ifndef SMEMKIT_DEVICE_ALLOCATION_H
#define SMEMKIT_DEVICE_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "device.h"

/* device->type's allocate and release. */
bool device_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void device_release(struct device *, void *memory, device_stream);
bool device_allocate_result_slot(struct device *, void **memory, struct failure *);

/* `unused`: no work on a stream accesses it. */
void device_release_result_slot(struct device *, void *memory, bool unused);

/* A synchronous copy to the host. */
bool device_read(struct device *, void *to, const void *from, size_t bytes, device_stream, struct failure *);

long device_live_allocations(void);
/* For tests: makes the `countdown`-th allocation from now fail; 0: none. Returns the remaining countdown of the
 * previous call. */
long device_fail_allocation(long countdown);

#endif
