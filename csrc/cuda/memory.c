/* The memory of the CUDA devices: a pool of ours on each, in the order of the streams.
 *
 * The pool keeps what is released, so that an allocation seldom costs more than a microsecond, and gives it back
 * when the device runs short, or when empty_cache() is called.
 */
#include <limits.h>
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
    struct failure ignored, *failure = &ignored;
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
    struct failure ignored, *failure = &ignored;

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
    struct failure ignored, *failure = &ignored;

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
    struct failure ignored;
    struct visit visit;
    char *memory = NULL;

    if (!gpu_enter(device, &visit, &ignored))
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

/* ---- zeros ---- */

/* What is captured on a stream: the capture's identity, and the graph; 0 and NULL where nothing is. */
static bool find_capture(cudaStream_t stream, unsigned long long *id, cudaGraph_t *graph)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    *id = 0;
    *graph = NULL;
    if (stream == NULL)
        return true;
#if CUDART_VERSION >= 13000
    cudaError_t code = cudaStreamGetCaptureInfo(stream, &status, id, graph, NULL, NULL, NULL);
#else
    cudaError_t code = cudaStreamGetCaptureInfo_v2(stream, &status, id, graph, NULL, NULL);
#endif
    if (status == cudaStreamCaptureStatusNone)
        *id = 0;
    return code == cudaSuccess && status != cudaStreamCaptureStatusInvalidated;
}

static bool make_zeros(struct device *device, void **memory)
{
    struct failure ignored, *failure = &ignored;
    const enum cudaStreamCaptureMode mode = gpu_relax();
    cudaStream_t own = NULL;
    bool ok = CHECK(cudaMalloc(memory, ZEROS));

    if (ok && !(CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)) &&
                CHECK(cudaMemsetAsync(*memory, 0, ZEROS, own)) && CHECK(cudaStreamSynchronize(own)))) {
        (void)cudaFree(*memory);
        ok = false;
    }
    if (own != NULL)
        (void)cudaStreamDestroy(own);
    gpu_unrelax(mode);
    return ok;
}

/* The graph is gone, and whatever ran it. No function of CUDA may be called here. */
static void leave_zeros(void *place)
{
    atomic_store(&((struct zeros_place *)place)->unused, true);
}

/* Who has `place` has it as long as the graph is there. */
static bool bind_zeros(struct device *device, struct zeros_place *place, cudaGraph_t graph)
{
    struct failure ignored, *failure = &ignored;
    cudaUserObject_t object = NULL;

    if (!CHECK(cudaUserObjectCreate(&object, place, leave_zeros, 1, cudaUserObjectNoDestructorSync))) {
        leave_zeros(place);
        return false;
    }
    if (CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove)))
        return true;
    (void)cudaUserObjectRelease(object, 1); /* which leaves the place, some time */
    return false;
}

/* A place that nobody has. NULL where there is none. */
static struct zeros_place *find_place(struct device *device, struct zeros *zeros)
{
    struct zeros_place *place;

    for (place = zeros->first; place; place = place->next)
        if (atomic_load(&place->unused))
            return place;
    if (zeros->count == MOST_ZEROS || !(place = calloc(1, sizeof *place)))
        return NULL;
    if (!make_zeros(device, &place->memory)) {
        free(place);
        return NULL;
    }
    atomic_init(&place->unused, true);
    place->next = zeros->first;
    zeros->first = place;
    zeros->count++;
    return place;
}

static void *zeros_of(struct device *device, struct zeros *zeros, unsigned long long stream,
                      unsigned long long capture, cudaGraph_t graph)
{
    struct zeros_place *place;

    for (place = zeros->first; place; place = place->next)
        if (!atomic_load(&place->unused) && place->stream == stream && place->capture == capture)
            return place->memory;
    if ((!capture && stream && zeros->streams == STREAM_ZEROS) || !(place = find_place(device, zeros)))
        return NULL;
    place->stream = stream;
    place->capture = capture;
    atomic_store(&place->unused, false);
    if (capture && !bind_zeros(device, place, graph)) {
        place->stream = ULLONG_MAX; /* nobody's, until it is left */
        return NULL;
    }
    zeros->streams += !capture && stream;
    return place->memory;
}

void *cuda_zeros(struct device *device, size_t bytes, device_stream stream)
{
    struct zeros *zeros = &gpus[device->ordinal].zeros;
    struct failure ignored, *failure = &ignored;
    struct visit visit;
    unsigned long long id = 0, capture;
    cudaGraph_t graph;
    void *memory = NULL;

    if (bytes > ZEROS || !gpu_enter(device, &visit, failure))
        return NULL;
    bool ok = find_capture(stream, &capture, &graph);
    if (capture) /* to ask for its identity would end the capture, as long as which no other has its address */
        id = (uintptr_t)stream;
    else if (stream != NULL)
        ok = ok && CHECK(cudaStreamGetId(stream, &id));
    if (ok) {
        pthread_mutex_lock(&zeros->lock);
        memory = zeros_of(device, zeros, stream == NULL ? 0 : id + 1, capture, graph);
        pthread_mutex_unlock(&zeros->lock);
    }
    (void)cudaGetLastError();
    gpu_leave(&visit);
    return memory;
}

/* Gives back the places that nobody has; what CUDA keeps, as while somebody captures, stays. It waits for the
 * device: nobody waits for the lock meanwhile. */
static void free_places(struct zeros *zeros)
{
    struct zeros_place **link = &zeros->first, *place, *taken = NULL;

    pthread_mutex_lock(&zeros->lock);
    while ((place = *link))
        if (atomic_load(&place->unused)) {
            *link = place->next;
            place->next = taken;
            taken = place;
            zeros->count--;
        } else {
            link = &place->next;
        }
    pthread_mutex_unlock(&zeros->lock);
    while ((place = taken)) {
        taken = place->next;
        if (cudaFree(place->memory) == cudaSuccess) {
            free(place);
            continue;
        }
        (void)cudaGetLastError();
        pthread_mutex_lock(&zeros->lock);
        place->next = zeros->first;
        zeros->first = place;
        zeros->count++;
        pthread_mutex_unlock(&zeros->lock);
    }
}

/* Bytes of those places. */
static size_t bytes_kept(struct zeros *zeros)
{
    size_t bytes = 0;

    pthread_mutex_lock(&zeros->lock);
    for (const struct zeros_place *place = zeros->first; place; place = place->next)
        bytes += atomic_load(&place->unused) ? ZEROS : 0;
    pthread_mutex_unlock(&zeros->lock);
    return bytes;
}

/* ---- what there is ---- */

/* What the pool has is known at once; what the device has, to ask for takes longer than many a call. */
size_t cuda_free_memory(struct device *device, size_t enough)
{
    struct visit visit;
    struct failure ignored, *failure = &ignored;
    size_t available = 0, total = 0;
    uint64_t reserved = 0, used = 0, spare;

    if (!gpu_enter(device, &visit, failure))
        return 0;
    cudaMemPool_t pool = find_pool(device, failure);
    if (pool == NULL || !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved)) ||
        !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used)))
        reserved = used = 0;
    spare = reserved > used ? reserved - used : 0; /* the pool may have grown in between */
    if (spare < enough && !CHECK(cudaMemGetInfo(&available, &total)))
        available = 0;
    gpu_leave(&visit);
    return available + (size_t)spare;
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
    if (ok) /* as the pool's, they are what empty_cache gives back */
        stats->reserved += bytes_kept(&gpus[device->ordinal].zeros);
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
    if (ok)
        free_places(&gpus[device->ordinal].zeros);
    gpu_leave(&visit);
    return ok;
}
