/* Copies between the host and a GPU at the speed of the link.
 *
 * DMA can only access pinned host memory. For pageable memory CUDA copies through a small pinned buffer with one
 * thread, at a fifth of the link's bandwidth. Here a pool of threads does this for each direction: a copy is
 * divided into chunks, and each thread takes the next one. Uploads go through a pinned ring buffer, in order; a
 * thread that has filled its piece of the ring submits all filled pieces, unless another thread is doing so, which
 * keeps the number of CUDA calls low. Downloads go through two pinned slots per thread: while DMA fills one, the
 * thread empties the other. Newly allocated host memory is faulted in by the threads that write to it, as huge
 * pages if possible; a chunk of a large download is one huge page.
 *
 * The pools start with the first large copy and stay, with their pinned memory: pinning costs more than any copy.
 * Small copies are done directly, in stream order, and so are copies from and to memory that is already pinned.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "copy_pool.h"

static const size_t MIN_CHUNK = (size_t)256 << 10;
/* up to this size, waking a thread takes longer than copying */
static const size_t DIRECT_BYTES = (size_t)256 << 10;

struct transfer {
    struct job job;
    struct pool *pool; /* NULL: a direct copy */
    char *packed; /* contiguous copy of a small strided download, from which it is scattered; NULL for others */
};

/* The size of `count` chunks of whole pages, clamped to [least, most]. */
static size_t choose_chunk_bytes(size_t bytes, size_t count, size_t least, size_t most)
{
    const size_t page = 4096, chunk = (bytes / count + page - 1) / page * page;

    return chunk < least ? least : chunk > most ? most : chunk;
}

/* `memory` is on the device; NULL if host memory is only faulted in. */
static void init_job(struct job *job, enum direction direction, const struct segments *segments, void *memory)
{
    const size_t bytes = segments_bytes(segments);

    *job = (struct job){.segments = *segments, .memory = memory, .bytes = bytes, .prefault_only = memory == NULL};
    job->open = direction == UP || job->prefault_only;
    job->chunk = choose_chunk_bytes(bytes, 16, MIN_CHUNK, MAX_CHUNK[direction]);
    job->first_chunk = job->chunk;
    if (direction == DOWN && segments->ndim == 0 && bytes >= 2 * HUGE_PAGE_BYTES) {
        const uintptr_t begin =
            ((uintptr_t)segments->data + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        const uintptr_t end = ((uintptr_t)segments->data + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;

        job->fresh = true;
        if (bytes >= 8 * HUGE_PAGE_BYTES || job->prefault_only)
            job->chunk = job->first_chunk =
                HUGE_PAGE_BYTES; /* two threads that fault in the same page wait for each other */
#ifdef MADV_HUGEPAGE
        if (end > begin) /* only advice: failure does not matter */
            (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
        if (job->chunk == HUGE_PAGE_BYTES && begin != (uintptr_t)segments->data)
            job->first_chunk = begin - (uintptr_t)segments->data;
    }
    job->chunks =
        1 + (bytes - (job->first_chunk < bytes ? job->first_chunk : bytes) + job->chunk - 1) / job->chunk;
    atomic_init(&job->chunks_left, job->chunks);
    pthread_cond_init(&job->done, NULL);
}

static void enqueue_job(struct pool *pool, struct job *job)
{
    lock_pool(pool);
    job->interval.from = host_seconds();
    if (pool->last)
        pool->last->next = job;
    else
        pool->first = job;
    pool->last = job;
    atomic_fetch_add(&pool->untaken_jobs, !job->prefault_only);
    atomic_fetch_add(&pool->ready_jobs, !job->prefault_only);
    const int sleepers = reserve_sleepers(pool);
    pthread_mutex_unlock(&pool->lock);
    wake_threads(pool, sleepers);
}

/* Waits until all chunks are done. False with the failure of the first failed one. */
static bool wait_for_job(struct device *device, struct pool *pool, struct job *job, struct failure *failure)
{
    for (const double end = host_seconds() + LONG_SPIN_SECONDS;
         atomic_load(&job->chunks_left) > 0 && host_seconds() < end;)
        pause_briefly();
    lock_pool(pool);
    while (atomic_load(&job->chunks_left) > 0)
        pthread_cond_wait(&job->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_destroy(&job->done);
    return gpu_check(device, job->code, job->call, failure);
}

static bool fail_host_allocation(struct failure *failure)
{
    failure_set(failure, FAILURE_MEMORY, "out of memory on the host");
    return false;
}

/* Whether CUDA knows the memory as pinned or managed, so that DMA can access it. */
static bool is_pinned(const void *memory)
{
    struct cudaPointerAttributes attributes = {0};

    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
        return attributes.type != cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return false;
}

static void destroy_transfer(struct transfer *transfer)
{
    if (transfer->job.ready != NULL)
        (void)cudaEventDestroy(transfer->job.ready);
    if (transfer->job.sent != NULL)
        (void)cudaEventDestroy(transfer->job.sent);
    free(transfer->packed);
    free(transfer);
}

static bool upload_by_pool(struct device *device, struct pool *pool, void *to, const struct segments *from,
                           device_event free, device_stream stream, struct transfer **started,
                           struct failure *failure)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    cudaEvent_t sent = NULL;

    if (transfer == NULL)
        return fail_host_allocation(failure);
    const bool ok = CHECK(cudaEventCreateWithFlags(&sent, cudaEventDisableTiming)) &&
                    (free ? CHECK(cudaStreamWaitEvent(pool->stream, free, 0))
                          : gpu_stream_wait_stream(device, pool->stream, stream, failure));
    init_job(&transfer->job, UP, from, to);
    transfer->job.sent = sent;
    transfer->pool = pool;
    if (ok) {
        enqueue_job(pool, &transfer->job);
        *started = transfer;
    } else {
        destroy_transfer(transfer);
    }
    return ok;
}

/* In stream order, from memory that may change after the return. */
static bool upload_directly(struct device *device, void *to, const struct segments *from, device_stream stream,
                            bool pinned, struct failure *failure)
{
    const size_t bytes = segments_bytes(from);
    char *packed = from->ndim ? malloc(bytes) : NULL;
    bool ok = !from->ndim || packed;

    if (packed)
        segments_copy(from, 0, bytes, packed, true);
    else if (!ok)
        (void)fail_host_allocation(failure);
    ok = ok && CHECK(cudaMemcpyAsync(to, packed ? packed : from->data, bytes, cudaMemcpyHostToDevice, stream)) &&
         (!pinned || CHECK(cudaStreamSynchronize(stream)));
    free(packed);
    return ok;
}

bool cuda_upload_begin(struct device *device, void *to, const struct segments *from, device_event free,
                       device_stream stream, struct transfer **started, struct failure *failure)
{
    const size_t bytes = segments_bytes(from);
    struct pool *pool = NULL;
    struct saved_context saved;
    bool ok;

    *started = NULL;
    if (bytes == 0)
        return true;
    if (!gpu_make_current(device, &saved, failure))
        return false;
    const bool pinned = from->ndim == 0 && is_pinned(from->data);
    if (bytes > DIRECT_BYTES && !pinned && !gpu_is_capturing(stream))
        pool = find_pool(device, UP);
    ok = pool ? upload_by_pool(device, pool, to, from, free, stream, started, failure)
              : (!free || CHECK(cudaStreamWaitEvent(stream, free, 0))) &&
                    upload_directly(device, to, from, stream, pinned, failure);
    gpu_restore_context(&saved);
    return ok;
}

bool cuda_upload_end(struct device *device, struct transfer *transfer, device_stream stream,
                     struct interval *interval, struct failure *failure)
{
    struct job *job = &transfer->job;
    struct saved_context saved;
    bool ok = wait_for_job(device, transfer->pool, job, failure);
    const bool entered = gpu_make_current(device, &saved, failure);
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();

    ok = ok && entered && CHECK(cudaStreamWaitEvent(stream, job->sent, 0));
    if (!ok) /* other chunks may still be in flight, and their memory is released next */
        (void)cudaStreamSynchronize(transfer->pool->stream);
    if (ok && interval) { /* measuring requires waiting for the end */
        const bool done = cudaEventQuery(job->sent) == cudaSuccess;

        (void)cudaGetLastError();
        ok = CHECK(cudaEventSynchronize(job->sent));
        *interval = (struct interval){job->interval.from, done ? job->interval.to : host_seconds()};
    }
    destroy_transfer(transfer);
    gpu_restore_capture_mode(mode);
    if (entered)
        gpu_restore_context(&saved);
    return ok;
}

static bool download_by_pool(struct device *device, struct pool *pool, const struct segments *to, const void *from,
                             device_stream stream, struct transfer *transfer, struct failure *failure)
{
    cudaEvent_t ready = NULL;
    const bool ok =
        CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming)) && CHECK(cudaEventRecord(ready, stream));

    init_job(&transfer->job, DOWN, to, (void *)from);
    transfer->job.ready = ready;
    transfer->pool = pool;
    if (ok)
        enqueue_job(pool, &transfer->job);
    return ok;
}

static bool download_directly(struct device *device, const struct segments *to, const void *from,
                              device_stream stream, struct transfer *transfer, struct failure *failure)
{
    const size_t bytes = segments_bytes(to);

    transfer->job.segments = *to;
    transfer->job.bytes = bytes;
    if (to->ndim && !(transfer->packed = malloc(bytes)))
        return fail_host_allocation(failure);
    if (!CHECK(cudaEventCreateWithFlags(&transfer->job.sent, cudaEventDisableTiming)) ||
        !CHECK(cudaMemcpyAsync(transfer->packed ? transfer->packed : to->data, from, bytes, cudaMemcpyDeviceToHost,
                               stream)))
        return false;
    const bool ok = CHECK(cudaEventRecord(transfer->job.sent, stream));

    if (!ok) /* DMA may still be writing `packed` */
        (void)cudaStreamSynchronize(stream);
    return ok;
}

bool cuda_download_begin(struct device *device, const struct segments *to, const void *from, device_stream stream,
                         struct transfer **started, struct failure *failure)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    struct pool *pool = NULL;
    struct saved_context saved;
    bool ok;

    *started = NULL;
    if (!transfer) {
        return fail_host_allocation(failure);
    }
    if (!gpu_make_current(device, &saved, failure)) {
        free(transfer);
        return false;
    }
    if (segments_bytes(to) > DIRECT_BYTES && !(to->ndim == 0 && is_pinned(to->data)) && !gpu_is_capturing(stream))
        pool = find_pool(device, DOWN);
    ok = pool ? download_by_pool(device, pool, to, from, stream, transfer, failure)
              : download_directly(device, to, from, stream, transfer, failure);
    if (ok)
        *started = transfer;
    else
        destroy_transfer(transfer);
    gpu_restore_context(&saved);
    return ok;
}

void cuda_prefault(struct device *device, void *memory, size_t bytes, struct transfer **started)
{
    const struct segments segments = {.data = memory, .segment_bytes = bytes};
    struct failure ignored, *failure = &ignored;
    struct saved_context saved;
    struct pool *pool;

    *started = NULL;
    if (bytes < 2 * HUGE_PAGE_BYTES || cuda_pinned_bytes(memory) || !gpu_make_current(device, &saved, failure))
        return;
    if ((pool = find_pool(device, DOWN)) && (*started = calloc(1, sizeof **started))) {
        init_job(&(*started)->job, DOWN, &segments, NULL);
        (*started)->pool = pool;
        enqueue_job(pool, &(*started)->job);
    }
    gpu_restore_context(&saved);
}

bool cuda_download_end(struct device *device, struct transfer *transfer, struct interval *interval,
                       struct failure *failure)
{
    struct saved_context saved;
    bool ok, entered;

    if (transfer->pool) {
        ok = wait_for_job(device, transfer->pool, &transfer->job, failure);
        if (interval)
            *interval = transfer->job.interval;
        entered = gpu_make_current(device, &saved, failure);
    } else {
        entered = gpu_make_current(device, &saved, failure);
        ok = entered && CHECK(cudaEventSynchronize(transfer->job.sent));
        if (ok && transfer->packed)
            segments_copy(&transfer->job.segments, 0, transfer->job.bytes, transfer->packed, false);
    }
    destroy_transfer(transfer);
    if (entered)
        gpu_restore_context(&saved);
    return ok && entered;
}

bool cuda_pinned_copy(struct device *device, size_t bytes, bool to_device, double *seconds,
                      struct failure *failure)
{
    void *host = NULL, *memory = NULL;
    cudaEvent_t events[2] = {NULL, NULL};
    struct saved_context saved;
    float milliseconds = 0;

    if (!gpu_make_current(device, &saved, failure))
        return false;
    bool ok = CHECK(cudaHostAlloc(&host, bytes, cudaHostAllocDefault)) &&
              cuda_allocate(device, bytes, NULL, &memory, failure) && CHECK(cudaEventCreate(&events[0])) &&
              CHECK(cudaEventCreate(&events[1]));
    if (ok)
        memset(host, 1, bytes);
    for (int turn = 0; ok && turn < 2; turn++) /* the first is a warm-up */
        ok = CHECK(cudaEventRecord(events[0], NULL)) &&
             CHECK(cudaMemcpyAsync(to_device ? memory : host, to_device ? host : memory, bytes, cudaMemcpyDefault,
                                   NULL)) &&
             CHECK(cudaEventRecord(events[1], NULL)) && CHECK(cudaEventSynchronize(events[1])) &&
             CHECK(cudaEventElapsedTime(&milliseconds, events[0], events[1]));
    *seconds = milliseconds * 1e-3;
    for (int i = 0; i < 2; i++)
        if (events[i] != NULL)
            (void)cudaEventDestroy(events[i]);
    cuda_release(device, memory, NULL);
    if (host != NULL)
        (void)cudaFreeHost(host);
    gpu_restore_context(&saved);
    return ok;
}
