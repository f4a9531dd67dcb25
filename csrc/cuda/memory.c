/* The memory of the CUDA devices: a pool of ours on each, in the order of the streams.
 *
 * The pool keeps what is released, so that an allocation seldom costs more than a microsecond, and gives it back
 * when the device runs short, or when empty_cache() is called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* Memory whose release waits for the end of a capture. */
struct deferred {
    struct deferred *next;
    void *memory;
    device_stream stream;
};

/* The pool, made at first use. It keeps what is released. */
static cudaMemPool_t find_pool(struct device *device, struct failure *failure)
{
    struct gpu *gpu = &gpus[device->ordinal];
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, device->ordinal}};
    cudaMemPool_t pool = atomic_load(&gpu->pool), none = NULL;
    uint64_t keep = UINT64_MAX;

    if (pool != NULL)
        return pool;
    if (!CHECK(cudaMemPoolCreate(&pool, &props)))
        return NULL;
    if (!CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)) ||
        !atomic_compare_exchange_strong(&gpu->pool, &none, pool)) {
        (void)cudaMemPoolDestroy(pool); /* or another thread was first */
        pool = none;
    }
    return pool;
}

bool cuda_trim(struct device *device, struct failure *failure)
{
    cudaMemPool_t pool = find_pool(device, failure);

    return pool != NULL && CHECK(cudaDeviceSynchronize()) && CHECK(cudaMemPoolTrimTo(pool, 0));
}

static void set_out_of_memory(struct device *device, size_t bytes, struct failure *failure)
{
    size_t available = 0, total = 0;

    (void)cudaMemGetInfo(&available, &total);
    (void)cudaGetLastError();
    failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes asked, %zu of %zu bytes free",
                device->name, bytes, available, total);
    failure->code = cudaErrorMemoryAllocation;
    snprintf(failure->name, sizeof failure->name, "cudaErrorMemoryAllocation");
}

/* True where a wait for the whole device would break nobody's capture that we know of. */
static bool may_wait(struct device *device, device_stream stream)
{
    return atomic_load(&gpus[device->ordinal].captures) == 0 && !gpu_is_capturing(stream);
}

static void defer(struct gpu *gpu, struct deferred *entry)
{
    entry->next = atomic_load(&gpu->deferred);
    while (!atomic_compare_exchange_weak(&gpu->deferred, &entry->next, entry))
        ;
}

/* Frees what was deferred, but for streams that are still captured. The device is current. */
void cuda_free_deferred(struct device *device)
{
    struct gpu *gpu = &gpus[device->ordinal];
    struct failure unheard, *failure = &unheard;
    struct deferred *next, *entry = atomic_exchange(&gpu->deferred, NULL);

    for (; entry != NULL; entry = next) {
        next = entry->next;
        if (gpu_is_capturing(entry->stream)) {
            defer(gpu, entry);
        } else {
            (void)CHECK(cudaFreeAsync(entry->memory, entry->stream));
            free(entry);
        }
    }
}

/* Where the device runs short, the pool gives back what it holds before the second and last try. */
bool cuda_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                   struct failure *failure)
{
    struct visit visit;
    cudaMemPool_t pool;
    bool ok = false;

    *memory = NULL;
    if (bytes == 0)
        return true;
    if (!gpu_enter(device, &visit, failure))
        return false;
    pool = find_pool(device, failure);
    if (pool == NULL)
        goto done;
    ok = CHECK(cudaMallocFromPoolAsync(memory, bytes, pool, stream));
    if (ok || failure->kind != FAILURE_MEMORY)
        goto done;
    if (may_wait(device, stream)) {
        cuda_free_deferred(device);
        if (!cuda_trim(device, failure))
            goto done;
        *failure = (struct failure){0};
        ok = CHECK(cudaMallocFromPoolAsync(memory, bytes, pool, stream));
    }
    if (!ok && failure->kind == FAILURE_MEMORY)
        set_out_of_memory(device, bytes, failure);
done:
    if (!ok)
        *memory = NULL;
    gpu_leave(&visit);
    return ok;
}

/* NULL is fine. On a captured stream CUDA frees only what the capture allocated; the rest is deferred to its end.
 * Nobody could act on a failure; one that is fatal marks the device lost for the next call. */
void cuda_release(struct device *device, void *memory, device_stream stream)
{
    struct visit visit;
    struct failure unheard, *failure = &unheard;

    if (memory == NULL || !gpu_enter(device, &visit, failure))
        return;
    if (atomic_load(&gpus[device->ordinal].deferred) != NULL)
        cuda_free_deferred(device);
    /* the default stream is never captured itself, and must not be asked while another's capture forbids it */
    const enum cudaStreamCaptureMode mode = gpu_relax();
    const bool later = stream == NULL && gpu_is_capturing(NULL);
    if (later || (!CHECK(cudaFreeAsync(memory, stream)) && !failure->fatal && gpu_is_capturing(stream))) {
        struct deferred *entry = malloc(sizeof *entry);
        if (entry != NULL) {
            *entry = (struct deferred){NULL, memory, stream};
            defer(&gpus[device->ordinal], entry);
        }
    }
    gpu_unrelax(mode);
    gpu_leave(&visit);
}

/* ---- numbers on their way to the host ---- */

/* What no kernel is likely to write: two quiet NaNs with a payload, whose every byte is another one. */
static const uint64_t NOTHING_YET = UINT64_C(0x7FC9A5B37FE2D891);

/* Once, and then for good: pinning waits for the device. */
static bool have_places(struct device *device, struct places *places)
{
    struct failure unheard, *failure = &unheard;

    if (!places->tried) {
        const enum cudaStreamCaptureMode mode = gpu_relax();

        places->tried = true;
        if (!CHECK(cudaHostAlloc((void **)&places->memory, PLACES * PLACE_BYTES, cudaHostAllocPortable)))
            places->memory = NULL;
        gpu_unrelax(mode);
        for (int i = 0; places->memory != NULL && i < PLACES; i++)
            places->free[places->free_count++] = (unsigned char)i;
    }
    return places->memory != NULL;
}

/* What was used is free once the default stream is done, which comes after all that may touch it. */
static void reclaim_places(struct places *places)
{
    if (places->used_count > 0 && cudaStreamQuery(NULL) == cudaSuccess)
        while (places->used_count > 0)
            places->free[places->free_count++] = places->used[--places->used_count];
    (void)cudaGetLastError();
}

void *cuda_allocate_result(struct device *device)
{
    struct places *places = &gpus[device->ordinal].places;
    struct failure unheard;
    struct visit visit;
    char *memory = NULL;

    if (!gpu_enter(device, &visit, &unheard))
        return NULL;
    pthread_mutex_lock(&places->lock);
    if (have_places(device, places)) {
        if (places->free_count == 0)
            reclaim_places(places);
        if (places->free_count > 0) {
            memory = places->memory + PLACE_BYTES * places->free[--places->free_count];
            *(volatile uint64_t *)memory = NOTHING_YET;
        }
    }
    pthread_mutex_unlock(&places->lock);
    gpu_leave(&visit);
    return memory;
}

void cuda_release_result(struct device *device, void *memory, bool unused)
{
    struct places *places = &gpus[device->ordinal].places;
    const unsigned char place = (unsigned char)(((char *)memory - places->memory) / PLACE_BYTES);

    if (gpu_is_forked())
        return;
    pthread_mutex_lock(&places->lock);
    if (unused)
        places->free[places->free_count++] = place;
    else
        places->used[places->used_count++] = place;
    pthread_mutex_unlock(&places->lock);
}

/* Whether the kernel's one store has come. */
static bool has_arrived(const volatile void *memory, size_t bytes)
{
    switch (bytes) {
    case 1:
        return *(const volatile uint8_t *)memory != (uint8_t)NOTHING_YET;
    case 2:
        return *(const volatile uint16_t *)memory != (uint16_t)NOTHING_YET;
    case 4:
        return *(const volatile uint32_t *)memory != (uint32_t)NOTHING_YET;
    default:
        return *(const volatile uint64_t *)memory != NOTHING_YET;
    }
}

/* The host sees a kernel's store some microseconds before CUDA can say that the kernel is done. One that takes
 * longer, has failed, or whose number is what the place held before, is waited for as all work is. */
bool cuda_read_result(struct device *device, const void *memory, size_t bytes, bool awaited, void *to,
                      struct failure *failure)
{
    enum { LOOKS = 20000 };
    struct visit visit;

    for (int i = 0; awaited && i < LOOKS && !gpu_is_forked(); i++)
        if (has_arrived(memory, bytes)) {
            atomic_thread_fence(memory_order_acquire);
            memcpy(to, memory, bytes);
            return true;
        }
    if (!gpu_enter(device, &visit, failure))
        return false;
    const bool ok = CHECK(cudaStreamSynchronize(NULL));
    if (ok)
        memcpy(to, memory, bytes);
    gpu_leave(&visit);
    return ok;
}

/* ---- tickets ---- */

/* Once, and then for good. */
static bool have_tickets(struct device *device, struct tickets *tickets)
{
    const size_t bytes = (TICKET_STREAMS * TICKETS + CAPTURED_TICKETS) * sizeof(unsigned);
    struct failure unheard, *failure = &unheard;

    if (!tickets->tried) {
        const enum cudaStreamCaptureMode mode = gpu_relax();
        cudaStream_t own = NULL;

        tickets->tried = true;
        tickets->stream_count = 1; /* the default stream, which is number 0 */
        if (CHECK(cudaMalloc((void **)&tickets->memory, bytes)) &&
            !(CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)) &&
              CHECK(cudaMemsetAsync(tickets->memory, 0, bytes, own)) && CHECK(cudaStreamSynchronize(own)))) {
            (void)cudaFree(tickets->memory);
            tickets->memory = NULL;
        }
        if (own != NULL)
            (void)cudaStreamDestroy(own);
        gpu_unrelax(mode);
    }
    return tickets->memory != NULL;
}

/* The stream's place among those that have tickets; -1 where all places are taken. */
static int place_of_stream(struct tickets *tickets, unsigned long long stream)
{
    for (int i = 0; i < tickets->stream_count; i++)
        if (tickets->streams[i] == stream)
            return i;
    if (tickets->stream_count == TICKET_STREAMS)
        return -1;
    tickets->streams[tickets->stream_count] = stream;
    return tickets->stream_count++;
}

/* A captured launch may be replayed beside anything but itself: its tickets are nobody else's. */
unsigned *cuda_tickets(struct device *device, int count, device_stream stream)
{
    struct tickets *tickets = &gpus[device->ordinal].tickets;
    struct failure unheard, *failure = &unheard;
    struct visit visit;
    unsigned long long id;
    unsigned *memory = NULL;

    if (count > TICKETS || !gpu_enter(device, &visit, failure))
        return NULL;
    pthread_mutex_lock(&tickets->lock);
    if (have_tickets(device, tickets)) {
        if (stream != NULL && gpu_is_capturing(stream)) {
            if (count <= CAPTURED_TICKETS - tickets->captured) {
                memory = tickets->memory + TICKET_STREAMS * TICKETS + tickets->captured;
                tickets->captured += count;
            }
        } else if (stream == NULL || CHECK(cudaStreamGetId(stream, &id))) {
            const int place = place_of_stream(tickets, stream == NULL ? 0 : id + 1);

            memory = place < 0 ? NULL : tickets->memory + place * TICKETS;
        }
    }
    pthread_mutex_unlock(&tickets->lock);
    gpu_leave(&visit);
    return memory;
}

/* ---- what there is ---- */

size_t cuda_room(struct device *device)
{
    struct visit visit;
    struct failure unheard, *failure = &unheard;
    size_t available = 0, total = 0;
    uint64_t reserved = 0, used = 0;

    if (!gpu_enter(device, &visit, failure))
        return 0;
    cudaMemPool_t pool = find_pool(device, failure);
    if (pool == NULL || !CHECK(cudaMemGetInfo(&available, &total)) ||
        !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved)) ||
        !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used)))
        available = 0;
    gpu_leave(&visit);
    return available + (size_t)(reserved - used);
}

bool cuda_memory_stats(struct device *device, struct memory_stats *stats, struct failure *failure)
{
    const enum cudaMemPoolAttr attributes[] = {cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh,
                                               cudaMemPoolAttrReservedMemCurrent};
    size_t *const values[] = {&stats->used, &stats->peak, &stats->reserved};
    struct visit visit;
    uint64_t value = 0;

    if (!gpu_enter(device, &visit, failure))
        return false;
    cudaMemPool_t pool = find_pool(device, failure);
    bool ok = pool != NULL;
    for (int i = 0; ok && i < 3; i++) {
        ok = CHECK(cudaMemPoolGetAttribute(pool, attributes[i], &value));
        *values[i] = (size_t)value;
    }
    gpu_leave(&visit);
    return ok;
}

bool cuda_empty_cache(struct device *device, struct failure *failure)
{
    struct visit visit;

    if (!gpu_enter(device, &visit, failure))
        return false;
    cuda_free_deferred(device);
    bool ok = cuda_trim(device, failure);
    gpu_leave(&visit);
    return ok;
}
