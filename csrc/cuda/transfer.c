/* Copies between the host and a GPU, at the speed of the link.
 *
 * The GPU reads and writes the host's memory by itself only where it is pinned. What CUDA does with other memory,
 * one thread that copies through a small pinned buffer, is a fifth of what the link can do. Here a crew of threads
 * does it for each direction: a copy is cut into chunks, and each thread takes the next one. Uploads go through a
 * pinned ring, in order; a thread that has filled its piece of it sends all that is filled by then, if no other
 * one is sending, so that there are no more calls of CUDA than the link can take. Downloads go through two pinned
 * slots of each thread: while the link fills one, the thread empties the other. Memory that is fresh from the
 * system is faulted in by the threads that write to it, in huge pages where there are any; a chunk of a large
 * download is one such page.
 *
 * Crews start with the first large copy, and stay, with their pinned memory: pinning costs more than any copy.
 * Small copies go the short way, in the order of the stream itself, as do those from and to memory that is pinned
 * already.
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
enum { SLOTS = 2, PIECES = 256, SENDINGS = 64, LINE = 64 /* bytes; a piece begins with one */ };

static const double MOMENT = 1e-4;   /* seconds: to sleep and be woken takes about as long */
static const double PATIENCE = 1e-3; /* what is waited for awake, where somebody waits for it */

static const size_t HUGE_PAGE = (size_t)2 << 20;
static const size_t LEAST_CHUNK = (size_t)256 << 10;
static const size_t SHORT = (size_t)256 << 10; /* up to there a crew takes longer to wake than to copy */
static const size_t MOST_CHUNK[] = {[UP] = (size_t)1 << 20, [DOWN] = (size_t)2 << 20};
static const size_t RING = (size_t)32 << 20;
static const int MOST_THREADS[] = {[UP] = 10, [DOWN] = 16}; /* beyond, the host's memory gives no more */
enum {
    LOOKING = 4,  /* threads of a crew that look out for more, on cores which others may want */
    FAULTING = 2, /* that bring memory in: more would take the memory's time from the copies */
};

/* A copy that a crew does. */
struct job {
    struct job *next;
    struct runs runs; /* the host's side */
    char *memory;     /* the device's */
    size_t bytes, chunk;
    size_t lead;       /* the first chunk has so many bytes, for the others to begin where a page does */
    cudaEvent_t ready; /* of a download: the device's memory is written */
    cudaEvent_t sent;  /* of an upload: all of it has been asked of the link */
    bool fresh;        /* the host's memory may not be there yet */
    bool watched;      /* a thread waits for `ready` */
    bool open;         /* the chunks may be taken */
    bool faults;       /* the host's memory is brought in, and nothing copied */

    size_t chunks, taken; /* under the crew's lock */
    atomic_size_t left;   /* likewise, but to be looked at */
    cudaError_t code;     /* of the first chunk that failed */
    const char *call;
    struct interval when;
    pthread_cond_t over;
};

/* A chunk of an upload in the ring. */
struct piece {
    struct job *job;
    size_t begin, end; /* of the job's bytes */
    size_t at;         /* in all that has ever been in the ring */
    atomic_bool filled;
};

/* What the link was asked for in one call. */
struct sending {
    cudaEvent_t over;
    size_t until; /* the ring is free up to there then */
};

/* Under the crew's lock. Counters count for ever; what they count is at the remainder. */
struct ring {
    char *memory;
    size_t head, tail; /* bytes that are in use: from tail to head */
    struct piece pieces[PIECES];
    size_t taken, sent; /* pieces */
    struct sending sendings[SENDINGS];
    size_t asked, over; /* sendings */
    bool sending;       /* a thread does */
    bool awaiting;      /* a thread waits for the oldest sending */
    pthread_cond_t room;
};

struct crew {
    enum direction direction;
    int ordinal;
    int threads;
    pthread_t ids[16];
    pthread_mutex_t lock;
    sem_t work;               /* where threads sleep that have nothing to do */
    int asleep;               /* of them, those that nobody has roused */
    atomic_int waiting;       /* copies with chunks that nobody has taken */
    atomic_int wanting;       /* of these, those for which a thread can do something now */
    struct job *first, *last; /* these, and memory to be brought in */
    atomic_int looking;       /* threads that look out for more */
    int faulting;             /* that bring memory in */
    atomic_bool closing;
    cudaStream_t stream; /* for uploads; downloads have a stream a thread */
    struct ring ring;    /* likewise */
};

/* A thread; all but its crew is for downloads. */
struct worker {
    struct crew *crew;
    cudaStream_t stream;
    char *slot[SLOTS];
    cudaEvent_t moved[SLOTS]; /* what was asked of the link for the slot is done */
    int turn;
};

struct transfer {
    struct job job;
    struct crew *crew; /* NULL: the short way */
    char *packed;      /* of a small download with gaps: what they are laid out from; else NULL */
    device_stream stream;
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Between two looks at what another thread may change. */
static void pause_briefly(void)
{
#ifdef __SSE2__
    _mm_pause();
#endif
}

/* ---- the threads' own copies ---- */

/* Past the caches: what lies changed in a core's own one, the GPU reads at half the speed of the link. */
static void copy_past_caches(char *to, const char *from, size_t bytes)
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

/* Into memory that is faulted in on the way, which the C library's choice of stores slows down. */
static void copy_fresh(char *to, const char *from, size_t bytes)
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

static void fill_slot(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->runs.ndim == 0)
        copy_past_caches(slot, job->runs.data + begin, end - begin);
    else
        runs_copy(&job->runs, begin, end, slot, true);
}

static void empty_slot(const struct job *job, char *slot, size_t begin, size_t end)
{
    if (job->runs.ndim == 0 && job->fresh)
        copy_fresh(job->runs.data + begin, slot, end - begin);
    else
        runs_copy(&job->runs, begin, end, slot, false);
}

/* ---- a crew ---- */

/* Who has the lock gives it back before a thread could be put to sleep and woken again. */
static void lock_crew(struct crew *crew)
{
    enum { TRIES = 200 };

    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&crew->lock) == 0)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&crew->lock);
}

/* A thread that is woken takes longer than many a copy: for a moment after its last chunk it looks out for more,
 * if not enough others do. */
static void look_out(struct crew *crew)
{
    const bool looks = atomic_fetch_add(&crew->looking, 1) < LOOKING;

    for (const double start = now(); looks && !atomic_load(&crew->wanting) && !atomic_load(&crew->closing) &&
                                     now() < start + (atomic_load(&crew->waiting) ? PATIENCE : MOMENT);)
        pause_briefly();
    atomic_fetch_sub(&crew->looking, 1);
}

/* Whether a thread could do nothing for it now. */
static bool is_left_to_others(const struct crew *crew, const struct job *job)
{
    return job->faults ? crew->faulting >= FAULTING : !job->open && job->watched;
}

/* How many of those that sleep could do something now, beside those that look out for it. They are roused without
 * the lock, for that takes time. With the lock held. */
static int count_sleepers(struct crew *crew)
{
    size_t copying = 0, faulting = 0, looking = (size_t)atomic_load(&crew->looking), count;

    for (const struct job *job = crew->first; job; job = job->next) {
        if (!is_left_to_others(crew, job))
            *(job->faults ? &faulting : &copying) += job->faults ? FAULTING
                                                     : job->open ? job->chunks - job->taken
                                                                 : 1;
    }
    count = faulting + (copying > looking ? copying - looking : 0);
    if (count > (size_t)crew->asleep)
        count = (size_t)crew->asleep;
    crew->asleep -= (int)count;
    return (int)count;
}

static void rouse(struct crew *crew, int sleepers)
{
    while (sleepers-- > 0)
        (void)sem_post(&crew->work);
}

/* One thread waits, asleep if it takes long, for the memory that a download is to come from: the kernel that
 * writes it may take long, and the other threads have better to do. With the lock held, which it gives back
 * meanwhile. */
static void watch(struct crew *crew, struct job *job)
{
    const struct timespec moment = {.tv_nsec = 10000};
    cudaError_t code = cudaErrorNotReady;

    job->watched = true;
    atomic_fetch_sub(&crew->wanting, 1);
    pthread_mutex_unlock(&crew->lock);
    for (const double start = now(); code == cudaErrorNotReady && !atomic_load(&crew->closing);) {
        code = cudaEventQuery(job->ready);
        if (code == cudaErrorNotReady && now() > start + PATIENCE)
            (void)nanosleep(&moment, NULL);
    }
    (void)cudaGetLastError();
    lock_crew(crew);
    job->when.from = now();
    job->open = true;
    job->code = code; /* a failure is told once all chunks are done with */
    job->call = "cudaEventQuery";
    atomic_fetch_add(&crew->wanting, 1);
    const int sleepers = count_sleepers(crew);
    pthread_mutex_unlock(&crew->lock);
    rouse(crew, sleepers);
    lock_crew(crew);
}

/* The oldest copy with chunks to be taken, with the lock held. NULL if there is none now. */
static struct job *find_job(struct crew *crew, struct job **before)
{
    struct job *job;

    *before = NULL;
    for (job = crew->first; job && is_left_to_others(crew, job); job = job->next)
        *before = job;
    return job;
}

/* ---- the ring ---- */

static char *place_in_ring(const struct ring *ring, const struct piece *piece)
{
    return ring->memory + piece->at % RING;
}

/* A piece of the ring for the job's next chunk; NULL where there is no room. With the lock held. */
static struct piece *take_piece(struct ring *ring, struct job *job)
{
    struct piece *piece = &ring->pieces[ring->taken % PIECES];
    size_t begin, end, at = ring->head;

    chunk_range(job, job->taken, &begin, &end);
    if (at % RING + (end - begin) > RING) /* it would not be in one piece */
        at += RING - at % RING;
    if (at + (end - begin) - ring->tail > RING || ring->taken - ring->sent == PIECES)
        return NULL;
    *piece = (struct piece){job, begin, end, at, false};
    ring->head = at + (end - begin + LINE - 1) / LINE * LINE;
    ring->taken++;
    return piece;
}

/* Waits for the oldest sending, or for who does or sends one. With the lock held, which it gives back meanwhile.
 */
static void await_room(struct crew *crew)
{
    struct ring *ring = &crew->ring;
    const struct sending *oldest = &ring->sendings[ring->over % SENDINGS];

    if (ring->awaiting || ring->over == ring->asked) {
        pthread_cond_wait(&ring->room, &crew->lock);
        return;
    }
    ring->awaiting = true;
    pthread_mutex_unlock(&crew->lock);
    (void)cudaEventSynchronize(oldest->over); /* where it fails, so does what is asked next */
    lock_crew(crew);
    ring->awaiting = false;
    ring->tail = oldest->until;
    ring->over++;
    pthread_cond_broadcast(&ring->room);
}

/* The next chunk, and its piece of the ring if it is to be uploaded; waits for one if `wait`. NULL if there is
 * none, or no more will come. */
static struct job *take_chunk(struct crew *crew, bool wait, size_t *index, struct piece **piece)
{
    struct job *job, *before;

    if (wait)
        look_out(crew);
    lock_crew(crew);
    for (;;) {
        job = crew->closing ? NULL : find_job(crew, &before);
        if (job && job->open) {
            if (crew->direction == DOWN || (*piece = take_piece(&crew->ring, job)))
                break;
            await_room(crew);
            continue;
        }
        if (!wait || crew->closing) {
            job = NULL;
            break;
        }
        if (job) {
            watch(crew, job);
            continue;
        }
        crew->asleep++;
        pthread_mutex_unlock(&crew->lock);
        while (sem_wait(&crew->work) != 0) {
        }
        lock_crew(crew);
    }
    if (job) {
        *index = job->taken++;
        crew->faulting += job->faults;
        if (job->taken == job->chunks) {
            atomic_fetch_sub(&crew->waiting, !job->faults);
            atomic_fetch_sub(&crew->wanting, !job->faults);
            *(before ? &before->next : &crew->first) = job->next;
            if (crew->last == job)
                crew->last = before;
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return job;
}

/* With the lock held. */
static void count_chunk(struct crew *crew, struct job *job, cudaError_t code, const char *call)
{
    crew->faulting -= job->faults;
    if (code != cudaSuccess && job->code == cudaSuccess) {
        job->code = code;
        job->call = call;
    }
    if (atomic_fetch_sub(&job->left, 1) == 1) {
        job->when.to = now();
        pthread_cond_signal(&job->over); /* with the lock held: the job ends with its owner's wait */
    }
}

static void end_chunk(struct crew *crew, struct job *job, cudaError_t code, const char *call)
{
    lock_crew(crew);
    count_chunk(crew, job, code, call);
    pthread_mutex_unlock(&crew->lock);
}

/* Asks the link for the oldest pieces that are filled and lie side by side on both sides. With the lock held,
 * which it gives back meanwhile. */
static void send_pieces(struct crew *crew)
{
    struct ring *ring = &crew->ring;
    const struct piece *first = &ring->pieces[ring->sent % PIECES], *last = first;
    struct job *const job = first->job;
    struct sending *sending = &ring->sendings[ring->asked % SENDINGS];
    size_t count = 1;

    for (; ring->sent + count < ring->taken; count++) {
        const struct piece *next = &ring->pieces[(ring->sent + count) % PIECES];

        if (!atomic_load(&next->filled) || next->job != job || next->begin != last->end ||
            place_in_ring(ring, next) != place_in_ring(ring, last) + (last->end - last->begin))
            break;
        last = next;
    }
    sending->until = last->at + (last->end - last->begin);
    const size_t begin = first->begin, end = last->end;
    const char *from = place_in_ring(ring, first);
    pthread_mutex_unlock(&crew->lock);
    cudaError_t code =
        cudaMemcpyAsync(job->memory + begin, from, end - begin, cudaMemcpyHostToDevice, crew->stream);
    if (code == cudaSuccess)
        code = cudaEventRecord(sending->over, crew->stream);
    if (code == cudaSuccess && end == job->bytes)
        code = cudaEventRecord(job->sent, crew->stream);
    if (code != cudaSuccess) /* the link may be at the ring for all that is known */
        (void)cudaStreamSynchronize(crew->stream);
    lock_crew(crew);
    ring->sent += count;
    ring->asked++;
    while (count--)
        count_chunk(crew, job, code, "cudaMemcpyAsync to the device");
    pthread_cond_broadcast(&ring->room);
}

static void upload_piece(struct crew *crew, struct piece *piece)
{
    struct ring *ring = &crew->ring;

    fill_slot(piece->job, place_in_ring(ring, piece), piece->begin, piece->end);
    atomic_store(&piece->filled, true); /* who has the lock sends it */
    lock_crew(crew);
    while (!ring->sending && ring->sent < ring->taken && atomic_load(&ring->pieces[ring->sent % PIECES].filled)) {
        if (ring->asked - ring->over == SENDINGS) {
            await_room(crew);
            continue;
        }
        ring->sending = true;
        send_pieces(crew);
        ring->sending = false;
    }
    pthread_mutex_unlock(&crew->lock);
}

/* Asks the link for a chunk. */
static cudaError_t fetch_chunk(struct worker *worker, struct job *job, size_t index, int turn)
{
    cudaError_t code;
    size_t begin, end;

    chunk_range(job, index, &begin, &end); /* the device's memory is written: a thread has seen `ready` */
    code = cudaMemcpyAsync(worker->slot[turn], job->memory + begin, end - begin, cudaMemcpyDeviceToHost,
                           worker->stream);
    return code == cudaSuccess ? cudaEventRecord(worker->moved[turn], worker->stream) : code;
}

static void empty_chunk(struct worker *worker, struct job *job, size_t index, int turn, cudaError_t code)
{
    size_t begin, end;

    chunk_range(job, index, &begin, &end);
    if (code == cudaSuccess)
        code = cudaEventSynchronize(worker->moved[turn]);
    if (code == cudaSuccess)
        empty_slot(job, worker->slot[turn], begin, end);
    else /* the link may be at the slot for all that is known */
        (void)cudaStreamSynchronize(worker->stream);
    end_chunk(worker->crew, job, code, "cudaMemcpyAsync to the host");
}

/* Nothing that is there already is changed, so that a copy may fill the memory meanwhile. */
static void fault_chunk(struct crew *crew, struct job *job, size_t index)
{
    size_t begin, end, page = 4096;

    chunk_range(job, index, &begin, &end);
    char *const memory = job->runs.data;
    const uintptr_t first = (uintptr_t)(memory + begin) / page * page, last = (uintptr_t)(memory + end);
#ifdef MADV_POPULATE_WRITE
    if (madvise((void *)first, last - first, MADV_POPULATE_WRITE) != 0)
#endif
        for (size_t i = begin; i < end; i += page)
            (void)__atomic_fetch_add(memory + i, 0, __ATOMIC_RELAXED);
    (void)first, (void)last;
    end_chunk(crew, job, cudaSuccess, NULL);
}

/* While a chunk is emptied, the next one is on its way. */
static void download_chunks(struct worker *worker)
{
    struct job *job, *before = NULL;
    size_t index = 0, index_before = 0;
    cudaError_t code = cudaSuccess, code_before = cudaSuccess;
    int turn_before = 0;

    for (;;) {
        job = take_chunk(worker->crew, before == NULL, &index, NULL);
        if (job && job->faults) {
            if (before) /* somebody waits for it */
                empty_chunk(worker, before, index_before, turn_before, code_before);
            before = NULL;
            fault_chunk(worker->crew, job, index);
            continue;
        }
        if (job)
            code = fetch_chunk(worker, job, index, worker->turn);
        if (before)
            empty_chunk(worker, before, index_before, turn_before, code_before);
        if (!job && !before)
            return;
        before = job;
        index_before = index;
        code_before = code;
        turn_before = worker->turn;
        worker->turn = (worker->turn + 1) % SLOTS;
    }
}

static bool make_worker(struct worker *worker, struct crew *crew)
{
    bool ok = cudaSetDevice(crew->ordinal) == cudaSuccess;

    worker->crew = crew;
    if (crew->direction == UP)
        return ok;
    ok = ok && cudaStreamCreateWithFlags(&worker->stream, cudaStreamNonBlocking) == cudaSuccess;
    for (int i = 0; ok && i < SLOTS; i++)
        ok = cudaHostAlloc((void **)&worker->slot[i], MOST_CHUNK[DOWN], cudaHostAllocDefault) == cudaSuccess &&
             cudaEventCreateWithFlags(&worker->moved[i], cudaEventDisableTiming) == cudaSuccess;
    return ok;
}

static void drop_worker(struct worker *worker)
{
    for (int i = 0; i < SLOTS; i++) {
        if (worker->moved[i] != NULL)
            (void)cudaEventDestroy(worker->moved[i]);
        if (worker->slot[i] != NULL)
            (void)cudaFreeHost(worker->slot[i]);
    }
    if (worker->stream != NULL)
        (void)cudaStreamDestroy(worker->stream);
    (void)cudaGetLastError();
}

/* What a thread of a crew is told when it starts, and what it answers. */
struct start {
    struct crew *crew;
    pthread_mutex_t lock;
    pthread_cond_t said;
    int answers, able;
};

static void *work(void *argument)
{
    struct start *start = argument;
    struct worker worker = {0};
    struct crew *crew = start->crew;
    struct piece *piece = NULL;
    size_t index = 0;
    bool able;

    (void)gpu_relax(); /* for good: nothing that it does is ever captured */
    able = make_worker(&worker, crew);
    pthread_mutex_lock(&start->lock);
    start->answers++;
    start->able += able;
    pthread_cond_signal(&start->said);
    pthread_mutex_unlock(&start->lock);
    if (!able) {
        drop_worker(&worker);
        return NULL;
    }
    if (crew->direction == DOWN)
        download_chunks(&worker);
    else
        while (take_chunk(crew, true, &index, &piece))
            upload_piece(crew, piece);
    return NULL; /* the process ends: CUDA frees what is its own */
}

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Threads without signals, which are Python's. Returns how many of them can work. */
static int start_threads(struct crew *crew)
{
    const int most = MOST_THREADS[crew->direction], wanted = cores() < most ? cores() : most;
    struct start start = {.crew = crew};
    sigset_t all, before;

    pthread_mutex_init(&start.lock, NULL);
    pthread_cond_init(&start.said, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (crew->threads < wanted && pthread_create(&crew->ids[crew->threads], NULL, work, &start) == 0)
        crew->threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&start.lock);
    while (start.answers < crew->threads)
        pthread_cond_wait(&start.said, &start.lock);
    pthread_mutex_unlock(&start.lock);
    pthread_cond_destroy(&start.said);
    pthread_mutex_destroy(&start.lock);
    return start.able;
}

static bool make_ring(struct crew *crew)
{
    struct ring *ring = &crew->ring;
    bool ok = cudaStreamCreateWithFlags(&crew->stream, cudaStreamNonBlocking) == cudaSuccess &&
              cudaHostAlloc((void **)&ring->memory, RING, cudaHostAllocDefault) == cudaSuccess;

    for (int i = 0; ok && i < SENDINGS; i++)
        ok = cudaEventCreateWithFlags(&ring->sendings[i].over, cudaEventDisableTiming) == cudaSuccess;
    if (!ok)
        (void)cudaFreeHost(ring->memory);
    return ok;
}

static pthread_mutex_t founding = PTHREAD_MUTEX_INITIALIZER; /* one crew is started at a time */

/* The crew of a direction, started if need be. NULL where it cannot be: then all copies go the short way. */
static struct crew *find_crew(struct device *device, enum direction direction)
{
    _Atomic(struct crew *) *place = &gpus[device->ordinal].crews[direction];
    struct crew *crew = atomic_load(place);
    bool ok;

    if (crew != NULL)
        return crew->closing ? NULL : crew;
    pthread_mutex_lock(&founding);
    crew = atomic_load(place);
    if (crew == NULL && (crew = calloc(1, sizeof *crew))) {
        crew->direction = direction;
        crew->ordinal = device->ordinal;
        pthread_mutex_init(&crew->lock, NULL);
        sem_init(&crew->work, 0, 0);
        pthread_cond_init(&crew->ring.room, NULL);
        const enum cudaStreamCaptureMode mode = gpu_relax();
        ok = (direction == DOWN || make_ring(crew)) && start_threads(crew) > 0;
        gpu_unrelax(mode);
        (void)cudaGetLastError();
        crew->closing = !ok; /* it is asked for once */
        atomic_store(place, crew);
    }
    pthread_mutex_unlock(&founding);
    return crew && !crew->closing ? crew : NULL;
}

/* At the interpreter's end: the threads finish the chunks that they are at, before CUDA goes. */
void cuda_close_crews(void)
{
    for (int i = 0; i < 2 * MAX_GPUS && !gpu_is_forked(); i++) {
        struct crew *crew = atomic_load(&gpus[i / 2].crews[i % 2]);

        if (crew == NULL || crew->closing)
            continue;
        lock_crew(crew);
        crew->closing = true;
        pthread_cond_broadcast(&crew->ring.room);
        pthread_mutex_unlock(&crew->lock);
        rouse(crew, crew->threads);
        for (int t = 0; t < crew->threads; t++)
            pthread_join(crew->ids[t], NULL);
    }
}

/* ---- jobs ---- */

/* In `count` pieces of whole pages, none smaller than least or larger than most. */
static size_t chunk_of(size_t bytes, size_t count, size_t least, size_t most)
{
    const size_t page = 4096, chunk = (bytes / count + page - 1) / page * page;

    return chunk < least ? least : chunk > most ? most : chunk;
}

/* `memory` is the device's; NULL where the host's is only brought in. */
static void make_job(struct job *job, enum direction direction, const struct runs *runs, void *memory)
{
    const size_t bytes = runs_bytes(runs);

    *job = (struct job){.runs = *runs, .memory = memory, .bytes = bytes, .faults = memory == NULL};
    job->open = direction == UP || job->faults;
    job->chunk = chunk_of(bytes, 16, LEAST_CHUNK, MOST_CHUNK[direction]);
    job->lead = job->chunk;
    if (direction == DOWN && runs->ndim == 0 && bytes >= 2 * HUGE_PAGE) {
        const uintptr_t begin = ((uintptr_t)runs->data + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        const uintptr_t end = ((uintptr_t)runs->data + bytes) / HUGE_PAGE * HUGE_PAGE;

        job->fresh = true;
        if (bytes >= 8 * HUGE_PAGE || job->faults)
            job->chunk = job->lead = HUGE_PAGE; /* two threads in one page would wait for each other */
#ifdef MADV_HUGEPAGE
        if (end > begin) /* advice, which the system may not take */
            (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#endif
        if (job->chunk == HUGE_PAGE && begin != (uintptr_t)runs->data)
            job->lead = begin - (uintptr_t)runs->data;
    }
    job->chunks = 1 + (bytes - (job->lead < bytes ? job->lead : bytes) + job->chunk - 1) / job->chunk;
    atomic_init(&job->left, job->chunks);
    pthread_cond_init(&job->over, NULL);
}

static void hand_over(struct crew *crew, struct job *job)
{
    lock_crew(crew);
    job->when.from = now();
    if (crew->last)
        crew->last->next = job;
    else
        crew->first = job;
    crew->last = job;
    atomic_fetch_add(&crew->waiting, !job->faults);
    atomic_fetch_add(&crew->wanting, !job->faults);
    const int sleepers = count_sleepers(crew);
    pthread_mutex_unlock(&crew->lock);
    rouse(crew, sleepers);
}

/* Until every chunk has been dealt with. False with the failure of the first that failed. */
static bool wait_for(struct device *device, struct crew *crew, struct job *job, struct failure *failure)
{
    for (const double end = now() + PATIENCE; atomic_load(&job->left) > 0 && now() < end;)
        pause_briefly();
    lock_crew(crew);
    while (atomic_load(&job->left) > 0)
        pthread_cond_wait(&job->over, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    pthread_cond_destroy(&job->over);
    return gpu_check(device, job->code, job->call, failure);
}

static bool no_memory(struct failure *failure)
{
    failure_set(failure, FAILURE_MEMORY, "out of memory on the host");
    return false;
}

/* ---- to the device ---- */

/* True where CUDA knows the memory, as pinned or managed: the link can reach it by itself. */
static bool is_pinned(const void *memory)
{
    struct cudaPointerAttributes attributes = {0};

    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
        return attributes.type != cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return false;
}

static void drop_transfer(struct transfer *transfer)
{
    if (transfer->job.ready != NULL)
        (void)cudaEventDestroy(transfer->job.ready);
    if (transfer->job.sent != NULL)
        (void)cudaEventDestroy(transfer->job.sent);
    free(transfer->packed);
    free(transfer);
}

static bool upload_by_crew(struct device *device, struct crew *crew, void *to, const struct runs *from,
                           device_event free, device_stream stream, struct transfer **made,
                           struct failure *failure)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    cudaEvent_t sent = NULL;

    if (transfer == NULL)
        return no_memory(failure);
    const bool ok = CHECK(cudaEventCreateWithFlags(&sent, cudaEventDisableTiming)) &&
                    (free ? CHECK(cudaStreamWaitEvent(crew->stream, free, 0))
                          : gpu_order(device, crew->stream, stream, failure));
    make_job(&transfer->job, UP, from, to);
    transfer->job.sent = sent;
    transfer->crew = crew;
    if (ok) {
        hand_over(crew, &transfer->job);
        *made = transfer;
    } else {
        drop_transfer(transfer);
    }
    return ok;
}

/* In the order of the stream, from memory that may change on return. */
static bool upload_short(struct device *device, void *to, const struct runs *from, device_stream stream,
                         bool pinned, struct failure *failure)
{
    const size_t bytes = runs_bytes(from);
    char *packed = from->ndim ? malloc(bytes) : NULL;
    bool ok = !from->ndim || packed;

    if (packed)
        runs_copy(from, 0, bytes, packed, true);
    else if (!ok)
        (void)no_memory(failure);
    ok = ok && CHECK(cudaMemcpyAsync(to, packed ? packed : from->data, bytes, cudaMemcpyHostToDevice, stream)) &&
         (!pinned || CHECK(cudaStreamSynchronize(stream)));
    free(packed);
    return ok;
}

bool cuda_copy_in(struct device *device, void *to, const struct runs *from, device_event free,
                  device_stream stream, struct transfer **made, struct failure *failure)
{
    const size_t bytes = runs_bytes(from);
    struct crew *crew = NULL;
    struct visit visit;
    bool ok;

    *made = NULL;
    if (bytes == 0)
        return true;
    if (!gpu_enter(device, &visit, failure))
        return false;
    const bool pinned = from->ndim == 0 && is_pinned(from->data);
    if (bytes > SHORT && !pinned && !gpu_is_capturing(stream))
        crew = find_crew(device, UP);
    ok = crew ? upload_by_crew(device, crew, to, from, free, stream, made, failure)
              : (!free || CHECK(cudaStreamWaitEvent(stream, free, 0))) &&
                    upload_short(device, to, from, stream, pinned, failure);
    gpu_leave(&visit);
    return ok;
}

bool cuda_copy_in_end(struct device *device, struct transfer *transfer, device_stream stream,
                      struct interval *interval, struct failure *failure)
{
    const enum cudaStreamCaptureMode mode = gpu_relax();
    struct job *job = &transfer->job;
    struct visit visit;
    bool ok = wait_for(device, transfer->crew, job, failure);
    const bool entered = gpu_enter(device, &visit, failure);

    ok = ok && entered && CHECK(cudaStreamWaitEvent(stream, job->sent, 0));
    if (!ok) /* the chunks that did not fail may still be on the link, and their memory is given back next */
        (void)cudaStreamSynchronize(transfer->crew->stream);
    if (ok && interval) { /* who asks for the time waits for the end, if it is still to come */
        const bool over = cudaEventQuery(job->sent) == cudaSuccess;

        (void)cudaGetLastError();
        ok = CHECK(cudaEventSynchronize(job->sent));
        *interval = (struct interval){job->when.from, over ? job->when.to : now()};
    }
    drop_transfer(transfer);
    if (entered)
        gpu_leave(&visit);
    gpu_unrelax(mode);
    return ok;
}

/* ---- to the host ---- */

static bool download_by_crew(struct device *device, struct crew *crew, const struct runs *to, const void *from,
                             device_stream stream, struct transfer *transfer, struct failure *failure)
{
    cudaEvent_t ready = NULL;
    const bool ok =
        CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming)) && CHECK(cudaEventRecord(ready, stream));

    make_job(&transfer->job, DOWN, to, (void *)from);
    transfer->job.ready = ready;
    transfer->crew = crew;
    if (ok)
        hand_over(crew, &transfer->job);
    return ok;
}

static bool download_short(struct device *device, const struct runs *to, const void *from, device_stream stream,
                           struct transfer *transfer, struct failure *failure)
{
    const size_t bytes = runs_bytes(to);

    transfer->job.runs = *to;
    transfer->job.bytes = bytes;
    if (to->ndim && !(transfer->packed = malloc(bytes)))
        return no_memory(failure);
    return CHECK(cudaMemcpyAsync(transfer->packed ? transfer->packed : to->data, from, bytes,
                                 cudaMemcpyDeviceToHost, stream));
}

bool cuda_copy_out(struct device *device, const struct runs *to, const void *from, device_stream stream,
                   struct transfer **made, struct failure *failure)
{
    struct transfer *transfer = calloc(1, sizeof *transfer);
    struct crew *crew = NULL;
    struct visit visit;
    bool ok;

    *made = NULL;
    if (!transfer) {
        return no_memory(failure);
    }
    if (!gpu_enter(device, &visit, failure)) {
        free(transfer);
        return false;
    }
    transfer->stream = stream;
    if (runs_bytes(to) > SHORT && !(to->ndim == 0 && is_pinned(to->data)) && !gpu_is_capturing(stream))
        crew = find_crew(device, DOWN);
    ok = crew ? download_by_crew(device, crew, to, from, stream, transfer, failure)
              : download_short(device, to, from, stream, transfer, failure);
    if (ok)
        *made = transfer;
    else
        drop_transfer(transfer);
    gpu_leave(&visit);
    return ok;
}

void cuda_expect(struct device *device, void *memory, size_t bytes, struct transfer **made)
{
    const struct runs runs = {.data = memory, .run = bytes};
    struct failure unheard, *failure = &unheard;
    struct visit visit;
    struct crew *crew;

    *made = NULL;
    if (bytes < 2 * HUGE_PAGE || !gpu_enter(device, &visit, failure))
        return;
    if ((crew = find_crew(device, DOWN)) && (*made = calloc(1, sizeof **made))) {
        make_job(&(*made)->job, DOWN, &runs, NULL);
        (*made)->crew = crew;
        hand_over(crew, &(*made)->job);
    }
    gpu_leave(&visit);
}

bool cuda_copy_out_end(struct device *device, struct transfer *transfer, struct interval *interval,
                       struct failure *failure)
{
    struct visit visit;
    bool ok, entered;

    if (transfer->crew) {
        ok = wait_for(device, transfer->crew, &transfer->job, failure);
        if (interval)
            *interval = transfer->job.when;
        entered = gpu_enter(device, &visit, failure);
    } else {
        entered = gpu_enter(device, &visit, failure);
        ok = entered && CHECK(cudaStreamSynchronize(transfer->stream));
        if (ok && transfer->packed)
            runs_copy(&transfer->job.runs, 0, transfer->job.bytes, transfer->packed, false);
    }
    drop_transfer(transfer);
    if (entered)
        gpu_leave(&visit);
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

    if (!gpu_enter(device, &visit, failure))
        return false;
    bool ok = CHECK(cudaHostAlloc(&host, bytes, cudaHostAllocDefault)) &&
              cuda_allocate(device, bytes, NULL, &memory, failure) && CHECK(cudaEventCreate(&events[0])) &&
              CHECK(cudaEventCreate(&events[1]));
    if (ok)
        memset(host, 1, bytes);
    for (int turn = 0; ok && turn < 2; turn++) /* the first is to warm up */
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
    gpu_leave(&visit);
    return ok;
}
