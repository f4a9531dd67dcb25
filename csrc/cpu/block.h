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
#include "trace.h"

enum {
    MAX_WORKERS = 256,
    MAX_THREADS = 1024,
    MAX_WARPS = MAX_THREADS / 32,
    NAMED_BARRIERS = 16,
    READY_WORDS = MAX_THREADS / 64,
    MAX_SHARED_BYTES = 227 * 1024, /* of dynamic shared memory a block, as on compute capability 9.0 */
    MESSAGE_BYTES = 768,
    SIGNAL_STACK_BYTES = 65536,
    SHARED_MAPPED = 256 * 1024, /* MAX_SHARED_BYTES, up to whole pages of any size */
};

/* The CUDA error codes that the executor itself returns. */
enum {
    ERROR_NONE = 0,
    ERROR_INVALID_VALUE = 1,
    ERROR_MEMORY_ALLOCATION = 2,
    ERROR_INVALID_CONFIGURATION = 9,
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

enum wait { WAIT_AT_BARRIER, WAIT_AT_ANOTHER, WAIT_NAMED, WAIT_WARP, WAIT_CONVERGENCE };

/* Why a thread that is not ready does not run. WAIT_AT_BARRIER is what all have that have never said otherwise:
 * the barrier, which is the path that must be short, writes nothing here. */
struct waiting {
    const char *file;
    int line;
    enum wait reason;
    enum smemkit_collective collective;
    uint32_t mask;
    int source;     /* of a shuffle; the number of a named barrier */
    uint64_t value; /* what it brought; when it runs again, what it gets */
};

/* A named barrier between two completions. */
struct named_barrier {
    unsigned wanted;  /* lanes that complete it */
    unsigned arrived; /* lanes, of threads in `came`; 0: nobody */
    const char *file; /* where the first one came to it */
    int line;
    uint64_t came[READY_WORDS];    /* by bar.sync or bar.arrive */
    uint64_t waiting[READY_WORDS]; /* by bar.sync */
};

struct async_copies; /* async.c */

/* The search for a wait that cannot end. A thread that gives way with the registers and the stack that it had at
 * an earlier turn, while no memory has changed in between, does the same for ever; lanes that have exchanged
 * values do so together, and all of the warp is their state. When all threads of the block that can run have
 * repeated themselves, the round is complete. */
struct repetition {
    _Atomic uint64_t changes; /* grows when a thread does what others may wait for */
    _Atomic uint64_t rounds;  /* complete ones */
    uint64_t searched;        /* `changes` when this round began */
    uint64_t shared; /* what the block's shared memory held when the last round was complete; 0: none was */
    uint64_t repeated[READY_WORDS]; /* threads that have, in this round */
    uint32_t meetings[MAX_WARPS];   /* completed collectives of the block's warps */
    uint32_t turns[MAX_THREADS];
    uint64_t states[MAX_THREADS]; /* at the last turn whose number is a power of two (Brent's algorithm) */
};

/* An array of shared memory, before a guard page: see shared.c. */
struct shared_array {
    const struct smemkit_shared *variable; /* NULL: the dynamic one, or a free slot */
    char *first, *start, *end, *limit;     /* first <= start <= end <= limit, which is fixed; the rest is slack */
};

struct shared_memory {
    char *base;   /* SHARED_SLOTS slots of 1 << shift bytes, each with its guard at its end; then a page that is
                     never   mapped, and the dynamic array, which ends before the guard around it all */
    size_t bytes; /* from `base` to that guard */
    unsigned shift, count; /* slots below `count` are in use */
    size_t static_bytes;   /* of the launch's variables */
    struct shared_array slots[SHARED_SLOTS], dynamic;
};

struct worker {
    const struct smemkit_launch *launch;
    struct index3 block;
    unsigned count;   /* threads of the block */
    unsigned current; /* the running one */
    unsigned exited;
    unsigned ended;              /* of those, threads that a fault ended before their time */
    struct index3 *thread_index; /* this thread's threadIdx */
    uint64_t ready[READY_WORDS]; /* threads that can run, started or not */
    uint64_t started[READY_WORDS];
    struct fiber home;                    /* the worker's own stack */
    struct fiber fibers[MAX_THREADS + 1]; /* the last one is nobody's */
    struct index3 indices[MAX_THREADS];
    unsigned indices_of[3]; /* the block's dimensions that `indices` was made for */
    struct waiting waiting[MAX_THREADS];

    unsigned arrived;   /* threads at the barrier */
    int passed;         /* of them, those whose predicate held */
    int barrier_result; /* of the barrier that was completed last */
    const char *barrier_file;
    int barrier_line; /* where the first one stands */
    unsigned strays;  /* those who stand at another line: `waiting` tells where */

    struct named_barrier named[NAMED_BARRIERS];
    bool named_used; /* by this block */

    uint32_t warp_waiting[MAX_WARPS];    /* lanes in a collective */
    uint32_t warp_converging[MAX_WARPS]; /* lanes in __activemask */
    uint32_t warp_exited[MAX_WARPS];

    size_t page;                       /* bytes of a page here */
    char *stacks;                      /* MAX_THREADS of them, mapped at the first block */
    uint16_t free_stacks[MAX_THREADS]; /* a stack of stacks: the hottest is used first */
    unsigned free_count;
    uint16_t stack_of[MAX_THREADS];

    unsigned guarded; /* stacks that have their guard page */
    struct shared_memory shared;
    void *signal_stack;
    unsigned ticks;

    struct tracer *tracer; /* of a launch that is checked, or NULL */

    struct async_copies *copies; /* NULL before the first one */
    unsigned copies_pending;     /* of all threads of the block */

    struct fault fault;
    const void *fault_address, *fault_code; /* what was asked for, and by which instruction */
    int fault_signal;                       /* set by the handler; the message is written at home */
    bool fault_is_store;
    bool fault_address_known; /* not for what the processor refuses before it looks */
    atomic_bool in_block;
    atomic_ulong blocks_done;
    struct repetition repetition;
    _Atomic int *abort; /* of the launch: nonzero where it must end */
    uint64_t unstarted; /* blocks, when the launch was ended for a wait that cannot end */
    pthread_t thread;
    int number;
};

/* The built-in variables of the running thread; the dialect declares them as threadIdx, … in any library. */
#define SMEMKIT_INDEX __attribute__((visibility("default"))) SMEMKIT_THREAD_LOCAL struct index3
extern SMEMKIT_INDEX smemkit_thread_index;
extern SMEMKIT_INDEX smemkit_block_index;
extern SMEMKIT_INDEX smemkit_block_dim;
extern SMEMKIT_INDEX smemkit_grid_dim;

/* What a launch is being ended for. */
enum abort { ABORT_NOT, ABORT_FAULT, ABORT_HANG, ABORT_DEADLOCK, ABORT_INTERRUPT };

/* The worker that the running thread is; NULL on the host's threads. */
extern SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

/* Maps stacks and shared memory. False where there is no memory for them. */
bool worker_prepare(struct worker *);
void worker_dispose(struct worker *);

/* Runs one block to its end. False with worker->fault filled where it did not end well. */
bool worker_run_block(struct worker *, const struct smemkit_launch *, struct index3 block);

/* Leaves the running block, done or not, from inside it: from a fiber or from a signal handler on any stack. */
void worker_leave(struct worker *) __attribute__((noreturn));

/* Ends the launch: `what` happened in the running thread. */
void worker_fail(struct worker *, enum fault_kind, const char *what, const char *file, int line)
    __attribute__((noreturn));

/* Ends the running thread after a fault that has been noted; the block goes on without it. */
void worker_end_thread(struct worker *) __attribute__((noreturn));
/* The running thread gives way to others. */
void worker_yield(struct worker *);
/* The running thread's log is full: it waits until its warp's logs have been merged. */
void worker_wait_for_room(struct worker *);

/* Shared memory (shared.c): mapped and unmapped; before a worker's first block of a launch; a variable that the
 * launch has not come to yet. */
bool shared_prepare(struct worker *);
void shared_dispose(struct worker *);
bool shared_begin(struct worker *, const struct smemkit_launch *);
void *shared_place(struct worker *, const struct smemkit_shared *);
/* The array that `address` lies in, or beside; NULL where it is not near any. Writes "4 bytes past the end of the
 * shared variable tile of 1024 bytes" or the like; false where there is none. */
const struct shared_array *shared_near(const struct worker *, const void *address);
bool shared_describe(const struct worker *, const void *address, char *text, size_t length);
/* False, with a description, where a block has written beside its arrays. */
bool shared_intact(struct worker *, char *text, size_t length);
uint64_t shared_hash(const struct worker *); /* of what it holds */

/* The copies that a thread has not waited for, at its end; the block's, when they are void; the memory for them.
 */
void async_finish(struct worker *, unsigned thread);
void async_forget(struct worker *);
void async_dispose(struct worker *);

/* The handler for the faults of kernels, in place while a launch runs (fault.c). Called with the pool's lock. */
void fault_handler_install(void);
void fault_handler_remove(void);
void fault_after_fork(void); /* in the child, where no launch runs */
/* Ends the block of a worker that does not react otherwise: its handler then abandons the block. */
void fault_handler_kick(struct worker *);

#endif
