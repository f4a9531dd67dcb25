/* The pool of workers, and a launch that begins before the one before it has run: what pool.c and early.c share.
 */
#ifndef SMEMKIT_POOL_H
#define SMEMKIT_POOL_H

#include "block.h"

/* The process's workers. `lock` protects all fields except the atomic ones, and `launch`, `blocks`, `workers`,
 * which do not change while `running` is not zero. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work; /* wakes workers: a launch, or stop */
    pthread_cond_t idle; /* wakes host threads: the launch is done, or the pool is free */
    struct worker *workers[MAX_WORKERS];
    int size;          /* workers alive */
    atomic_int wanted; /* 0: one per core */
    bool busy, stop;
    unsigned long generation; /* counts launches */
    const struct smemkit_launch *launch;
    struct observation *observation; /* NULL unless the launch is observed */
    uint64_t blocks;
    atomic_ullong next_block;
    int running;             /* workers that have not finished this launch */
    int (*earlier)(void);    /* runs the launch that this one has overtaken; NULL: none, or it has run */
    int parked;              /* of the running workers, those that wait for it */
    pthread_cond_t released; /* wakes them */
    _Atomic int abort;
    atomic_bool guards_lost; /* a guard page that a check has read cannot be protected again */
    struct fault fault;      /* the first one */
};
extern struct pool pool;

/* Of a host thread: it runs a launch inside another one; it launches, so that a signal handler that launched would
 * wait for itself. */
extern SMEMKIT_THREAD_LOCAL bool pool_is_nested, pool_is_launching;

/* Ends all workers. Call it with the lock held and the pool reserved. */
void pool_stop_workers(void);

/* Runs the launch that this one has overtaken, with workers of its own, while those of this one wait. Call it with
 * the lock held. */
void pool_run_earlier(void);

#endif
