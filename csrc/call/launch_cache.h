/* The launches of earlier calls, for calls like them. */
#ifndef SMEMKIT_CALL_LAUNCH_CACHE_H
#define SMEMKIT_CALL_LAUNCH_CACHE_H

#include "python/state.h"

#include "array/array.h"

/* The launches of a call; only a single launch can be cached. */
struct launch_record {
    int launches;
    const struct kernel_row *row;
    union {
        void *addresses[4];
        char bytes[320];
    } args;
};

void launch_record_add(struct launch_record *, const struct kernel_row *, const void *args);

/* `operation` encodes the operation and its options; the operands end with out, which may be NULL for a
 * 0-dimensional result. False if the call is not in the cache; nothing has happened then. Otherwise *result is its
 * result, or NULL with an exception.
 */
bool launch_cache_run(const struct module_state *, unsigned operation, PyObject *const *operands, int count,
                      PyObject **result);

/* Caches a call's launch, if it can be repeated. */
void launch_cache_store(const struct module_state *, unsigned operation, PyObject *const *operands, int count,
                        const struct launch_record *, size_t scratch_bytes, PyObject *result);

/* Forgets all launches, so that the next calls choose again. */
void launch_cache_clear(void);

#endif
