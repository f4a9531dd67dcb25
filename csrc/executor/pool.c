/* The pool: workers that take the blocks of a launch one after another, and the launching thread, which polls for
 * Ctrl-C and aborts blocks that do not end.
 *
 * One launch at a time has the pool, like kernels on one stream; a second host thread waits for its turn.
 */
#define _GNU_SOURCE
#include "block.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"
#include "errors.h"
#include "memory.h"
#include "pool.h"

enum {
    POLL_MS = 20,          /* polling interval of the launching thread */
    GRACE_POLLS = 10,      /* polls until a worker that ignores an abort is interrupted */
    LAST_POLLS = 400,      /* polls until it is interrupted wherever it is */
    WATCHDOG_SECONDS = 60, /* default of SMEMKIT_WATCHDOG: per block of a user's kernel; 0: no limit */
    SHARED_STACKS = 64,    /* of each launch in flight: _MOST_IN_FLIGHT of cpu_module.py have them together */
};

static const unsigned MAX_GRID_X = 2147483647;
enum { MAX_GRID_YZ = 65535, MAX_BLOCK_Z = 64 };

int (*smemkit_interrupted)(void);
const struct observer *smemkit_observer;

static SMEMKIT_THREAD_LOCAL int (*next_earlier)(void); /* see smemkit_overtake */
SMEMKIT_THREAD_LOCAL bool pool_is_nested, pool_is_launching;

struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
                    .work = PTHREAD_COND_INITIALIZER,
                    .idle = PTHREAD_COND_INITIALIZER,
                    .released = PTHREAD_COND_INITIALIZER};

/* ---- workers ---- */

static void run_blocks(struct worker *w, const struct smemkit_launch *launch)
{
    uint64_t columns = launch->grid[0], rows = launch->grid[1], i;

    if (!shared_begin(w, launch) || (cluster_is_wanted(launch) && !cluster_prepare(w, launch))) {
        pthread_mutex_lock(&pool.lock);
        pool.fault = (struct fault){ERROR_MEMORY_ALLOCATION, "no memory for the shared memory of a block"};
        pool.abort = ABORT_FAULT;
        pthread_mutex_unlock(&pool.lock);
        return;
    }
    if (pool.observation &&
        (!smemkit_observer->enter(w, pool.observation) || !cluster_observe(w, launch, pool.observation))) {
        pthread_mutex_lock(&pool.lock);
        pool.observation->out_of_memory = true;
        pthread_mutex_unlock(&pool.lock);
        return;
    }
    while (!pool.abort && (i = atomic_fetch_add(&pool.next_block, 1)) < pool.blocks) {
        if (pool.observation && pool.observation->order)
            i = pool.observation->order[i];
        struct index3 block = {(unsigned)(i % columns), (unsigned)(i / columns % rows),
                               (unsigned)(i / columns / rows)};

        if (!(cluster_is_wanted(launch) ? cluster_run(w, launch, i) : worker_run_block(w, launch, block)) &&
            (!pool.observation || pool.abort)) { /* a check continues with other blocks */
            pthread_mutex_lock(&pool.lock);
            if (!pool.fault.error || pool.abort == ABORT_HANG || pool.abort == ABORT_DEADLOCK)
                pool.fault = w->fault;
            if (!pool.abort)
                pool.abort = ABORT_FAULT;
            pthread_mutex_unlock(&pool.lock);
        }
        atomic_fetch_add(&w->blocks_done, 1);
    }
    if (pool.observation) {
        smemkit_observer->leave(w);
        if (!cluster_restore(w) || !shared_restore_guards(w))
            pool.guards_lost = true;
    }
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    unsigned long seen = 0;
    stack_t signal_stack = {.ss_sp = w->signal_stack, .ss_size = SIGNAL_STACK_BYTES}, before;
    sigset_t all;

    /* other signals, such as Ctrl-C, go to the host threads */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    sigaltstack(&signal_stack, &before);
    smemkit_worker = w;

    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (w->held || (!pool.stop && (pool.generation == seen || !pool.launch)))
            pthread_cond_wait(&pool.work, &pool.lock);
        if (pool.stop)
            break;
        seen = pool.generation;
        pthread_mutex_unlock(&pool.lock);
        run_blocks(w, pool.launch);
        pthread_mutex_lock(&pool.lock);
        if (--pool.running == (pool.earlier ? pool.parked : 0))
            pthread_cond_broadcast(&pool.idle);
    }
    pthread_mutex_unlock(&pool.lock);
    sigaltstack(&before, NULL);
    return NULL;
}

static struct worker *worker_start(void)
{
    struct worker *w = calloc(1, sizeof *w);

    if (!w || !worker_prepare(w)) {
        free(w);
        return NULL;
    }
    w->abort = &pool.abort;
    if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
        worker_dispose(w);
        free(w);
        return NULL;
    }
    return w;
}

static int cores(void)
{
#if defined(__linux__)
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int smemkit_workers(void)
{
    int count = pool.wanted > 0 ? pool.wanted : cores();

    return count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : count;
}

/* Ends all workers. Call it with the lock held and the pool reserved. */
void pool_stop_workers(void)
{
    pool.stop = true;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.size; i++) {
        pthread_join(pool.workers[i]->thread, NULL);
        worker_dispose(pool.workers[i]);
        free(pool.workers[i]);
    }
    pthread_mutex_lock(&pool.lock);
    pool.size = 0;
    pool.stop = false;
}

static uint64_t blocks_of(const struct smemkit_launch *launch)
{
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

/* `shares`: other launches of a chain need stacks at the same time. */
static int workers_for(const struct smemkit_launch *launch, bool shares)
{
    const int most = cluster_workers(launch, shares ? SHARED_STACKS : MAX_WORKERS), wanted = smemkit_workers();

    if (launch->cooperative)
        return (int)blocks_of(launch);
    return wanted < most ? wanted : most;
}

/* Starts the missing workers, as many as there is memory for: at least one, and for a cooperative launch one per
 * block. Call it with the lock held. */
static bool start_workers(const struct smemkit_launch *launch, bool shares)
{
    const int wanted = workers_for(launch, shares);

    if (pool.size > wanted)
        pool_stop_workers();
    for (int i = 0; i < pool.size && (shares || pool.size < wanted); i++)
        cluster_trim(pool.workers[i], launch);
    while (pool.size < wanted) {
        struct worker *w = worker_start();

        if (!w)
            break;
        pool.workers[pool.size++] = w;
    }
    return launch->cooperative ? pool.size == wanted : pool.size > 0;
}

void smemkit_set_workers(int count)
{
    pthread_mutex_lock(&pool.lock);
    pool.wanted = count;
    pthread_mutex_unlock(&pool.lock);
}

/* A forked child has no workers: it starts its own at its first launch. */
static void after_fork(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.idle, NULL);
    pthread_cond_init(&pool.released, NULL);
    memory_after_fork();
    if (smemkit_observer)
        smemkit_observer->after_fork();
    fault_after_fork();
    pool_is_launching = pool_is_nested = false;
    pool.earlier = NULL;
    pool.size = 0; /* the parent's workers leak: their stacks may be in any state */
    pool.busy = pool.stop = false;
    pool.launch = NULL;
    pool.observation = NULL;
    pool.abort = ABORT_NOT;
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

/* ---- launches ---- */

/* SMEMKIT_WATCHDOG, or the default if it is not a number. */
static double watchdog_seconds(void)
{
    const char *text = getenv("SMEMKIT_WATCHDOG");
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : 0;

    return text && end != text && *end == '\0' ? seconds : WATCHDOG_SECONDS;
}

/* Waits for `idle`, at most POLL_MS; then checks for an interrupt, without the lock. Call it with the lock held.
 */
static bool wait_interrupted(void)
{
    struct timespec until;
    bool interrupted;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (pthread_cond_timedwait(&pool.idle, &pool.lock, &until) != ETIMEDOUT || !smemkit_interrupted)
        return false;
    pthread_mutex_unlock(&pool.lock);
    interrupted = smemkit_interrupted() != 0;
    pthread_mutex_lock(&pool.lock);
    return interrupted;
}

/* Progress of the workers since `changes` had its value, for `cannot_end`. */
struct search {
    uint64_t changes, memory;
    uint64_t rounds[MAX_WORKERS];
    bool suspected; /* all threads repeated themselves with this `memory` */
};

static void begin_search(struct search *search, uint64_t changes)
{
    search->changes = changes;
    for (int i = 0; i < pool.size; i++)
        search->rounds[i] = pool.workers[i]->repetition.rounds;
}

/* Whether no thread of the launch can ever change what the others wait for. That is so if every worker that has
 * not finished is in a block, each of these blocks has completed a round (struct repetition) that began after the
 * search and after the memory was hashed, and nothing has changed. Call it with the lock held. */
static bool cannot_end(struct search *search)
{
    struct library library;
    uint64_t changes = 0, memory;
    int in_block = 0;

    for (int i = 0; i < pool.size; i++)
        changes += pool.workers[i]->repetition.changes;
    if (changes != search->changes) {
        search->suspected = false;
        begin_search(search, changes);
        return false;
    }
    for (int i = 0; i < pool.size; i++) {
        if (!pool.workers[i]->in_block)
            continue;
        in_block++;
        if (pool.workers[i]->repetition.rounds - search->rounds[i] <
            2) /* the first one had begun before the search */
            return false;
    }
    if (in_block < pool.running)
        return false;
    library = library_find((uintptr_t)pool.launch->run);
    memory = memory_hash_of_buffers() * 31 +
             memory_hash((const void *)library.data_start, library.data_end - library.data_start);
    if (search->suspected && memory == search->memory)
        return true;
    search->suspected = true;
    search->memory = memory;
    begin_search(search, changes);
    return false;
}

/* Waits until the launch has ended. Call it with the lock held. */
static void watch(void)
{
    unsigned long done[MAX_WORKERS] = {0};
    const double limit = pool.launch->watched ? watchdog_seconds() : 0;
    int stuck[MAX_WORKERS] = {0}, aborting = 0;
    struct search search = {0};
    struct library kernel = {0};

    for (int i = 0; i < pool.size; i++)
        done[i] = pool.workers[i]->blocks_done;
    while (pool.running > 0) {
        if (pool.earlier && pool.parked == pool.running && !pool.abort)
            pool_run_earlier();
        if (pool.abort)
            pthread_cond_broadcast(&pool.released);
        if (wait_interrupted()) /* it takes precedence: its exception is set */
            pool.abort = ABORT_INTERRUPT;
        for (int i = 0; i < pool.size && !pool.abort; i++) {
            unsigned long now = pool.workers[i]->blocks_done;

            stuck[i] = now == done[i] && pool.workers[i]->in_block ? stuck[i] + 1 : 0;
            done[i] = now;
            if (limit > 0 && stuck[i] * (POLL_MS / 1000.0) > limit)
                pool.abort = ABORT_HANG;
        }
        if (!pool.abort && (pool.observation || pool.launch->host_cannot_write) && cannot_end(&search)) {
            for (int i = 0; i < pool.size; i++)
                pool.workers[i]->unstarted =
                    pool.blocks - (pool.next_block < pool.blocks ? pool.next_block : pool.blocks);
            pool.abort = ABORT_DEADLOCK;
        }
        if (!pool.abort || ++aborting <= (pool.observation ? 10 * GRACE_POLLS : GRACE_POLLS))
            continue;
        if (!kernel.code)
            kernel = library_find((uintptr_t)pool.launch->run);
        for (int i = 0; i < pool.size; i++)
            fault_handler_kick(pool.workers[i], aborting < LAST_POLLS ? &kernel : NULL);
    }
    for (int i = 0; i < pool.size; i++)
        atomic_store(&pool.workers[i]->interruptible, NULL);
    if (pool.earlier && !pool.abort) /* no block has waited for it */
        pool_run_earlier();
    pool.earlier = NULL;
}

static int check_configuration(const struct smemkit_launch *launch)
{
    unsigned long long threads = (unsigned long long)launch->block[0] * launch->block[1] * launch->block[2];

    if (!launch->grid[0] || !launch->grid[1] || !launch->grid[2] || !threads)
        return error_refuse(ERROR_INVALID_CONFIGURATION, "an empty grid or block");
    if (launch->grid[0] > MAX_GRID_X || launch->grid[1] > MAX_GRID_YZ || launch->grid[2] > MAX_GRID_YZ)
        return error_refuse(ERROR_INVALID_CONFIGURATION, "a grid has at most %u x %d x %d blocks", MAX_GRID_X,
                            MAX_GRID_YZ, MAX_GRID_YZ);
    if (launch->block[0] > MAX_THREADS || launch->block[1] > MAX_THREADS || threads > MAX_THREADS ||
        launch->block[2] > MAX_BLOCK_Z)
        return error_refuse(ERROR_INVALID_CONFIGURATION, "a block has at most %d threads, and z at most %d",
                            MAX_THREADS, MAX_BLOCK_Z);
    if (cluster_is_wanted(launch) && !cluster_is_possible(launch, error_message, sizeof error_message))
        return smemkit_set_error(ERROR_INVALID_CONFIGURATION);
    if (launch->cooperative && blocks_of(launch) > MAX_WORKERS)
        return error_refuse(ERROR_COOPERATIVE_TOO_LARGE,
                            "%llu blocks that wait for each other: the CPU device runs at most %d together",
                            (unsigned long long)blocks_of(launch), MAX_WORKERS);
    if (launch->shared_bytes > launch->shared_limit || launch->shared_bytes > MAX_SHARED_BYTES)
        return error_refuse(ERROR_INVALID_VALUE, "%zu bytes of dynamic shared memory; this kernel may have %zu",
                            launch->shared_bytes,
                            launch->shared_limit < MAX_SHARED_BYTES ? launch->shared_limit
                                                                    : (size_t)MAX_SHARED_BYTES);
    return ERROR_NONE;
}

/* Waits until no other launch has the pool, and starts its workers. Call it with the lock held. */
static int reserve_pool(const struct smemkit_launch *launch, bool overtakes)
{
    while (pool.busy && !pool_is_nested)
        if (wait_interrupted())
            return error_refuse(ERROR_UNKNOWN, "interrupted");
    pool.busy = true;
    if (start_workers(launch, overtakes || pool_is_nested))
        return ERROR_NONE;
    pool.busy = pool_is_nested;
    pthread_cond_broadcast(&pool.idle);
    return error_refuse(ERROR_MEMORY_ALLOCATION, "no memory for the threads' stacks");
}

/* Runs the blocks, and waits for them. Call it with the lock held and the pool reserved. */
static void run_launch(const struct smemkit_launch *launch, struct observation *observation, int (*earlier)(void))
{
    pool.launch = launch;
    pool.earlier = earlier;
    pool.parked = 0;
    pool.observation = observation;
    pool.blocks = cluster_is_wanted(launch) ? cluster_count(launch)
                  : observation             ? observation->blocks
                                            : blocks_of(launch);
    pool.next_block = 0;
    pool.abort = ABORT_NOT;
    pool.guards_lost = false;
    pool.fault = (struct fault){0};
    pool.running = pool.size;
    error_ran = true;
    pool.generation++;
    fault_handler_install();
    pthread_cond_broadcast(&pool.work);
    watch();
    fault_handler_remove();
}

/* What the launch ends with. A fault of an observed block is in the observer's report instead. */
static struct fault launch_fault(const struct smemkit_launch *launch, const struct observation *observation)
{
    struct fault fault = pool.fault;

    if (pool.abort == ABORT_INTERRUPT) {
        fault.error = ERROR_UNKNOWN;
        snprintf(fault.message, sizeof fault.message, "interrupted in kernel %s", launch->kernel);
    } else if (observation && observation->out_of_memory) {
        fault = (struct fault){ERROR_MEMORY_ALLOCATION, "no memory for the checker"};
    } else if (observation && pool.abort != ABORT_FAULT) { /* ABORT_FAULT: a worker could not begin */
        fault.error = ERROR_NONE;
    } else if (!fault.error && pool.abort) { /* aborted between two blocks */
        fault.error = ERROR_LAUNCH_TIMEOUT;
        snprintf(fault.message, sizeof fault.message,
                 "a block took longer than SMEMKIT_WATCHDOG allows in kernel %s", launch->kernel);
    }
    if (!memory_check_slack(error_message, sizeof error_message) && !fault.error) {
        fault.error = ERROR_ILLEGAL_ADDRESS;
        snprintf(fault.message, sizeof fault.message, "illegal write in kernel %s: %.500s", launch->kernel,
                 error_message);
    }
    return fault;
}

static int run_in_pool(const struct smemkit_launch *launch, struct observation *observation, int (*earlier)(void))
{
    struct fault fault = {0};
    int error;

    pthread_mutex_lock(&pool.lock);
    error = reserve_pool(launch, earlier != NULL);
    if (!error) {
        if (launch->grid_arrivals)
            *launch->grid_arrivals = 0;
        run_launch(launch, observation, earlier);
        fault = launch_fault(launch, observation);
        if (observation && (!memory_restore_guards() || pool.guards_lost)) /* before another launch runs */
            fault = (struct fault){ERROR_LAUNCH_FAILURE,
                                   "the system refuses to protect the guard pages of a buffer again: restart the "
                                   "process, or later accesses out of bounds may go unnoticed"};
        memory_collect();
        pool.busy = pool_is_nested;
        pool.launch = NULL;
        pool.observation = NULL;
        pthread_cond_broadcast(&pool.idle);
    }
    pthread_mutex_unlock(&pool.lock);
    if (fault.error)
        memcpy(error_message, fault.message, sizeof error_message);
    return error ? error : smemkit_set_error(fault.error);
}

void smemkit_overtake(int (*earlier)(void))
{
    next_earlier = earlier;
}

int smemkit_run(const struct smemkit_launch *launch)
{
    static pthread_once_t registered = PTHREAD_ONCE_INIT;
    const struct observer *observer = smemkit_observer && smemkit_observer->wants() ? smemkit_observer : NULL;
    struct observation *observation = NULL;
    int (*const earlier)(void) = next_earlier;
    int error = check_configuration(launch);

    next_earlier = NULL;
    if (!error)
        error = smemkit_launch_failure(launch->kernel);
    if (error)
        return error;
    if (pool_is_launching)
        return error_refuse(
            ERROR_LAUNCH_FAILURE,
            "a launch of %s inside another one of the same thread: does a signal handler call smemkit?",
            launch->kernel);
    pthread_once(&registered, register_fork_handler);
    if (observer && !(observation = observer->begin(launch)))
        return error_refuse(ERROR_MEMORY_ALLOCATION, "no memory for the checker");
    pool_is_launching = true;
    error = run_in_pool(launch, observation, earlier);
    pool_is_launching = false;
    if (observer)
        observer->end(observation);
    return error;
}

void *smemkit_allocate(size_t bytes)
{
    return memory_allocate(bytes);
}

void smemkit_release(void *memory)
{
    memory_release(memory);
}
