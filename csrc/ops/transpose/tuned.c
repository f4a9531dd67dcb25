/* The thresholds of the transposes' policy on a device: the table's, or those that `python -m smemkit tune` has
 * found on this machine's GPU. A transpose moves elements and computes nothing, so its bits do not depend on them.
 */
#include "python/state.h"

#include <pthread.h>
#include <string.h>

#include "call/launch_cache.h"
#include "device/recorder.h"
#include "transpose.h"

static const struct threshold rows[] = {
#define CHOICE(name, scale, unit, columns, why) {#name, scale, unit, why, true, {columns}},
#define SPLIT(name, scale, unit, columns, why)  {#name, scale, unit, why, false, {columns}},
#include "thresholds.def"
#undef CHOICE
#undef SPLIT
};

enum { THRESHOLDS = sizeof rows / sizeof *rows, DEVICES = 1 + 64 /* the CPU, and the GPUs that smemkit counts */ };

_Static_assert((int)THRESHOLDS <= MAX_THRESHOLDS, "the buffers for a table's values have room for them");

const struct threshold_table transpose_threshold_table = {OP_transpose, THRESHOLDS, rows};

/* Of the process, by ordinal + 1; protected by the lock. */
static struct {
    bool loaded; /* the cache was looked up, or the values were set */
    bool tuned;
    int64_t values[THRESHOLDS];
} tuned[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void set_tuned_thresholds(const struct device *device, const int64_t *values)
{
    pthread_mutex_lock(&lock);
    tuned[device->ordinal + 1].loaded = true;
    tuned[device->ordinal + 1].tuned = values != NULL;
    if (values)
        memcpy(tuned[device->ordinal + 1].values, values, sizeof tuned->values);
    pthread_mutex_unlock(&lock);
    launch_cache_clear(); /* of launches that the former thresholds chose */
}

bool get_tuned_thresholds(const struct device *device, int64_t *values)
{
    bool found;

    pthread_mutex_lock(&lock);
    found = tuned[device->ordinal + 1].tuned;
    if (found)
        memcpy(values, tuned[device->ordinal + 1].values, sizeof tuned->values);
    pthread_mutex_unlock(&lock);
    return found;
}

struct transpose_thresholds transpose_thresholds(const struct device *device)
{
    struct transpose_thresholds limits;
    int64_t values[THRESHOLDS];

    _Static_assert(sizeof limits == sizeof values, "one member per row, in the same order");
    if (recorder_is_another(device) || !get_tuned_thresholds(device, values))
        read_thresholds(&transpose_threshold_table, device, values);
    memcpy(&limits, values, sizeof limits);
    return limits;
}

bool load_tuned_thresholds(struct device *device, device_stream stream)
{
    PyObject *module, *done = NULL;
    bool loaded;

    if (!device_is_host(device) && device->type->is_capturing(device, stream))
        return true; /* reading the GPU's properties might break the capture */
    pthread_mutex_lock(&lock);
    loaded = tuned[device->ordinal + 1].loaded;
    tuned[device->ordinal + 1].loaded = true; /* also for the transposes of other threads, which do not wait */
    pthread_mutex_unlock(&lock);
    if (loaded)
        return true;
    module = PyImport_ImportModule("smemkit.measure.tuned");
    if (module)
        done = PyObject_CallMethod(module, "load", "s", device->name);
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done != NULL;
}
