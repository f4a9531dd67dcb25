/* Owners of other libraries' arrays that are kept alive until the GPU no longer uses their memory. */
#ifndef SMEMKIT_ARRAY_RETIREMENT_H
#define SMEMKIT_ARRAY_RETIREMENT_H

#include "python/state.h"

#include "device/device.h"

/* An Array that shares the memory of another library's GPU array; a copy if its elements have to be converted,
 * unless `copy` is False. NULL with an exception, or without one if it is not such an array. */
PyObject *array_from_foreign(const struct module_state *, PyObject *, const char *name, PyObject *copy);
enum { MAX_KEPT_ALIVE = 3 };

/* Keeps up to MAX_KEPT_ALIVE owners of other libraries' arrays alive until the work now on the stream is done, so
 * that their memory is not reused earlier. Steals the references. */
void foreign_keep_alive(struct device *, device_stream, PyObject *const *owners, int count);

/* Releases the owners whose work is done. */
void foreign_release_finished(void);

#endif
