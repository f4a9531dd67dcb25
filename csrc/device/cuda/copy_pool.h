/* What the files of copies between host and GPU share. See transfer.c. */
#ifndef SMEMKIT_DEVICE_CUDA_COPY_POOL_H
#define SMEMKIT_DEVICE_CUDA_COPY_POOL_H

#include <semaphore.h>

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
    size_t first_chunk; /* bytes of the first chunk, so that the others start at page boundaries */
    cudaEvent_t ready;  /* download: the device memory has been written */
    cudaEvent_t sent;   /* recorded after the last DMA of an upload, or of a direct download */
    bool fresh;         /* the host memory may not be faulted in yet */
    bool watched;       /* a thread waits for `ready` */
    bool open;          /* chunks may be taken */
    bool prefault_only; /* only faults in host memory, copies nothing */

    size_t chunks, taken;      /* protected by the pool's lock */
    atomic_size_t chunks_left; /* chunks not yet done; written under the lock, polled without */
    cudaError_t code;          /* of the first failed chunk */
    const char *call;
    struct interval interval;
    pthread_cond_t done;
};

/* A chunk of an upload in the ring. */
struct piece {
    struct job *job;
    size_t begin, end;    /* of the job's bytes */
    size_t ring_position; /* position in the stream of all bytes that pass through the ring */
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
    size_t issued, done; /* batches */
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
    int sleeping;             /* threads that sleep and have not been woken */
    atomic_int untaken_jobs;  /* copies with chunks that no thread has taken */
    atomic_int ready_jobs;    /* of these, those that a thread can work on now */
    struct job *first, *last; /* the queue: these copies, and memory to be faulted in */
    atomic_int spinning;      /* threads that spin for work */
    int faulting;             /* threads that fault in memory */
    atomic_bool closing;
    cudaStream_t stream; /* for uploads; downloads have one stream per thread */
    struct ring ring;    /* for uploads */
};

/* ---- host_copy.c ---- */

void chunk_range(const struct job *job, size_t index, size_t *begin, size_t *end);
void copy_to_staging(const struct job *job, char *slot, size_t begin, size_t end);
void copy_from_staging(const struct job *job, char *slot, size_t begin, size_t end);

/* ---- ring.c ---- */

/* Takes the next chunk, and a piece of the ring for an upload; waits for one if `wait`. NULL if there is none, or
 * the pool is closing. */
struct job *take_chunk(struct pool *pool, bool wait, size_t *index, struct piece **piece);
void complete_chunk(struct pool *pool, struct job *job, cudaError_t code, const char *call);
void upload_ring_chunk(struct pool *pool, struct piece *piece);

/* ---- copy_pool.c ---- */

double host_seconds(void);

/* A pause in a spin loop. */
void pause_briefly(void);

/* Spins first: the lock is held for less time than sleeping and waking takes. */
void lock_pool(struct pool *pool);

/* Spins for more work for a moment, unless enough threads do: waking a thread takes longer than many copies. */
void spin_for_work(struct pool *pool);

/* How many sleeping threads should be woken, in addition to spinning ones; they are then counted as awake. The
 * caller wakes them after releasing the lock, because that takes time. With the lock held. */
int reserve_sleepers(struct pool *pool);
void wake_threads(struct pool *pool, int sleepers);

/* Waits, first spinning and then sleeping, until the device memory of a download has been written; the other
 * threads do other work meanwhile. Called with the lock held, which it releases while waiting. */
void wait_until_ready(struct pool *pool, struct job *job);

/* The oldest job with chunks to take, or NULL. With the lock held. */
struct job *find_job(struct pool *pool, struct job **before);

/* The pool of a direction, started on first use. NULL if it cannot start: then all copies are direct. */
struct pool *find_pool(struct device *device, enum direction direction);

#endif
