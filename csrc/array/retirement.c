/* Keeps owners of other libraries' arrays alive until the work on their memory is done. */
#include "python/state.h"

#include <string.h>

#include "base/failure.h"
#include "device/device.h"
#include "foreign.h"
#include "retirement.h"
#include "stream.h"

struct retired {
    struct retired *next;
    struct device *device;
    device_event done;
    int count;
    PyObject *owners[MAX_KEPT_ALIVE];
};

/* Per process, protected by the lock: entries, oldest first, and spare ones, whose events are reused. */
static struct retired *first_retired, **last_retired = &first_retired, *spare_retired;
static int spares;
static pthread_mutex_t retiring = PTHREAD_MUTEX_INITIALIZER;

/* A new entry with an event recorded on the stream; NULL on failure. */
static struct retired *new_retired(struct device *device, device_stream stream)
{
    struct retired *retired, **link = &spare_retired;
    struct failure ignored = {0};
    bool ok;

    pthread_mutex_lock(&retiring);
    while ((retired = *link) && retired->device != device)
        link = &retired->next;
    if (retired) {
        *link = retired->next;
        spares--;
    }
    pthread_mutex_unlock(&retiring);
    if (retired) {
        ok = device->type->record_event(device, stream, retired->done, &ignored);
        if (!ok)
            device->type->destroy_event(device, retired->done);
    } else {
        retired = PyMem_RawCalloc(1, sizeof *retired);
        ok = retired && device->type->record_new_event(device, stream, &retired->done, &ignored);
    }
    if (ok) {
        retired->next = NULL;
        retired->device = device;
        return retired;
    }
    PyMem_RawFree(retired);
    return NULL;
}

/* Releases the entry's owners, and keeps it as a spare if there are few. */
static void release_retired(struct retired *retired)
{
    enum { MAX_SPARES = 32 };
    PyObject *owners[MAX_KEPT_ALIVE];
    const int count = retired->count;
    bool kept;

    memcpy(owners, retired->owners, sizeof owners);
    pthread_mutex_lock(&retiring);
    kept = spares < MAX_SPARES;
    if (kept) {
        retired->count = 0;
        retired->next = spare_retired;
        spare_retired = retired;
        spares++;
    }
    pthread_mutex_unlock(&retiring);
    if (!kept) {
        retired->device->type->destroy_event(retired->device, retired->done);
        PyMem_RawFree(retired);
    }
    for (int i = 0; i < count; i++) {
        if (PyCapsule_IsValid(owners[i], FOREIGN_OWNER))
            foreign_of(owners[i])->sync_device = NULL;
        Py_DECREF(owners[i]);
    }
}

/* Removes the oldest entry if its work is done or its device is lost; NULL otherwise. */
static struct retired *take_retired(void)
{
    struct failure ignored = {0};
    struct retired *retired;
    bool done = true;

    pthread_mutex_lock(&retiring);
    retired = first_retired;
    if (retired && retired->device->type->query_event(retired->device, retired->done, &done, &ignored) && !done)
        retired = NULL;
    if (retired) {
        first_retired = retired->next;
        if (!first_retired)
            last_retired = &first_retired;
    }
    pthread_mutex_unlock(&retiring);
    return retired;
}

void foreign_release_finished(void)
{
    struct retired *retired;

    while ((retired = take_retired()))
        release_retired(retired);
}

void foreign_keep_alive(struct device *device, device_stream stream, PyObject *const *owners, int count)
{
    const bool captured =
        device->type->is_capturing(device, stream); /* the caller who replays the graph keeps the arrays alive */
    struct failure ignored = {0};
    struct retired *retired = NULL;

    foreign_release_finished();
    Py_BEGIN_ALLOW_THREADS /* the stream's queue may be full */
    if (!captured && !(retired = new_retired(device, stream)))
        device->type->synchronize_stream(device, stream, &ignored);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < count && !retired; i++) {
        if (captured && PyCapsule_IsValid(owners[i], FOREIGN_OWNER))
            foreign_of(owners[i])->sync_device = NULL;
        Py_DECREF(owners[i]);
    }
    if (!retired)
        return;
    retired->count = count;
    memcpy(retired->owners, owners, (size_t)count * sizeof *owners);
    pthread_mutex_lock(&retiring);
    *last_retired = retired;
    last_retired = &retired->next;
    pthread_mutex_unlock(&retiring);
}
