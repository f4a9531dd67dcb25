/* The pools of threads that copy between pageable memory and the GPU. See transfer.c. */
#define _GNU_SOURCE
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "copy_pool.h"

/* A thread of a pool; all members but `pool` are for downloads. */
struct worker {
    struct pool *pool;
    cudaStream_t stream;
    char *slot[BUFFERS_PER_THREAD];
    cudaEvent_t moved[BUFFERS_PER_THREAD]; /* recorded after the slot's DMA */
    int next_slot;
};

double host_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void pause_briefly(void)
{
#ifdef __SSE2__
    _mm_pause();
#endif
}

void lock_pool(struct pool *pool)
{
    enum { TRIES = 200 };

    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&pool->lock) == 0)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
}

void spin_for_work(struct pool *pool)
{
    const bool may_spin = atomic_fetch_add(&pool->spinning, 1) < MAX_SPINNING_THREADS;

    for (const double start = host_seconds();
         may_spin && !atomic_load(&pool->ready_jobs) && !atomic_load(&pool->closing) &&
         host_seconds() < start + (atomic_load(&pool->untaken_jobs) ? LONG_SPIN_SECONDS : SPIN_SECONDS);)
        pause_briefly();
    atomic_fetch_sub(&pool->spinning, 1);
}

/* Whether another thread could not help with the job now. */
static bool is_saturated(const struct pool *pool, const struct job *job)
{
    return job->prefault_only ? pool->faulting >= MAX_PREFAULT_THREADS : !job->open && job->watched;
}

int reserve_sleepers(struct pool *pool)
{
    size_t copying = 0, faulting = 0, spinning = (size_t)atomic_load(&pool->spinning), count;

    for (const struct job *job = pool->first; job; job = job->next) {
        if (!is_saturated(pool, job))
            *(job->prefault_only ? &faulting : &copying) += job->prefault_only ? MAX_PREFAULT_THREADS
                                                            : job->open        ? job->chunks - job->taken
                                                                               : 1;
    }
    count = faulting + (copying > spinning ? copying - spinning : 0);
    if (count > (size_t)pool->sleeping)
        count = (size_t)pool->sleeping;
    pool->sleeping -= (int)count;
    return (int)count;
}

void wake_threads(struct pool *pool, int sleepers)
{
    while (sleepers-- > 0)
        (void)sem_post(&pool->work);
}

void wait_until_ready(struct pool *pool, struct job *job)
{
    const struct timespec sleep_time = {.tv_nsec = 10000};
    cudaError_t code = cudaErrorNotReady;

    job->watched = true;
    atomic_fetch_sub(&pool->ready_jobs, 1);
    pthread_mutex_unlock(&pool->lock);
    for (const double start = host_seconds(); code == cudaErrorNotReady && !atomic_load(&pool->closing);) {
        code = cudaEventQuery(job->ready);
        if (code == cudaErrorNotReady && host_seconds() > start + LONG_SPIN_SECONDS)
            (void)nanosleep(&sleep_time, NULL);
    }
    (void)cudaGetLastError();
    lock_pool(pool);
    job->interval.from = host_seconds();
    job->open = true;
    job->code = code; /* reported when all chunks are done */
    job->call = "cudaEventQuery";
    atomic_fetch_add(&pool->ready_jobs, 1);
    const int sleepers = reserve_sleepers(pool);
    pthread_mutex_unlock(&pool->lock);
    wake_threads(pool, sleepers);
    lock_pool(pool);
}

struct job *find_job(struct pool *pool, struct job **before)
{
    struct job *job;

    *before = NULL;
    for (job = pool->first; job && is_saturated(pool, job); job = job->next)
        *before = job;
    return job;
}

/* Starts the DMA of a chunk to a slot. */
static cudaError_t begin_chunk_download(struct worker *worker, struct job *job, size_t index, int slot_index)
{
    cudaError_t code;
    size_t begin, end;

    chunk_range(job, index, &begin, &end); /* a thread has seen `ready`: the device memory is written */
    code = cudaMemcpyAsync(worker->slot[slot_index], job->memory + begin, end - begin, cudaMemcpyDeviceToHost,
                           worker->stream);
    return code == cudaSuccess ? cudaEventRecord(worker->moved[slot_index], worker->stream) : code;
}

static void end_chunk_download(struct worker *worker, struct job *job, size_t index, int slot_index,
                               cudaError_t code)
{
    size_t begin, end;

    chunk_range(job, index, &begin, &end);
    if (code == cudaSuccess)
        code = cudaEventSynchronize(worker->moved[slot_index]);
    if (code == cudaSuccess)
        copy_from_staging(job, worker->slot[slot_index], begin, end);
    else /* DMA may still be writing the slot */
        (void)cudaStreamSynchronize(worker->stream);
    complete_chunk(worker->pool, job, code, "cudaMemcpyAsync to the host");
}

/* Faults in the pages of a chunk without changing memory: a copy may fill it at the same time. */
static void prefault_chunk(struct pool *pool, struct job *job, size_t index)
{
    size_t begin, end, page = 4096;

    chunk_range(job, index, &begin, &end);
    char *const memory = job->segments.data;
    const uintptr_t first = (uintptr_t)(memory + begin) / page * page, last = (uintptr_t)(memory + end);
#ifdef MADV_POPULATE_WRITE
    if (madvise((void *)first, last - first, MADV_POPULATE_WRITE) != 0)
#endif
        for (size_t i = begin; i < end; i += page)
            (void)__atomic_fetch_add(memory + i, 0, __ATOMIC_RELAXED);
    (void)first, (void)last;
    complete_chunk(pool, job, cudaSuccess, NULL);
}

/* Double-buffered: while a chunk is emptied, the DMA of the next is in flight. */
static void download_chunks(struct worker *worker)
{
    struct job *job, *before = NULL;
    size_t index = 0, index_before = 0;
    cudaError_t code = cudaSuccess, code_before = cudaSuccess;
    int slot_before = 0;

    for (;;) {
        job = take_chunk(worker->pool, before == NULL, &index, NULL);
        if (job && job->prefault_only) {
            if (before) /* a caller waits for it */
                end_chunk_download(worker, before, index_before, slot_before, code_before);
            before = NULL;
            prefault_chunk(worker->pool, job, index);
            continue;
        }
        if (job)
            code = begin_chunk_download(worker, job, index, worker->next_slot);
        if (before)
            end_chunk_download(worker, before, index_before, slot_before, code_before);
        if (!job && !before)
            return;
        before = job;
        index_before = index;
        code_before = code;
        slot_before = worker->next_slot;
        worker->next_slot = (worker->next_slot + 1) % BUFFERS_PER_THREAD;
    }
}

static bool init_copy_thread(struct worker *worker, struct pool *pool)
{
    bool ok = cudaSetDevice(pool->ordinal) == cudaSuccess;

    worker->pool = pool;
    if (pool->direction == UP)
        return ok;
    ok = ok && cudaStreamCreateWithFlags(&worker->stream, cudaStreamNonBlocking) == cudaSuccess;
    for (int i = 0; ok && i < BUFFERS_PER_THREAD; i++)
        ok = cudaHostAlloc((void **)&worker->slot[i], MAX_CHUNK[DOWN], cudaHostAllocDefault) == cudaSuccess &&
             cudaEventCreateWithFlags(&worker->moved[i], cudaEventDisableTiming) == cudaSuccess;
    return ok;
}

static void free_copy_thread(struct worker *worker)
{
    for (int i = 0; i < BUFFERS_PER_THREAD; i++) {
        if (worker->moved[i] != NULL)
            (void)cudaEventDestroy(worker->moved[i]);
        if (worker->slot[i] != NULL)
            (void)cudaFreeHost(worker->slot[i]);
    }
    if (worker->stream != NULL)
        (void)cudaStreamDestroy(worker->stream);
    (void)cudaGetLastError();
}

/* The progress of a pool's start: threads that have tried to initialise, and those that succeeded. */
struct pool_start {
    struct pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    int answer_count, ready_count;
};

static void *copy_thread_main(void *argument)
{
    struct pool_start *start = argument;
    struct worker worker = {0};
    struct pool *pool = start->pool;
    struct piece *piece = NULL;
    size_t index = 0;
    bool ready;

    (void)gpu_relax_capture_mode(); /* for the thread's lifetime: nothing it does is captured into a graph */
    ready = init_copy_thread(&worker, pool);
    pthread_mutex_lock(&start->lock);
    start->answer_count++;
    start->ready_count += ready;
    pthread_cond_signal(&start->answered);
    pthread_mutex_unlock(&start->lock);
    if (!ready) {
        free_copy_thread(&worker);
        return NULL;
    }
    if (pool->direction == DOWN)
        download_chunks(&worker);
    else
        while (take_chunk(pool, true, &index, &piece))
            upload_ring_chunk(pool, piece);
    return NULL; /* at process exit: CUDA frees its own resources */
}

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Starts the threads with all signals blocked, because signals belong to Python's threads. Returns how many are
 * ready. */
static int start_threads(struct pool *pool)
{
    const int most = MAX_THREADS[pool->direction], wanted = cores() < most ? cores() : most;
    struct pool_start start = {.pool = pool};
    sigset_t all, before;

    pthread_mutex_init(&start.lock, NULL);
    pthread_cond_init(&start.answered, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->threads < wanted &&
           pthread_create(&pool->ids[pool->threads], NULL, copy_thread_main, &start) == 0)
        pool->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&start.lock);
    while (start.answer_count < pool->threads)
        pthread_cond_wait(&start.answered, &start.lock);
    pthread_mutex_unlock(&start.lock);
    pthread_cond_destroy(&start.answered);
    pthread_mutex_destroy(&start.lock);
    return start.ready_count;
}

static bool make_ring(struct pool *pool)
{
    struct ring *ring = &pool->ring;
    bool ok = cudaStreamCreateWithFlags(&pool->stream, cudaStreamNonBlocking) == cudaSuccess &&
              cudaHostAlloc((void **)&ring->memory, RING_BYTES, cudaHostAllocDefault) == cudaSuccess;

    for (int i = 0; ok && i < MAX_BATCHES; i++)
        ok = cudaEventCreateWithFlags(&ring->batches[i].done, cudaEventDisableTiming) == cudaSuccess;
    if (!ok)
        (void)cudaFreeHost(ring->memory);
    return ok;
}

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER; /* one pool starts at a time */
static bool closed;                                            /* no pool starts any more; under the lock */

struct pool *find_pool(struct device *device, enum direction direction)
{
    _Atomic(struct pool *) *pool_slot = &gpus[device->ordinal].pools[direction];
    struct pool *pool = atomic_load(pool_slot);
    bool ok;

    if (pool != NULL)
        return pool->closing ? NULL : pool;
    pthread_mutex_lock(&start_lock);
    pool = atomic_load(pool_slot);
    if (pool == NULL && !closed && (pool = calloc(1, sizeof *pool))) {
        pool->direction = direction;
        pool->ordinal = device->ordinal;
        pthread_mutex_init(&pool->lock, NULL);
        sem_init(&pool->work, 0, 0);
        pthread_cond_init(&pool->ring.space, NULL);
        const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
        ok = (direction == DOWN || make_ring(pool)) && start_threads(pool) > 0;
        gpu_restore_capture_mode(mode);
        (void)cudaGetLastError();
        pool->closing = !ok; /* not tried again */
        atomic_store(pool_slot, pool);
    }
    pthread_mutex_unlock(&start_lock);
    return pool && !pool->closing ? pool : NULL;
}

/* At interpreter exit: threads finish their current chunks before CUDA is shut down. */
void cuda_close_copy_pools(void)
{
    if (gpu_is_forked()) /* in the parent a thread may have held the lock */
        return;
    pthread_mutex_lock(&start_lock); /* also waits for one that is starting */
    closed = true;
    pthread_mutex_unlock(&start_lock);
    for (int i = 0; i < 2 * MAX_GPUS; i++) {
        struct pool *pool = atomic_load(&gpus[i / 2].pools[i % 2]);

        if (pool == NULL || pool->closing)
            continue;
        lock_pool(pool);
        pool->closing = true;
        pthread_cond_broadcast(&pool->ring.space);
        pthread_mutex_unlock(&pool->lock);
        wake_threads(pool, pool->threads);
        for (int t = 0; t < pool->threads; t++)
            pthread_join(pool->ids[t], NULL);
    }
}
