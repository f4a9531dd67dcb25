/* What watches launches: the checker fills this table, and the executor calls it. The executor knows no more of
 * it, so that it can be read, built and tested alone. */
#ifndef SMEMKIT_OBSERVER_H
#define SMEMKIT_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor.h"

struct worker;
struct bulk;
struct mbarrier_pass;
struct wgmma;

enum { SHARED_SLOTS = 64 }; /* static __shared__ variables per kernel */

enum fault_kind {
    KIND_RACE,
    KIND_BARRIER,
    KIND_OUT_OF_BOUNDS,
    KIND_UNINITIALISED,
    KIND_MISALIGNED,
    KIND_HANG,
    KIND_TRAP,
    KIND_SHUFFLE,
    KIND_LEAK
};

/* One observed launch. The observer's own data follow it. */
struct observation {
    uint64_t blocks; /* the blocks to run: those in `order`, or all if it is NULL */
    uint64_t *order; /* (blocks) */
    bool out_of_memory;
};

/* The observer's state of one worker; worker->tracer is not NULL during an observed launch. */
struct tracer;

struct observer {
    /* Called by the launching thread. `wants`: whether it wants this launch observed. `begin`: NULL if out of
     * memory. */
    bool (*wants)(void);
    struct observation *(*begin)(const struct smemkit_launch *);
    void (*end)(struct observation *);
    void (*after_fork)(void); /* in the child */

    /* Called by a worker: before its first block of the launch, which sets worker->tracer (false: out of memory),
     * after the last one, and around each. */
    bool (*enter)(struct worker *, struct observation *);
    void (*leave)(struct worker *);
    void (*block_begin)(struct worker *);
    void (*block_end)(struct worker *);

    /* Scheduling: where to look for the next ready thread, or for a block's first one; the switch to another
     * thread; and that a warp with suspended lanes has no lane that can run, which returns the lanes that may go
     * on. */
    unsigned (*next_thread)(struct worker *, bool first);
    void (*switch_thread)(struct worker *, unsigned from, unsigned to);
    uint32_t (*resume)(struct worker *, unsigned warp, uint32_t lanes);

    /* Synchronisation: of the whole block; of some threads, each of which arrives before `join` orders those in
     * `from` before those in `to` (bit sets). */
    void (*barrier)(struct worker *);
    void (*arrive)(struct worker *, unsigned thread);
    void (*join)(struct worker *, const uint64_t *from, const uint64_t *to);

    /* Of named barriers: the running thread has arrived; a phase is complete; whether the running thread is
     * ordered after the arrivals of these threads in the last complete phase. */
    void (*named_arrive)(struct worker *, int id);
    void (*named_complete)(struct worker *, int id);
    bool (*follows)(struct worker *, int id, const uint64_t *threads);

    /* A static shared variable has been allocated in this slot. */
    void (*shared_allocated)(struct worker *, unsigned slot);

    /* An asynchronous copy is issued, which returns what identifies its instruction; whether the next one
     * completes at once rather than at a wait; a thread waits for copies or exits; a copy can be seen by its
     * thread. */
    uint32_t (*copy_issued)(struct worker *, void *to, const void *from, unsigned read, unsigned bytes,
                            enum smemkit_copy_path path, const void *code);
    bool (*completes_early)(struct worker *);
    void (*copies_awaited)(struct worker *, unsigned thread);
    void (*copy_completed)(struct worker *, unsigned thread, void *to, unsigned bytes, uint32_t item);

    /* A bulk copy is issued, which returns the number of its read, and takes the next one for its write; the
     * running thread, or whoever waits for the copy's mbarrier after it, sees that its source is read, and, if
     * `written`, that it is complete. */
    uint32_t (*bulk_issued)(struct worker *, const struct bulk *, const void *code);
    void (*bulk_seen)(struct worker *, const struct bulk *, bool written);

    /* A multiplication of a warpgroup is issued, which returns the number of its reads; a warp waits for it; a
     * warp executes wgmma.fence. */
    uint32_t (*wgmma_issued)(struct worker *, const struct wgmma *);
    void (*wgmma_seen)(struct worker *, const struct wgmma *, unsigned warp);
    void (*wgmma_fenced)(struct worker *, unsigned warp);

    /* The running thread arrives at the barrier of its cluster, or has waited for it. */
    void (*cluster_barrier)(struct worker *, const void *cluster, bool arrives, bool orders);

    /* The running thread has waited for the launch before this one. */
    void (*earlier_awaited)(struct worker *);

    /* Copies of a thread that are complete arrive at an mbarrier; the running thread tries a wait, and returns
     * whether it has not synchronised since its last try; the first try of a wait has failed; a wait is passed. */
    void (*copies_arrived)(struct worker *, unsigned thread, const void *object);
    bool (*mbarrier_tried)(struct worker *, const char *file, int line, bool passed); /* every one */
    void (*mbarrier_failed)(struct worker *);
    void (*mbarrier_passed)(struct worker *, const struct mbarrier_pass *);

    /* A fault: of the running thread, or of the block, in one or two lines; of the running thread at an address of
     * code (NULL: at its last access). */
    void (*fault)(struct worker *, enum fault_kind, const char *message, bool thread, const char *file, int line,
                  const char *other_file, int other_line);
    void (*fault_at_code)(struct worker *, enum fault_kind, const char *message, const void *code);
};

/* NULL before the first observed launch of the process. */
extern const struct observer *smemkit_observer;

#endif
