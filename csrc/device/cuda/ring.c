/* The pinned ring buffer of uploads: threads fill pieces of it, in order, and one of them submits filled pieces.
 */
#define _GNU_SOURCE
#include <semaphore.h>

#include "copy_pool.h"

static char *ring_address(const struct ring *ring, const struct piece *piece)
{
    return ring->memory + piece->ring_position % RING_BYTES;
}

/* Allocates a piece of the ring for the job's next chunk; NULL if there is no space. With the lock held. */
static struct piece *allocate_ring_chunk(struct ring *ring, struct job *job)
{
    struct piece *piece = &ring->pieces[ring->taken % MAX_RING_CHUNKS];
    size_t begin, end, position = ring->head;

    chunk_range(job, job->taken, &begin, &end);
    if (position % RING_BYTES + (end - begin) > RING_BYTES) /* a piece must not wrap around */
        position += RING_BYTES - position % RING_BYTES;
    if (position + (end - begin) - ring->tail > RING_BYTES || ring->taken - ring->sent == MAX_RING_CHUNKS)
        return NULL;
    *piece = (struct piece){job, begin, end, position, false};
    ring->head = position + (end - begin + RING_ALIGNMENT - 1) / RING_ALIGNMENT * RING_ALIGNMENT;
    ring->taken++;
    return piece;
}

/* Waits until ring space may be free: for the oldest batch, or for the thread that waits for it or submits one.
 * Called with the lock held, which it releases while waiting.
 */
static void wait_for_ring_space(struct pool *pool)
{
    struct ring *ring = &pool->ring;
    const struct transfer_batch *oldest = &ring->batches[ring->done % MAX_BATCHES];

    if (ring->awaiting || ring->done == ring->issued) {
        pthread_cond_wait(&ring->space, &pool->lock);
        return;
    }
    ring->awaiting = true;
    pthread_mutex_unlock(&pool->lock);
    (void)cudaEventSynchronize(oldest->done); /* if it fails, so will the next CUDA call */
    lock_pool(pool);
    ring->awaiting = false;
    ring->tail = oldest->until;
    ring->done++;
    pthread_cond_broadcast(&ring->space);
}

struct job *take_chunk(struct pool *pool, bool wait, size_t *index, struct piece **piece)
{
    struct job *job, *before;

    if (wait)
        spin_for_work(pool);
    lock_pool(pool);
    for (;;) {
        job = pool->closing ? NULL : find_job(pool, &before);
        if (job && job->open) {
            if (pool->direction == DOWN || (*piece = allocate_ring_chunk(&pool->ring, job)))
                break;
            wait_for_ring_space(pool);
            continue;
        }
        if (!wait || pool->closing) {
            job = NULL;
            break;
        }
        if (job) {
            wait_until_ready(pool, job);
            continue;
        }
        pool->sleeping++;
        pthread_mutex_unlock(&pool->lock);
        while (sem_wait(&pool->work) != 0) {
        }
        lock_pool(pool);
    }
    if (job) {
        *index = job->taken++;
        pool->faulting += job->prefault_only;
        if (job->taken == job->chunks) {
            atomic_fetch_sub(&pool->untaken_jobs, !job->prefault_only);
            atomic_fetch_sub(&pool->ready_jobs, !job->prefault_only);
            *(before ? &before->next : &pool->first) = job->next;
            if (pool->last == job)
                pool->last = before;
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

/* With the lock held. */
static void complete_chunk_locked(struct pool *pool, struct job *job, cudaError_t code, const char *call)
{
    pool->faulting -= job->prefault_only;
    if (code != cudaSuccess && job->code == cudaSuccess) {
        job->code = code;
        job->call = call;
    }
    if (atomic_fetch_sub(&job->chunks_left, 1) == 1) {
        job->interval.to = host_seconds();
        pthread_cond_signal(&job->done); /* with the lock held, because the waiting owner destroys the job */
    }
}

void complete_chunk(struct pool *pool, struct job *job, cudaError_t code, const char *call)
{
    lock_pool(pool);
    complete_chunk_locked(pool, job, code, call);
    pthread_mutex_unlock(&pool->lock);
}

/* Submits the oldest filled pieces that are contiguous both in the ring and on the device. Called with the lock
 * held, which it releases meanwhile. */
static void submit_ring_chunks(struct pool *pool)
{
    struct ring *ring = &pool->ring;
    const struct piece *first = &ring->pieces[ring->sent % MAX_RING_CHUNKS], *last = first;
    struct job *const job = first->job;
    struct transfer_batch *batch = &ring->batches[ring->issued % MAX_BATCHES];
    size_t count = 1;

    for (; ring->sent + count < ring->taken; count++) {
        const struct piece *next = &ring->pieces[(ring->sent + count) % MAX_RING_CHUNKS];

        if (!atomic_load(&next->filled) || next->job != job || next->begin != last->end ||
            ring_address(ring, next) != ring_address(ring, last) + (last->end - last->begin))
            break;
        last = next;
    }
    batch->until = last->ring_position + (last->end - last->begin);
    const size_t begin = first->begin, end = last->end;
    const char *from = ring_address(ring, first);
    pthread_mutex_unlock(&pool->lock);
    cudaError_t code =
        cudaMemcpyAsync(job->memory + begin, from, end - begin, cudaMemcpyHostToDevice, pool->stream);
    if (code == cudaSuccess)
        code = cudaEventRecord(batch->done, pool->stream);
    if (code == cudaSuccess && end == job->bytes)
        code = cudaEventRecord(job->sent, pool->stream);
    if (code != cudaSuccess) /* DMA may still be reading the ring */
        (void)cudaStreamSynchronize(pool->stream);
    lock_pool(pool);
    ring->sent += count;
    ring->issued++;
    while (count--)
        complete_chunk_locked(pool, job, code, "cudaMemcpyAsync to the device");
    pthread_cond_broadcast(&ring->space);
}

void upload_ring_chunk(struct pool *pool, struct piece *piece)
{
    struct ring *ring = &pool->ring;

    copy_to_staging(piece->job, ring_address(ring, piece), piece->begin, piece->end);
    atomic_store(&piece->filled, true); /* the thread with the lock submits it */
    lock_pool(pool);
    while (!ring->submitting && ring->sent < ring->taken &&
           atomic_load(&ring->pieces[ring->sent % MAX_RING_CHUNKS].filled)) {
        if (ring->issued - ring->done == MAX_BATCHES) {
            wait_for_ring_space(pool);
            continue;
        }
        ring->submitting = true;
        submit_ring_chunks(pool);
        ring->submitting = false;
    }
    pthread_mutex_unlock(&pool->lock);
}
