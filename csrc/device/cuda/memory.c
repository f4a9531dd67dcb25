/* Memory of the CUDA devices: one stream-ordered memory pool per device.
 *
 * The pool caches released memory, so that an allocation seldom takes more than a microsecond. It returns memory
 * to the device when that runs short, or when empty_cache() is called.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* Memory whose release is deferred to the end of a capture. */
struct deferred {
    struct deferred *next;
    void *memory;
    device_stream stream;
};

/* Gives the other GPUs access to a new pool, so that copies between them have the link's full speed. Without
 * access they are correct but slower, and so they stay below compute capability 9.0, where this has not been
 * tried: see peer.c. */
static void share_pool(const struct device *device, cudaMemPool_t pool)
{
    enum { TRIED = 9 };
    int devices = 0;

    (void)cudaGetDeviceCount(&devices);
    for (int peer = 0; peer < devices && device->capability >= 10 * TRIED; peer++) {
        const struct cudaMemAccessDesc access = {.location = {cudaMemLocationTypeDevice, peer},
                                                 .flags = cudaMemAccessFlagsProtReadWrite};
        int reaches = 0, major = 0;

        if (peer != device->ordinal && !cudaDeviceCanAccessPeer(&reaches, peer, device->ordinal) && reaches &&
            !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, peer) && major >= TRIED)
            (void)cudaMemPoolSetAccess(pool, &access, 1);
    }
    (void)cudaGetLastError(); /* a failure only costs speed */
}

static cudaMemPool_t new_pool(struct device *device, struct failure *failure)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, device->ordinal}};
    uint64_t threshold = UINT64_MAX;
    cudaMemPool_t pool = NULL;

    if (!CHECK(cudaMemPoolCreate(&pool, &props)))
        return NULL;
    if (!CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold))) {
        (void)cudaMemPoolDestroy(pool);
        return NULL;
    }
    share_pool(device, pool);
    return pool;
}

/* The pool, created at first use. */
static cudaMemPool_t find_pool(struct device *device, struct failure *failure)
{
    static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
    struct gpu *gpu = &gpus[device->ordinal];
    cudaMemPool_t pool = atomic_load(&gpu->pool);

    if (pool != NULL)
        return pool;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();

    pthread_mutex_lock(&creating);
    pool = atomic_load(&gpu->pool);
    if (pool == NULL)
        atomic_store(&gpu->pool, pool = new_pool(device, failure));
    pthread_mutex_unlock(&creating);
    gpu_restore_capture_mode(mode);
    return pool;
}

bool cuda_trim_memory_pool(struct device *device, struct failure *failure)
{
    cudaMemPool_t pool = find_pool(device, failure);

    return pool != NULL && CHECK(cudaDeviceSynchronize()) && CHECK(cudaMemPoolTrimTo(pool, 0));
}

static void set_out_of_memory(struct device *device, size_t bytes, struct failure *failure)
{
    size_t available = 0, total = 0;

    (void)cudaMemGetInfo(&available, &total);
    (void)cudaGetLastError();
    failure_set(failure, FAILURE_MEMORY, "out of memory on %s: %zu bytes requested, %zu of %zu bytes free",
                device->name, bytes, available, total);
    failure->code = cudaErrorMemoryAllocation;
    snprintf(failure->name, sizeof failure->name, "cudaErrorMemoryAllocation");
}

/* Whether the device may be synchronised without breaking a known capture. */
static bool may_synchronize_device(struct device *device, device_stream stream)
{
    return atomic_load(&gpus[device->ordinal].captures) == 0 && !gpu_is_capturing(stream);
}

static void defer(struct gpu *gpu, struct deferred *entry)
{
    entry->next = atomic_load(&gpu->deferred);
    while (!atomic_compare_exchange_weak(&gpu->deferred, &entry->next, entry))
        ;
}

/* Frees deferred memory, except of streams that are still captured. The device is current. */
void cuda_run_deferred_frees(struct device *device)
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

/* If the device runs short, trims the pool and tries once more. */
bool cuda_allocate(struct device *device, size_t bytes, device_stream stream, void **memory,
                   struct failure *failure)
{
    struct saved_context saved;
    cudaMemPool_t pool;
    bool ok = false;

    *memory = NULL;
    if (bytes == 0)
        return true;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    pool = find_pool(device, failure);
    if (pool == NULL)
        goto done;
    ok = CHECK(cudaMallocFromPoolAsync(memory, bytes, pool, stream));
    if (ok || failure->kind != FAILURE_MEMORY)
        goto done;
    if (may_synchronize_device(device, stream)) {
        cuda_run_deferred_frees(device);
        if (!cuda_trim_memory_pool(device, failure))
            goto done;
        *failure = (struct failure){0};
        ok = CHECK(cudaMallocFromPoolAsync(memory, bytes, pool, stream));
    }
    if (!ok && failure->kind == FAILURE_MEMORY)
        set_out_of_memory(device, bytes, failure);
done:
    if (!ok)
        *memory = NULL;
    gpu_restore_context(&saved);
    return ok;
}

/* `memory` may be NULL. On a captured stream CUDA frees only memory that was allocated in the capture; other
 * memory is deferred to its end. A failure is ignored; a fatal one marks the device as lost for the next call. */
void cuda_release(struct device *device, void *memory, device_stream stream)
{
    struct saved_context saved;
    struct failure ignored, *failure = &ignored;

    if (memory == NULL || !gpu_make_current(device, &saved, failure))
        return;
    if (atomic_load(&gpus[device->ordinal].deferred) != NULL)
        cuda_run_deferred_frees(device);
    /* the default stream is never captured, and must not be queried while another stream is */
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    const bool later = stream == NULL && gpu_is_capturing(NULL);
    if (later || (!CHECK(cudaFreeAsync(memory, stream)) && !failure->fatal && gpu_is_capturing(stream))) {
        struct deferred *entry = malloc(sizeof *entry);
        if (entry != NULL) {
            *entry = (struct deferred){NULL, memory, stream};
            defer(&gpus[device->ordinal], entry);
        }
    }
    gpu_restore_capture_mode(mode);
    gpu_restore_context(&saved);
}

/* ---- single numbers that the host reads directly ---- */

/* A value that kernels are unlikely to write: quiet NaNs with a payload, all of whose bytes differ. */
static const uint64_t UNWRITTEN_SENTINEL = UINT64_C(0x7FC9A5B37FE2D891);

/* Allocated once and kept: pinning synchronises the device. */
static bool allocate_result_slots(struct device *device, struct result_slots *result_slots)
{
    struct failure ignored, *failure = &ignored;

    if (!result_slots->tried) {
        const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();

        result_slots->tried = true;
        if (!CHECK(cudaHostAlloc((void **)&result_slots->memory, RESULT_SLOTS * RESULT_SLOT_BYTES,
                                 cudaHostAllocPortable)))
            result_slots->memory = NULL;
        gpu_restore_capture_mode(mode);
        for (int i = 0; result_slots->memory != NULL && i < RESULT_SLOTS; i++)
            result_slots->free[result_slots->free_count++] = (unsigned char)i;
    }
    return result_slots->memory != NULL;
}

/* Slots in use become free once the default stream is idle, which comes after all their uses. */
static void reclaim_result_slots(struct result_slots *result_slots)
{
    if (result_slots->pending_count > 0 && cudaStreamQuery(NULL) == cudaSuccess)
        while (result_slots->pending_count > 0)
            result_slots->free[result_slots->free_count++] = result_slots->pending[--result_slots->pending_count];
    (void)cudaGetLastError();
}

void *cuda_allocate_result_slot(struct device *device)
{
    struct result_slots *result_slots = &gpus[device->ordinal].result_slots;
    struct failure ignored;
    struct saved_context saved;
    char *memory = NULL;

    if (!gpu_make_current(device, &saved, &ignored))
        return NULL;
    pthread_mutex_lock(&result_slots->lock);
    if (allocate_result_slots(device, result_slots)) {
        if (result_slots->free_count == 0)
            reclaim_result_slots(result_slots);
        if (result_slots->free_count > 0) {
            memory = result_slots->memory + RESULT_SLOT_BYTES * result_slots->free[--result_slots->free_count];
            *(volatile uint64_t *)memory = UNWRITTEN_SENTINEL;
        }
    }
    pthread_mutex_unlock(&result_slots->lock);
    gpu_restore_context(&saved);
    return memory;
}

void cuda_release_result_slot(struct device *device, void *memory, bool unused)
{
    struct result_slots *result_slots = &gpus[device->ordinal].result_slots;
    const unsigned char slot = (unsigned char)(((char *)memory - result_slots->memory) / RESULT_SLOT_BYTES);

    if (gpu_is_forked())
        return;
    pthread_mutex_lock(&result_slots->lock);
    if (unused)
        result_slots->free[result_slots->free_count++] = slot;
    else
        result_slots->pending[result_slots->pending_count++] = slot;
    pthread_mutex_unlock(&result_slots->lock);
}

/* Whether the kernel's store is visible. */
static bool is_written(const volatile void *memory, size_t bytes)
{
    switch (bytes) {
    case 1:
        return *(const volatile uint8_t *)memory != (uint8_t)UNWRITTEN_SENTINEL;
    case 2:
        return *(const volatile uint16_t *)memory != (uint16_t)UNWRITTEN_SENTINEL;
    case 4:
        return *(const volatile uint32_t *)memory != (uint32_t)UNWRITTEN_SENTINEL;
    default:
        return *(const volatile uint64_t *)memory != UNWRITTEN_SENTINEL;
    }
}

/* The host sees a kernel's store some microseconds before CUDA reports that the kernel is done. If the kernel
 * takes longer or fails, or its number equals the initial value of the slot, the stream is synchronised. */
bool cuda_read_result_slot(struct device *device, const void *memory, size_t bytes, bool awaited, void *to,
                           struct failure *failure)
{
    enum { MAX_POLLS = 20000 };
    struct saved_context saved;

    for (int i = 0; awaited && i < MAX_POLLS && !gpu_is_forked(); i++)
        if (is_written(memory, bytes)) {
            atomic_thread_fence(memory_order_acquire);
            memcpy(to, memory, bytes);
            return true;
        }
    if (!gpu_make_current(device, &saved, failure))
        return false;
    const bool ok = CHECK(cudaStreamSynchronize(NULL));
    if (ok)
        memcpy(to, memory, bytes);
    gpu_restore_context(&saved);
    return ok;
}

/* ---- zeroed workspaces ---- */

/* The identity and the graph of a stream's capture; 0 and NULL if it is not captured. */
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

static bool allocate_zeroed(struct device *device, void **memory)
{
    struct failure ignored, *failure = &ignored;
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    cudaStream_t stream = NULL;
    bool ok = CHECK(cudaMalloc(memory, WORKSPACE_BYTES));

    if (ok &&
        !(CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) &&
          CHECK(cudaMemsetAsync(*memory, 0, WORKSPACE_BYTES, stream)) && CHECK(cudaStreamSynchronize(stream)))) {
        (void)cudaFree(*memory);
        ok = false;
    }
    if (stream != NULL)
        (void)cudaStreamDestroy(stream);
    gpu_restore_capture_mode(mode);
    return ok;
}

/* Called when the graph and its executables are destroyed. No CUDA function may be called here. */
static void release_workspace(void *workspace)
{
    atomic_store(&((struct zeroed_workspace *)workspace)->unused, true);
}

/* Reserves the workspace for as long as the graph exists. */
static bool bind_workspace(struct device *device, struct zeroed_workspace *workspace, cudaGraph_t graph)
{
    struct failure ignored, *failure = &ignored;
    cudaUserObject_t object = NULL;

    if (!CHECK(cudaUserObjectCreate(&object, workspace, release_workspace, 1, cudaUserObjectNoDestructorSync))) {
        release_workspace(workspace);
        return false;
    }
    if (CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove)))
        return true;
    (void)cudaUserObjectRelease(object, 1); /* which releases the workspace eventually */
    return false;
}

/* An unused workspace, or NULL. */
static struct zeroed_workspace *find_workspace(struct device *device, struct zeroed_workspaces *workspaces)
{
    struct zeroed_workspace *workspace;

    for (workspace = workspaces->first; workspace; workspace = workspace->next)
        if (atomic_load(&workspace->unused))
            return workspace;
    if (workspaces->count == MAX_WORKSPACES || !(workspace = calloc(1, sizeof *workspace)))
        return NULL;
    if (!allocate_zeroed(device, &workspace->memory)) {
        free(workspace);
        return NULL;
    }
    atomic_init(&workspace->unused, true);
    workspace->next = workspaces->first;
    workspaces->first = workspace;
    workspaces->count++;
    return workspace;
}

static void *workspace_of_stream(struct device *device, struct zeroed_workspaces *workspaces,
                                 unsigned long long stream, unsigned long long capture, cudaGraph_t graph)
{
    struct zeroed_workspace *workspace;

    for (workspace = workspaces->first; workspace; workspace = workspace->next)
        if (!atomic_load(&workspace->unused) && workspace->stream == stream && workspace->capture == capture)
            return workspace->memory;
    if ((!capture && stream && workspaces->streams == MAX_STREAM_WORKSPACES) ||
        !(workspace = find_workspace(device, workspaces)))
        return NULL;
    workspace->stream = stream;
    workspace->capture = capture;
    atomic_store(&workspace->unused, false);
    if (capture && !bind_workspace(device, workspace, graph)) {
        workspace->stream = ULLONG_MAX; /* not usable until it is released */
        return NULL;
    }
    workspaces->streams += !capture && stream;
    return workspace->memory;
}

void *cuda_zeroed_workspace(struct device *device, size_t bytes, device_stream stream)
{
    struct zeroed_workspaces *workspaces = &gpus[device->ordinal].workspaces;
    struct failure ignored, *failure = &ignored;
    struct saved_context saved;
    unsigned long long id = 0, capture;
    cudaGraph_t graph;
    void *memory = NULL;

    if (bytes > WORKSPACE_BYTES || !gpu_make_current(device, &saved, failure))
        return NULL;
    bool ok = find_capture(stream, &capture, &graph);
    if (capture) /* cudaStreamGetId would end the capture; the address is unique while it lasts */
        id = (uintptr_t)stream;
    else if (stream != NULL)
        ok = ok && CHECK(cudaStreamGetId(stream, &id));
    if (ok) {
        pthread_mutex_lock(&workspaces->lock);
        memory = workspace_of_stream(device, workspaces, stream == NULL ? 0 : id + 1, capture, graph);
        pthread_mutex_unlock(&workspaces->lock);
    }
    (void)cudaGetLastError();
    gpu_restore_context(&saved);
    return memory;
}

/* Frees unused workspaces; what CUDA refuses to free, as during a capture, is kept. cudaFree synchronises the
 * device, so the lock is not held meanwhile. */
static void free_workspaces(struct zeroed_workspaces *workspaces)
{
    struct zeroed_workspace **link = &workspaces->first, *workspace, *taken = NULL;

    pthread_mutex_lock(&workspaces->lock);
    while ((workspace = *link))
        if (atomic_load(&workspace->unused)) {
            *link = workspace->next;
            workspace->next = taken;
            taken = workspace;
            workspaces->count--;
        } else {
            link = &workspace->next;
        }
    pthread_mutex_unlock(&workspaces->lock);
    while ((workspace = taken)) {
        taken = workspace->next;
        if (cudaFree(workspace->memory) == cudaSuccess) {
            free(workspace);
            continue;
        }
        (void)cudaGetLastError();
        pthread_mutex_lock(&workspaces->lock);
        workspace->next = workspaces->first;
        workspaces->first = workspace;
        workspaces->count++;
        pthread_mutex_unlock(&workspaces->lock);
    }
}

/* The bytes of all unused workspaces. */
static size_t unused_workspace_bytes(struct zeroed_workspaces *workspaces)
{
    size_t bytes = 0;

    pthread_mutex_lock(&workspaces->lock);
    for (const struct zeroed_workspace *workspace = workspaces->first; workspace; workspace = workspace->next)
        bytes += atomic_load(&workspace->unused) ? WORKSPACE_BYTES : 0;
    pthread_mutex_unlock(&workspaces->lock);
    return bytes;
}

/* ---- free memory and statistics ---- */

/* The pool's free memory is known at once; asking the device takes longer than many calls. */
size_t cuda_available_bytes(struct device *device, size_t enough)
{
    struct saved_context saved;
    struct failure ignored, *failure = &ignored;
    size_t available = 0, total = 0;
    uint64_t reserved = 0, used = 0, spare;

    if (!gpu_make_current(device, &saved, failure))
        return 0;
    cudaMemPool_t pool = find_pool(device, failure);
    if (pool == NULL || !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved)) ||
        !CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used)))
        reserved = used = 0;
    spare = reserved > used ? reserved - used : 0; /* the pool may have grown meanwhile */
    if (spare < enough && !CHECK(cudaMemGetInfo(&available, &total)))
        available = 0;
    gpu_restore_context(&saved);
    return available + (size_t)spare;
}

bool cuda_memory_stats(struct device *device, struct memory_stats *stats, struct failure *failure)
{
    const enum cudaMemPoolAttr attributes[] = {cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh,
                                               cudaMemPoolAttrReservedMemCurrent};
    size_t *const values[] = {&stats->used, &stats->peak, &stats->reserved};
    struct saved_context saved;
    uint64_t value = 0;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    cudaMemPool_t pool = find_pool(device, failure);
    bool ok = pool != NULL;
    for (int i = 0; ok && i < 3; i++) {
        ok = CHECK(cudaMemPoolGetAttribute(pool, attributes[i], &value));
        *values[i] = (size_t)value;
    }
    if (ok) /* empty_cache frees these, too */
        stats->reserved += unused_workspace_bytes(&gpus[device->ordinal].workspaces);
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_empty_cache(struct device *device, struct failure *failure)
{
    struct saved_context saved;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    cuda_run_deferred_frees(device);
    cuda_unpin_free_memory();
    bool ok = cuda_trim_memory_pool(device, failure);
    if (ok)
        free_workspaces(&gpus[device->ordinal].workspaces);
    gpu_restore_context(&saved);
    return ok;
}
