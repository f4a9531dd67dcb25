/* One worker thread of the executor and the block that it is running: shared by block.c, pool.c and fault.c. */
#ifndef SMEMKIT_BLOCK_H
#define SMEMKIT_BLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "executor.h"
#include "fiber.h"

enum {
    MAX_THREADS = 1024,
    MAX_WARPS = MAX_THREADS / 32,
    READY_WORDS = MAX_THREADS / 64,
    MAX_SHARED_BYTES = 227 * 1024, /* of dynamic shared memory a block, as on compute capability 9.0 */
    MESSAGE_BYTES = 768,
    SIGNAL_STACK_BYTES = 65536,
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

enum wait { WAIT_AT_BARRIER, WAIT_AT_ANOTHER, WAIT_WARP, WAIT_CONVERGENCE };

/* Why a thread that is not ready does not run. WAIT_AT_BARRIER is what all have that have never said otherwise:
 * the barrier, which is the path that must be short, writes nothing here. */
struct waiting {
    const char *file;
    int line;
    enum wait reason;
    enum smemkit_collective collective;
    uint32_t mask;
    int source;
    uint64_t value; /* what it brought; when it runs again, what it gets */
};

struct worker {
    const struct smemkit_launch *launch;
    struct index3 block;
    unsigned count;   /* threads of the block */
    unsigned current; /* the running one */
    unsigned exited;
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

    uint32_t warp_waiting[MAX_WARPS];    /* lanes in a collective */
    uint32_t warp_converging[MAX_WARPS]; /* lanes in __activemask */
    uint32_t warp_exited[MAX_WARPS];

    size_t page;                       /* bytes of a page here */
    char *stacks;                      /* MAX_THREADS of them, mapped at the first block */
    uint16_t free_stacks[MAX_THREADS]; /* a stack of stacks: the hottest is used first */
    unsigned free_count;
    uint16_t stack_of[MAX_THREADS];

    unsigned guarded; /* stacks that have their guard page */
    char *shared;     /* dynamic shared memory, up to a guard page */
    void *signal_stack;
    unsigned ticks;

    struct fault fault;
    const void *fault_address;
    int fault_signal; /* set by the handler; the message is written at home */
    bool fault_is_store;
    bool fault_address_known; /* not for what the processor refuses before it looks */
    atomic_bool in_block;
    atomic_ulong blocks_done;
    _Atomic int *abort; /* of the launch: nonzero where it must end */
    pthread_t thread;
    int number;
};

/* What a launch is being ended for. */
enum abort { ABORT_NOT, ABORT_FAULT, ABORT_HANG, ABORT_INTERRUPT };

/* The worker that the running thread is; NULL on the host's threads. */
extern SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

/* Maps stacks and shared memory. False where there is no memory for them. */
bool worker_prepare(struct worker *);
void worker_dispose(struct worker *);

/* Runs one block to its end. False with worker->fault filled where it did not end well. */
bool worker_run_block(struct worker *, const struct smemkit_launch *, struct index3 block);

/* Leaves the running block, done or not, from inside it: from a fiber or from a signal handler on any stack. */
void worker_leave(struct worker *) __attribute__((noreturn));

/* The handler for the faults of kernels, in place while a launch runs (fault.c). Called with the pool's lock. */
void fault_handler_install(void);
void fault_handler_remove(void);
void fault_after_fork(void); /* in the child, where no launch runs */
/* Ends the block of a worker that does not react otherwise: its handler then abandons the block. */
void fault_handler_kick(struct worker *);

#endif
