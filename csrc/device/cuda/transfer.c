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
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "gpu.h"

enum direction { UP, DOWN };
enum {
    BUFFERS_PER_THREAD = 2,
    MAX_RING_CHUNKS = 256,
    MAX_BATCHES = 64,
    RING_ALIGNMENT = 64 /* bytes; the alignment of pieces */
};

static const double SPIN_SECONDS = 1e-4;      /* about as long as sleeping and being woken takes */
static const double LONG_SPIN_SECONDS = 1e-3; /* the same while a caller waits */

static const size_t HUGE_PAGE_BYTES = (size_t)2 << 20;
static const size_t MIN_CHUNK = (size_t)256 << 10;
static const size_t DIRECT_BYTES = (size_t)256
                                   << 10; /* up to this size, waking a thread takes longer than copying */
static const size_t MAX_CHUNK[] = {[UP] = (size_t)1 << 20, [DOWN] = (size_t)2 << 20};
static const size_t RING_BYTES = (size_t)32 << 20;
static const int MAX_THREADS[] = {[UP] = 10, [DOWN] = 16}; /* more do not increase host memory bandwidth */
enum {
    MAX_SPINNING_THREADS = 4, /* threads per pool that spin for more work, on cores that others may need */
    MAX_PREFAULT_THREADS = 2, /* threads that fault in memory: more would take bandwidth from the copies */
};

/* A copy by a pool. */
struct job {
    struct job *next;
    struct segments segments; /* the host's side */
    char *memory;             /* the device's */
    size_t bytes, chunk;
    size_t lead;       /* bytes of the first chunk, so that the others start at page boundaries */
    cudaEvent_t ready; /* download: the device memory has been written */
    cudaEvent_t sent;  /* upload: recorded after its last DMA */
    bool fresh;        /* the host memory may not be faulted in yet */
    bool watched;      /* a thread waits for `ready` */
    bool open;         /* chunks may be taken */
    bool faults;       /* only faults in host memory, copies nothing */

    size_t chunks, taken; /* protected by the pool's lock */
    atomic_size_t left;   /* chunks not yet done; written under the lock, polled without */
    cudaError_t code;     /* of the first failed chunk */
    const char *call;
    struct interval when;
    pthread_cond_t done;
};

/* A chunk of an upload in the ring. */
struct piece {
    struct job *job;
    size_t begin, end; /* of the job's bytes */
    size_t at;         /* position in the stream of all bytes that pass through the ring */
    atomic_bool filled;
};

/* The pieces of one cudaMemcpyAsync. */
struct transfer_batch {
    cudaEvent_t done;
    size_t until; /* the ring is free up to this position once it is done */
};

/* Protected by the pool's lock. Counters only increase; their remainders are indices. */
struct ring {
    char *memory;
    size_t head, tail; /* positions; bytes from tail to head are in use */
    struct piece pieces[MAX_RING_CHUNKS];
    size_t taken, sent; /* pieces */
    struct transfer_batch batches[MAX_BATCHES];
    size_t issued, done; /* sendings */
    bool submitting;     /* a thread submits pieces */
    bool awaiting;       /* a thread waits for the oldest batch */
    pthread_cond_t space;
};

struct pool {
    enum direction direction;
    int ordinal;
    int threads;
    pthread_t ids[16];
    pthread_mutex_t lock;
    sem_t work;               /* idle threads sleep on it */
    int sleeping;             /* of them, those that nobody has roused */
    atomic_int untaken;       /* copies with chunks that no thread has taken */
    atomic_int ready_jobs;    /* of these, those that a thread can work on now */
    struct job *first, *last; /* the queue: these, and memory to be faulted in */
    atomic_int spinning;      /* threads that spin for work */
    int faulting;             /* threads that fault in memory */
    atomic_bool closing;
    cudaStream_t stream; /* for uploads; downloads have one stream per thread */
    struct ring ring;    /* for uploads */
};

/* A thread of a pool; all members but `pool` are for downloads. */
struct worker {
    struct pool *pool;
    cudaStream_t stream;
    char *slot[BUFFERS_PER_THREAD];
    cudaEvent_t moved[BUFFERS_PER_THREAD]; /* recorded after the slot's DMA */
    int turn;
};

struct transfer {
    struct job job;
    struct pool *pool; /* NULL: the short way */
    char *packed;      /* of a small download with gaps: what they are laid out from; else NULL */
    device_stream stream;
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* A pause in a spin loop. */
static void pause_briefly(void)
{
#ifdef __SSE2__
    _mm_pause();
#endif
}

/* ---- copies by the threads ---- */

/* Non-temporal stores: DMA reads lines that are modified in a core's cache at half the link's speed. */
static void copy_nontemporal(char *to, const char *from, size_t bytes)
{
#ifdef __SSE2__
    size_t i = 0;

    for (; i + 64 <= bytes; i += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));

        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    memcpy(to + i, from + i, bytes - i);
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

/* For memory that is faulted in during the copy, where the C library's non-temporal stores are slow. */
static void copy_to_unfaulted(char *to, const char *from, size_t bytes)
{
#ifdef __x86_64__
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    memcpy(to, from, bytes);
#endif
}

static void chunk_range(const struct job *job, size_t index, size_t *begin, size_t *end)
{
    *begin = index ? job->lead + (index - 1) * job->chunk : 0;
    *end = job->lead + index * job->chunk;
    if (*end > job->bytes)
        *end = job->bytes;
}

static void copy_to_staging(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->segments.ndim == 0)
        copy_nontemporal(slot, job->segments.data + begin, end - begin);
    else
        segments_copy(&job->segments, begin, end, slot, true);
}

static void copy_from_staging(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->segments.ndim == 0 && job->fresh)
        copy_to_unfaulted(job->segments.data + begin, slot, end - begin);
    else
        segments_copy(&job->segments, begin, end, slot, false);
}

/* ---- a pool ---- */

/* Spins first: the lock is held for less time than sleeping and waking takes. */
static void lock_pool(struct pool *pool)
{
    enum { TRIES = 200 };

    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&pool->lock) == 0)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->lock);
}

/* Spins for more work for a moment, unless enough threads do: waking a thread takes longer than many copies. */
static void spin_for_work(struct pool *pool)
{
    const bool looks = atomic_fetch_add(&pool->spinning, 1) < MAX_SPINNING_THREADS;

    for (const double start = now();
         looks && !atomic_load(&pool->ready_jobs) && !atomic_load(&pool->closing) &&
         now() < start + (atomic_load(&pool->untaken) ? LONG_SPIN_SECONDS : SPIN_SECONDS);)
        pause_briefly();
    atomic_fetch_sub(&pool->spinning, 1);
}

/* Whether another thread could not help with the job now. */
static bool is_saturated(const struct pool *pool, const struct job *job)
{
    return job->faults ? pool->faulting >= MAX_PREFAULT_THREADS : !job->open && job->watched;
}

/* How many sleeping threads should be woken, in addition to spinning ones; they are then counted as awake. The
 * caller wakes them after releasing the lock, because that takes time. With the lock held. */
static int reserve_sleepers(struct pool *pool)
{
    size_t copying = 0, faulting = 0, spinning = (size_t)atomic_load(&pool->spinning), count;

    for (const struct job *job = pool->first; job; job = job->next) {
        if (!is_saturated(pool, job))
            *(job->faults ? &faulting : &copying) += job->faults ? MAX_PREFAULT_THREADS
                                                     : job->open ? job->chunks - job->taken
                                                                 : 1;
    }
    count = faulting + (copying > spinning ? copying - spinning : 0);
    if (count > (size_t)pool->sleeping)
        count = (size_t)pool->sleeping;
    pool->sleeping -= (int)count;
    return (int)count;
}

static void wake(struct pool *pool, int sleepers)
{
    while (sleepers-- > 0)
        (void)sem_post(&pool->work);
}

/* Waits, first spinning and then sleeping, until the device memory of a download has been written; the other
 * threads do other work meanwhile. Called with the lock held, which it releases while waiting. */
static void wait_until_ready(struct pool *pool, struct job *job)
{
    const struct timespec moment = {.tv_nsec = 10000};
    cudaError_t code = cudaErrorNotReady;

    job->watched = true;
    atomic_fetch_sub(&pool->ready_jobs, 1);
    pthread_mutex_unlock(&pool->lock);
    for (const double start = now(); code == cudaErrorNotReady && !atomic_load(&pool->closing);) {
        code = cudaEventQuery(job->ready);
        if (code == cudaErrorNotReady && now() > start + LONG_SPIN_SECONDS)
            (void)nanosleep(&moment, NULL);
    }
    (void)cudaGetLastError();
    lock_pool(pool);
    job->when.from = now();
    job->open = true;
    job->code = code; /* reported when all chunks are done */
    job->call = "cudaEventQuery";
    atomic_fetch_add(&pool->ready_jobs, 1);
    const int sleepers = reserve_sleepers(pool);
    pthread_mutex_unlock(&pool->lock);
    wake(pool, sleepers);
    lock_pool(pool);
}

/* The oldest job with chunks to take, or NULL. With the lock held. */
static struct job *find_job(struct pool *pool, struct job **before)
{
    struct job *job;

    *before = NULL;
    for (job = pool->first; job && is_saturated(pool, job); job = job->next)
        *before = job;
    return job;
}

/* ---- the ring ---- */

static char *ring_address(const struct ring *ring, const struct piece *piece)
{
    return ring->memory + piece->at % RING_BYTES;
}

/* Allocates a piece of the ring for the job's next chunk; NULL if there is no space. With the lock held. */
static struct piece *allocate_ring_chunk(struct ring *ring, struct job *job)
{
    struct piece *piece = &ring->pieces[ring->taken % MAX_RING_CHUNKS];
    size_t begin, end, at = ring->head;

    chunk_range(job, job->taken, &begin, &end);
    if (at % RING_BYTES + (end - begin) > RING_BYTES) /* a piece must not wrap around */
        at += RING_BYTES - at % RING_BYTES;
    if (at + (end - begin) - ring->tail > RING_BYTES || ring->taken - ring->sent == MAX_RING_CHUNKS)
        return NULL;
    *piece = (struct piece){job, begin, end, at, false};
    ring->head = at + (end - begin + RING_ALIGNMENT - 1) / RING_ALIGNMENT * RING_ALIGNMENT;
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

/* Takes the next chunk, and a piece of the ring for an upload; waits for one if `wait`. NULL if there is none, or
 * the pool is closing. */
static struct job *take_chunk(struct pool *pool, bool wait, size_t *index, struct piece **piece)
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
        pool->faulting += job->faults;
        if (job->taken == job->chunks) {
            atomic_fetch_sub(&pool->untaken, !job->faults);
            atomic_fetch_sub(&pool->ready_jobs, !job->faults);
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
    pool->faulting -= job->faults;
    if (code != cudaSuccess && job->code == cudaSuccess) {
        job->code = code;
        job->call = call;
    }
    if (atomic_fetch_sub(&job->left, 1) == 1) {
        job->when.to = now();
        pthread_cond_signal(&job->done); /* with the lock held, because the waiting owner destroys the job */
    }
}

static void complete_chunk(struct pool *pool, struct job *job, cudaError_t code, const char *call)
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
    batch->until = last->at + (last->end - last->begin);
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

static void upload_ring_chunk(struct pool *pool, struct piece *piece)
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

/* Starts the DMA of a chunk to a slot. */
static cudaError_t begin_chunk_download(struct worker *worker, struct job *job, size_t index, int turn)
{
    cudaError_t code;
    size_t begin, end;

    chunk_range(job, index, &begin, &end); /* a thread has seen `ready`: the device memory is written */
    code = cudaMemcpyAsync(worker->slot[turn], job->memory + begin, end - begin, cudaMemcpyDeviceToHost,
                           worker->stream);
    return code == cudaSuccess ? cudaEventRecord(worker->moved[turn], worker->stream) : code;
}

static void end_chunk_download(struct worker *worker, struct job *job, size_t index, int turn, cudaError_t code)
{
    size_t begin, end;

    chunk_range(job, index, &begin, &end);
    if (code == cudaSuccess)
        code = cudaEventSynchronize(worker->moved[turn]);
    if (code == cudaSuccess)
        copy_from_staging(job, worker->slot[turn], begin, end);
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
    int turn_before = 0;

    for (;;) {
        job = take_chunk(worker->pool, before == NULL, &index, NULL);
        if (job && job->faults) {
            if (before) /* a caller waits for it */
                end_chunk_download(worker, before, index_before, turn_before, code_before);
            before = NULL;
            prefault_chunk(worker->pool, job, index);
            continue;
        }
        if (job)
            code = begin_chunk_download(worker, job, index, worker->turn);
        if (before)
            end_chunk_download(worker, before, index_before, turn_before, code_before);
        if (!job && !before)
            return;
        before = job;
        index_before = index;
        code_before = code;
        turn_before = worker->turn;
        worker->turn = (worker->turn + 1) % BUFFERS_PER_THREAD;
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

/* The start of a pool: the arguments of its threads, and how many are ready. */
struct start {
    struct pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t said;
    int answers, able;
};

static void *work(void *argument)
{
    struct start *start = argument;
    struct worker worker = {0};
    struct pool *pool = start->pool;
    struct piece *piece = NULL;
    size_t index = 0;
    bool able;

    (void)gpu_relax_capture_mode(); /* for the thread's lifetime: nothing it does is captured into a graph */
    able = init_copy_thread(&worker, pool);
    pthread_mutex_lock(&start->lock);
    start->answers++;
    start->able += able;
    pthread_cond_signal(&start->said);
    pthread_mutex_unlock(&start->lock);
    if (!able) {
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
    struct start start = {.pool = pool};
    sigset_t all, before;

    pthread_mutex_init(&start.lock, NULL);
    pthread_cond_init(&start.said, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->threads < wanted && pthread_create(&pool->ids[pool->threads], NULL, work, &start) == 0)
        pool->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&start.lock);
    while (start.answers < pool->threads)
        pthread_cond_wait(&start.said, &start.lock);
    pthread_mutex_unlock(&start.lock);
    pthread_cond_destroy(&start.said);
    pthread_mutex_destroy(&start.lock);
    return start.able;
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

/* The pool of a direction, started on first use. NULL if it cannot start: then all copies are direct. */
static struct pool *find_pool(struct device *device, enum direction direction)
{
    _Atomic(struct pool *) *place = &gpus[device->ordinal].pools[direction];
    struct pool *pool = atomic_load(place);
    bool ok;

    if (pool != NULL)
        return pool->closing ? NULL : pool;
    pthread_mutex_lock(&start_lock);
    pool = atomic_load(place);
    if (pool == NULL && (pool = calloc(1, sizeof *pool))) {
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
        atomic_store(place, pool);
    }
    pthread_mutex_unlock(&start_lock);
    return pool && !pool->closing ? pool : NULL;
}

/* At interpreter exit: threads finish their current chunks before CUDA is shut down. */
void cuda_close_copy_pools(void)
{
    for (int i = 0; i < 2 * MAX_GPUS && !gpu_is_forked(); i++) {
        struct pool *pool = atomic_load(&gpus[i / 2].pools[i % 2]);

        if (pool == NULL || pool->closing)
            continue;
        lock_pool(pool);
        pool->closing = true;
        pthread_cond_broadcast(&pool->ring.space);
        pthread_mutex_unlock(&pool->lock);
        wake(pool, pool->threads);
        for (int t = 0; t < pool->threads; t++)
            pthread_join(pool->ids[t], NULL);
    }
}

/* ---- jobs ---- */

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

    *job = (struct job){.segments = *segments, .memory = memory, .bytes = bytes, .faults = memory == NULL};
    job->open = direction == UP || job->faults;
    job->chunk = choose_chunk_bytes(bytes, 16, MIN_CHUNK, MAX_CHUNK[direction]);
    job->lead = job->chunk;
    if (direction == DOWN && segments->ndim == 0 && bytes >= 2 * HUGE_PAGE_BYTES) {
        const uintptr_t begin =
            ((uintptr_t)segments->data + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        const uintptr_t end = ((uintptr_t)segments->data + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;

        job->fresh = true;
        if (bytes >= 8 * HUGE_PAGE_BYTES || job->faults)
            job->chunk = job->lead =
                HUGE_PAGE_BYTES; /* two threads that fault in the same page wait for each other */
#ifdef MADV_HUGEPAGE
        if (end > begin) /* only advice: failure does not matter */
            (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
        if (job->chunk == HUGE_PAGE_BYTES && begin != (uintptr_t)segments->data)
            job->lead = begin - (uintptr_t)segments->data;
    }
    job->chunks = 1 + (bytes - (job->lead < bytes ? job->lead : bytes) + job->chunk - 1) / job->chunk;
    atomic_init(&job->left, job->chunks);
    pthread_cond_init(&job->done, NULL);
}

static void hand_over(struct pool *pool, struct job *job)
{
    lock_pool(pool);
    job->when.from = now();
    if (pool->last)
        pool->last->next = job;
    else
        pool->first = job;
    pool->last = job;
    atomic_fetch_add(&pool->untaken, !job->faults);
    atomic_fetch_add(&pool->ready_jobs, !job->faults);
    const int sleepers = reserve_sleepers(pool);
    pthread_mutex_unlock(&pool->lock);
    wake(pool, sleepers);
}

/* Waits until all chunks are done. False with the failure of the first failed one. */
static bool wait_for_job(struct device *device, struct pool *pool, struct job *job, struct failure *failure)
{
    for (const double end = now() + LONG_SPIN_SECONDS; atomic_load(&job->left) > 0 && now() < end;)
        pause_briefly();
    lock_pool(pool);
    while (atomic_load(&job->left) > 0)
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

/* ---- to the device ---- */

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
                           device_event free, device_stream stream, struct transfer **made,
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
        hand_over(pool, &transfer->job);
        *made = transfer;
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
                       device_stream stream, struct transfer **made, struct failure *failure)
{
    const size_t bytes = segments_bytes(from);
    struct pool *pool = NULL;
    struct visit visit;
    bool ok;

    *made = NULL;
    if (bytes == 0)
        return true;
    if (!gpu_make_current(device, &visit, failure))
        return false;
    const bool pinned = from->ndim == 0 && is_pinned(from->data);
    if (bytes > DIRECT_BYTES && !pinned && !gpu_is_capturing(stream))
        pool = find_pool(device, UP);
    ok = pool ? upload_by_pool(device, pool, to, from, free, stream, made, failure)
              : (!free || CHECK(cudaStreamWaitEvent(stream, free, 0))) &&
                    upload_directly(device, to, from, stream, pinned, failure);
    gpu_restore_context(&visit);
    return ok;
}

bool cuda_upload_end(struct device *device, struct transfer *transfer, device_stream stream,
                     struct interval *interval, struct failure *failure)
{
    const enum cudaStreamCaptureMode mode = gpu_relax_capture_mode();
    struct job *job = &transfer->job;
    struct visit visit;
    bool ok = wait_for_job(device, transfer->pool, job, failure);
    const bool entered = gpu_make_current(device, &visit, failure);

    ok = ok && entered && CHECK(cudaStreamWaitEvent(stream, job->sent, 0));
    if (!ok) /* other chunks may still be in flight, and their memory is released next */
        (void)cudaStreamSynchronize(transfer->pool->stream);
    if (ok && interval) { /* measuring requires waiting for the end */
        const bool done = cudaEventQuery(job->sent) == cudaSuccess;

        (void)cudaGetLastError();
        ok = CHECK(cudaEventSynchronize(job->sent));
        *interval = (struct interval){job->when.from, done ? job->when.to : now()};
    }
    destroy_transfer(transfer);
    if (entered)
        gpu_restore_context(&visit);
    gpu_restore_capture_mode(mode);
    return ok;
}

/* ---- to the host ---- */

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
        hand_over(pool, &transfer->job);
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
    return CHECK(cudaMemcpyAsync(transfer->packed ? transfer->packed : to->data, from, bytes,
                                 cudaMemcpyDeviceToHost, stream));
}

bool cuda_download_begin(struct device *device, const struct segments *to, const void *from, device_stream stream,
                         struct transfer **made, struct failure *failure)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    struct pool *pool = NULL;
    struct visit visit;
    bool ok;

    *made = NULL;
    if (!transfer) {
        return fail_host_allocation(failure);
    }
    if (!gpu_make_current(device, &visit, failure)) {
        free(transfer);
        return false;
    }
    transfer->stream = stream;
    if (segments_bytes(to) > DIRECT_BYTES && !(to->ndim == 0 && is_pinned(to->data)) && !gpu_is_capturing(stream))
        pool = find_pool(device, DOWN);
    ok = pool ? download_by_pool(device, pool, to, from, stream, transfer, failure)
              : download_directly(device, to, from, stream, transfer, failure);
    if (ok)
        *made = transfer;
    else
        destroy_transfer(transfer);
    gpu_restore_context(&visit);
    return ok;
}

void cuda_prefault(struct device *device, void *memory, size_t bytes, struct transfer **made)
{
    const struct segments segments = {.data = memory, .segment_bytes = bytes};
    struct failure ignored, *failure = &ignored;
    struct visit visit;
    struct pool *pool;

    *made = NULL;
    if (bytes < 2 * HUGE_PAGE_BYTES || !gpu_make_current(device, &visit, failure))
        return;
    if ((pool = find_pool(device, DOWN)) && (*made = calloc(1, sizeof **made))) {
        init_job(&(*made)->job, DOWN, &segments, NULL);
        (*made)->pool = pool;
        hand_over(pool, &(*made)->job);
    }
    gpu_restore_context(&visit);
}

bool cuda_download_end(struct device *device, struct transfer *transfer, struct interval *interval,
                       struct failure *failure)
{
    struct visit visit;
    bool ok, entered;

    if (transfer->pool) {
        ok = wait_for_job(device, transfer->pool, &transfer->job, failure);
        if (interval)
            *interval = transfer->job.when;
        entered = gpu_make_current(device, &visit, failure);
    } else {
        entered = gpu_make_current(device, &visit, failure);
        ok = entered && CHECK(cudaStreamSynchronize(transfer->stream));
        if (ok && transfer->packed)
            segments_copy(&transfer->job.segments, 0, transfer->job.bytes, transfer->packed, false);
    }
    destroy_transfer(transfer);
    if (entered)
        gpu_restore_context(&visit);
    return ok && entered;
}

/* ---- the ceiling ---- */

bool cuda_pinned_copy(struct device *device, size_t bytes, bool to_device, double *seconds,
                      struct failure *failure)
{
    void *host = NULL, *memory = NULL;
    cudaEvent_t events[2] = {NULL, NULL};
    struct visit visit;
    float milliseconds = 0;

    if (!gpu_make_current(device, &visit, failure))
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
    gpu_restore_context(&visit);
    return ok;
}
