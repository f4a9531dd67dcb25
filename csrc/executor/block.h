/* One worker thread of the executor and the block that it is running: shared by block.c, pool.c and fault.c. */
#ifndef SMEMKIT_BLOCK_H
#define SMEMKIT_BLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "executor.h"
#include "fiber.h"
#include "library.h"
#include "memory.h"
#include "observer.h"
#include "stacks.h"

enum {
    MAX_WORKERS = 256,
    MAX_THREADS = 1024,
    MAX_WARPS = MAX_THREADS / 32,
    NAMED_BARRIERS = 16,
    READY_WORDS = MAX_THREADS / 64,
    MAX_SHARED_BYTES = 227 * 1024, /* dynamic shared memory per block, as on compute capability 9.0 */
    MBARRIER_RECORDS = 256,        /* the last mbarriers of a block, whose init and inval are remembered */
    MESSAGE_BYTES = 768,
    SIGNAL_STACK_BYTES = 65536,
    SHARED_MAPPED = 256 * 1024, /* MAX_SHARED_BYTES, rounded up to pages of any size */
};

/* The CUDA error codes that the executor itself returns. */
enum {
    ERROR_NONE = 0,
    ERROR_INVALID_VALUE = 1,
    ERROR_MEMORY_ALLOCATION = 2,
    ERROR_INVALID_CONFIGURATION = 9,
    ERROR_COOPERATIVE_TOO_LARGE = 720,
    ERROR_ILLEGAL_ADDRESS = 700,
    ERROR_LAUNCH_TIMEOUT = 702,
    ERROR_LAUNCH_FAILURE = 719,
    ERROR_UNKNOWN = 999,
};

struct index3 {
    unsigned x, y, z;
};

struct fault {
    int error; /* ERROR_NONE: none */
    char message[MESSAGE_BYTES];
};

enum wait {
    WAIT_AT_BARRIER,
    WAIT_AT_OTHER_BARRIER,
    WAIT_NAMED,
    WAIT_WARP,
    WAIT_CONVERGENCE,
    WAIT_INIT,
    WAIT_WARPGROUP,
    WAIT_CLUSTER,
    WAIT_EARLIER /* griddepcontrol.wait */
};

/* What a waiting thread waits for. WAIT_AT_BARRIER is the default, so that the barrier, whose path must be short,
 * need not write here. */
struct waiting {
    const char *file;
    int line;
    enum wait reason;
    enum smemkit_collective collective;
    uint32_t mask;
    int source;     /* source lane of a shuffle, or number of a named barrier */
    uint64_t value; /* the lane's operand; later its result; or the mbarrier without init */
};

/* One phase of a named barrier. */
struct named_barrier {
    unsigned expected; /* lanes that complete the phase */
    unsigned arrived;  /* lanes of the threads in `arrivals` */
    const char *file;  /* where the first one arrived */
    int line;
    uint64_t arrivals[READY_WORDS]; /* by bar.sync or bar.arrive */
    uint64_t waiting[READY_WORDS];  /* by bar.sync */
};

/* The last complete phase of a named barrier, in a check. */
struct named_phase {
    const char *file; /* where the first thread arrived; NULL: none */
    int line;
    uint64_t arrivals[READY_WORDS], waiting[READY_WORDS]; /* as in struct named_barrier */
};

struct async_copies; /* async.c */
struct bulk_copies;  /* bulk.c */
struct wgmma_state;  /* wgmma.c */
struct cluster;      /* cluster.c */

/* State of the search for a wait that can never end. If a thread yields with the same registers and stack as at an
 * earlier turn, and no memory has changed in between, it repeats itself for ever. Lanes that exchange values
 * repeat themselves together, so the state of all of them is compared. A round is complete when every runnable
 * thread of the block has repeated itself. */
struct repetition {
    _Atomic uint64_t changes;        /* grows when a thread does something that others may wait for */
    _Atomic uint64_t rounds;         /* completed rounds */
    uint64_t searched;               /* `changes` when this round began */
    uint64_t shared;                 /* hash of the block's shared memory at the end of the last round; 0: none */
    uint64_t repeated[READY_WORDS];  /* threads that have repeated themselves in this round */
    uint32_t collectives[MAX_WARPS]; /* completed ones, per warp */
    uint32_t turns[MAX_THREADS];
    uint64_t states[MAX_THREADS]; /* at the last turn whose number is a power of two (Brent's algorithm) */
    uint64_t stacks[MAX_THREADS]; /* hashes of the stacks of threads that wait, */
    bool hashed[MAX_THREADS];     /* and whether these are known */
};

/* An array in shared memory that ends at a guard page: see shared.c. */
struct shared_array {
    const struct smemkit_shared *variable; /* NULL: the dynamic one, or a free slot */
    char *first, *start, *end, *limit;     /* first <= start <= end <= limit (fixed); the rest is slack */
    size_t window; /* where it begins among the block's arrays, which PTX's shared window has one after another */
};

struct shared_memory {
    char *base;   /* SHARED_SLOTS slots of 1 << shift bytes, each with its guard at its end; then a page that is
                     never   mapped, and the dynamic array, which ends before the guard around it all */
    size_t bytes; /* from `base` to that guard */
    unsigned shift, count; /* slots [0, count) are in use */
    size_t static_bytes;   /* sum over the launch's variables */
    size_t window_end;     /* of all arrays so far */
    struct shared_array slots[SHARED_SLOTS], dynamic;
    struct poisoned_pages poisoned; /* guard pages that a check may read */
};

/* Where a thread has initialised or invalidated an mbarrier. */
struct thread_location {
    const char *file; /* NULL: it has not */
    int line;         /* 0: at an unknown line */
    unsigned thread;
};
struct mbarrier_record {
    const void *object;
    struct thread_location initialised, invalidated;
};

/* A wait for a phase of an mbarrier that has found it incomplete. */
struct mbarrier_wait {
    const char *file; /* NULL: none */
    int line;
    const uint64_t *object;
};

struct mbarrier_arrival {
    const void *object;
    uint64_t phase;
};

struct worker {
    const struct smemkit_launch *launch;
    struct index3 block;
    unsigned count;   /* threads per block */
    unsigned current; /* the running thread */
    unsigned exited;
    unsigned terminated;         /* of those, threads that a fault terminated */
    struct index3 *thread_index; /* threadIdx of the worker's library */
    uint64_t ready[READY_WORDS]; /* runnable threads, started or not */
    uint64_t started[READY_WORDS];
    struct fiber worker_fiber;            /* the worker's own flow of control */
    struct fiber fibers[MAX_THREADS + 1]; /* the last one is unused */
    struct index3 indices[MAX_THREADS];
    unsigned indices_dim[3]; /* block dimensions that `indices` holds */
    struct waiting waiting[MAX_THREADS];

    unsigned arrived;   /* threads at __syncthreads */
    int passed;         /* of those, threads with a nonzero predicate */
    int barrier_result; /* result of the last completed barrier */
    const char *barrier_file;
    int barrier_line;   /* line of the first arrival */
    unsigned divergent; /* threads at another line, which `waiting` names */

    struct named_barrier named[NAMED_BARRIERS];
    struct named_phase phases[NAMED_BARRIERS];
    bool named_used;                                /* by this block */
    struct mbarrier_wait failed_waits[MAX_THREADS]; /* the last wait of each thread, if it has failed */
    struct mbarrier_arrival
        mbarrier_arrivals[MAX_THREADS]; /* the last one of each thread, in an observed launch */
    bool waits_failed;                  /* any of this block */

    struct mbarrier_record mbarrier_records[MBARRIER_RECORDS]; /* a ring */
    unsigned mbarriers;                                        /* of this block so far */

    uint32_t warp_waiting[MAX_WARPS];    /* lanes that wait in a collective */
    uint32_t warp_converging[MAX_WARPS]; /* lanes that wait in __activemask */
    uint32_t warp_exited[MAX_WARPS];

    size_t page;                       /* page size in bytes */
    char *stacks;                      /* MAX_THREADS stacks */
    uint16_t free_stacks[MAX_THREADS]; /* LIFO, so that the stack in the cache is reused first */
    unsigned free_count;
    uint16_t stack_of[MAX_THREADS];

    unsigned guarded; /* stacks [0, guarded) have guard pages */
    struct shared_memory shared;
    void *signal_stack;
    unsigned ticks;

    struct tracer *tracer;         /* the observer's state; NULL unless the launch is observed */
    uint32_t suspended[MAX_WARPS]; /* lanes that the observer has suspended */

    struct async_copies *copies; /* NULL before the first copy */
    unsigned copies_pending;     /* copies of the block that are not complete */
    struct bulk_copies *bulk;    /* NULL before the first bulk copy */
    bool bulk_used;              /* by this block */
    struct wgmma_state *wgmma;   /* NULL before the first wgmma */
    bool wgmma_used;             /* by this block */
    void *wgmma_operands;        /* memory for those of one multiplication, or NULL */

    struct cluster *cluster; /* of a worker that has run one */
    struct worker *host;     /* of a further member of a cluster: the worker that runs it; NULL: itself */
    bool in_cluster;         /* the block is one of a cluster */
    unsigned rank;           /* in the cluster */
    bool cluster_paused, cluster_stalled, cluster_dead; /* it has let other blocks run; it cannot run before
                                                           another block acts; no block can release it */
    unsigned cluster_turns;                             /* yields since it began to run */
    uint32_t cluster_arrivals[MAX_THREADS];             /* 1 + the phase at which a thread has arrived; 0: none */

    bool held;            /* it waits for the end of a launch inside its own */
    unsigned early_turns; /* of the block: see early.c */

    struct fault fault;
    const void *fault_address, *fault_code; /* the address, and the instruction that accessed it */
    int fault_signal;                       /* set by the handler; the worker's fiber writes the message */
    bool fault_is_store;
    bool fault_address_known; /* false for e.g. a non-canonical address */
    atomic_bool in_block;
    atomic_ulong blocks_done;
    struct repetition repetition;
    _Atomic int *abort;                            /* enum abort of the launch */
    uint64_t unstarted;                            /* blocks not started when an endless wait was found */
    _Atomic(const struct library *) interruptible; /* the kernel's, while the launch is being aborted */
    pthread_t thread;
    int number;
};

/* The built-in variables of the running thread. The dialect declares them as threadIdx, … in every library. */
#define SMEMKIT_INDEX __attribute__((visibility("default"))) SMEMKIT_THREAD_LOCAL struct index3
extern SMEMKIT_INDEX smemkit_thread_index;
extern SMEMKIT_INDEX smemkit_block_index;
extern SMEMKIT_INDEX smemkit_block_dim;
extern SMEMKIT_INDEX smemkit_grid_dim;

/* Why a launch is being aborted. */
enum abort { ABORT_NOT, ABORT_FAULT, ABORT_HANG, ABORT_DEADLOCK, ABORT_INTERRUPT };

/* The worker of the running operating-system thread; NULL on host threads. */
extern SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

/* Maps stacks and shared memory. False if there is no memory for them. */
bool worker_prepare(struct worker *);
void worker_dispose(struct worker *);

/* Runs one block. On failure returns false and fills worker->fault. */
bool worker_run_block(struct worker *, const struct smemkit_launch *, struct index3 block);

/* The parts of worker_run_block, for the blocks of a cluster: begins one, without running it; lets it run, and
 * returns whether it has paused, not ended; ends one, as worker_run_block does, or abandons it. */
void worker_begin_block(struct worker *, const struct smemkit_launch *, struct index3 block);
bool worker_resume_block(struct worker *);
bool worker_end_block(struct worker *);
void worker_abandon_block(struct worker *);
bool worker_has_ready(const struct worker *); /* a thread that can run */

/* Leaves the running block, finished or not. Called by one of its fibers, or by a signal handler on any stack. */
void worker_leave(struct worker *) __attribute__((noreturn));

/* Aborts the launch: `what` happened in the running thread. */
void worker_fail(struct worker *, enum fault_kind, const char *what, const char *file, int line)
    __attribute__((noreturn));
/* Aborts the launch, with a message that also names a second location. */
void worker_fail_beside(struct worker *, enum fault_kind, const char *what, const char *file, int line,
                        const char *other_file, int other_line) __attribute__((noreturn));

/* Terminates the running thread after a recorded fault; the block continues without it. */
void worker_terminate_thread(struct worker *) __attribute__((noreturn));
/* Lets other threads run. */
void worker_yield(struct worker *);
/* Called by the observer: suspends the running thread until observer->resume returns it. */
void worker_suspend(struct worker *);

/* Shared memory (shared.c): map, unmap, begin a launch, and allocate a static variable at its first use in the
 * launch. */
bool shared_prepare(struct worker *);
void shared_dispose(struct worker *);
bool shared_begin(struct worker *, const struct smemkit_launch *);
void *shared_allocate(struct worker *, const struct smemkit_shared *);
/* A static variable of the worker's block, which it allocates if need be. */
void *shared_variable(struct worker *, const struct smemkit_shared *);
/* nearest_shared_array: the array at or next to `address`, or NULL. shared_describe: writes "4 bytes past the end
 * of the shared variable tile of 1024 bytes" or the like; false if there is no such array. */
const struct shared_array *nearest_shared_array(const struct worker *, const void *address);
bool shared_describe(const struct worker *, const void *address, char *text, size_t length);
/* The byte of an array whose address in the shared window has these low WINDOW_BITS bits, or NULL: the descriptors
 * of matrices have no others. */
enum { WINDOW_BITS = 18 };
char *shared_in_window(const struct worker *, size_t low);
/* As memory_poison_guard and memory_restore_guards, for a worker's shared memory. */
bool shared_poison_guard(struct worker *, const void *address, size_t bytes);
bool shared_restore_guards(struct worker *);
/* False, with a description, if the block has written outside its arrays. */
bool shared_intact(struct worker *, char *text, size_t length);
uint64_t shared_hash(const struct worker *); /* of its contents */

/* async_finish: completes the copies that an exiting thread has not waited for. async_forget: drops those of a
 * block. async_dispose: frees their memory.
 */
void async_finish(struct worker *, unsigned thread);
void async_forget(struct worker *);
void async_dispose(struct worker *);

/* The signal handler for faults of kernels, installed while a launch runs (fault.c). Call with the pool's lock
 * held. */
void fault_handler_install(void);
void fault_handler_remove(void);
void fault_after_fork(void); /* in the child process, where no launch runs */
/* Interrupts a worker that ignores an abort: the signal handler then leaves the block. */
void fault_handler_kick(struct worker *, const struct library *kernel);

#endif
