/* The shadow memory and the clocks: what races.c, shadow.c and clocks.c share. */
#ifndef SMEMKIT_CHECKER_SHADOW_H
#define SMEMKIT_CHECKER_SHADOW_H

#include <stdatomic.h>

#include "internal.h"

/* Numbers of threads: a bulk copy that thread i has started counts as thread COPIES + i, a wgmma of the warpgroup
 * whose first thread is i as MULTIPLICATIONS + i. */
enum { COPIES = 1024, MULTIPLICATIONS = 2048 };

enum { USES = 2, MAX_ATOMICS = 32, MAX_LOADS = 4, USES_IN_CHUNK = 1024, STRIPES = 256, INTERVAL_BITS = 10 };

/* A use of a word: the lanes of one warp that have loaded it, or done an atomic on it, in one epoch. */
struct use {
    uint32_t epoch, lanes; /* epoch 0: none */
    uint16_t warp;
    bool atomic, read_only;
};

struct cell {
    uint32_t epoch; /* of the last plain store; 0: none */
    uint16_t thread;
    bool written : 1; /* by a store, an atomic or a copy */
    bool atomics : 1; /* some uses may be atomics */
    bool loads : 1;   /* some may be loads */
    bool pending : 1; /* an asynchronous copy to it is in flight */
    bool copied : 1;  /* the last plain store is that of an asynchronous copy */
    uint8_t touched;  /* see touch_cell */
    struct use uses[USES];
};

/* Code location of an access of a cell, needed only for a race; and its block, needed only for global memory. */
struct origin {
    uint32_t item, context, position, block;
};

struct origins {
    struct origin store, uses[USES], copy;
    struct extra_uses *more; /* valid only while the cell's own uses are occupied, the first one included */
    uint16_t copier;         /* thread of the copy in flight */
    uint8_t touched;         /* see touch_cell */
    uint32_t group;          /* the copy's, or that of the copy whose store is the last one */
};

/* Writes to a cell before it is read. The first read of a page would map a page of zeros, and the first write
 * after that replace it by another one, for which Linux interrupts all processors that run the process. */
static inline void touch_cell(struct cell *cell, struct origins *origins)
{
    *(volatile uint8_t *)&cell->touched = 1;
    *(volatile uint8_t *)&origins->touched = 1;
}

/* Uses beyond those in the cell. */
struct extra_uses {
    struct extra_uses *next;
    struct use use;
    struct origin origin;
};

/* All workers share the cells of global memory: an access holds the lock of its 64 bytes. Refining a region takes
 * all locks. */
extern atomic_flag shadow_stripes[STRIPES];

static inline void lock_stripe(unsigned i)
{
    while (atomic_flag_test_and_set_explicit(&shadow_stripes[i], memory_order_acquire))
        ;
}

static inline void unlock_stripe(unsigned i)
{
    atomic_flag_clear_explicit(&shadow_stripes[i], memory_order_release);
}

/* In a forked child. */
void shadow_after_fork(void);

/* The access that is being checked. */
struct access {
    unsigned thread;
    uint32_t block, epoch, item, context, position;
    enum access_kind kind;
    uintptr_t address;
    unsigned size;
    enum space space;
    bool reads;
    bool read_only;  /* of memory that nothing may write in this kernel */
    bool async;      /* an asynchronous copy that has not been waited for */
    bool same_proxy; /* of a copy: needs no proxy fence */
    uintptr_t map;   /* a copy reads the tensor map at this address; 0: another access */
    bool copied;     /* an asynchronous copy, in flight or complete */
    uint32_t group;  /* its group */
    bool multiplies; /* a wgmma */
};

static inline struct access access_from_origin(const struct origin *origin, unsigned thread, uint32_t epoch,
                                               enum access_kind kind)
{
    return (struct access){.thread = thread,
                           .block = origin->block,
                           .epoch = epoch,
                           .item = origin->item,
                           .context = origin->context,
                           .position = origin->position,
                           .kind = kind,
                           .async = thread >= COPIES};
}

/* The index in a grid of a block, which is counted from 1. (race_report.c) */
void block_index(const unsigned grid[3], uint32_t block, unsigned *index);

/* Reports a race between `now` and an access that the shadow has recorded before. (race_report.c) */
void report_race(struct tracer *t, const struct access *now, const struct access *earlier);

struct extra_uses *take_extra_use(struct tracer *t);

void release_extra_uses(struct tracer *t, struct origins *origins);

/* Gives a region a cell for each byte, if it still has cells of four bytes: for an access smaller than a word. */
void shadow_refine(struct tracer *t, struct region *region);

/* The region of an address, made at its first access; NULL if there is none, or no memory. */
struct region *find_region(struct tracer *t, uintptr_t address);

/* Whether `earlier`, which the shadow recorded before, is ordered before `now`. */
bool ordered(struct tracer *t, const struct access *now, const struct access *earlier);

/* Checks that the proxies of an access by a copy or a wgmma see what a cell holds. (proxies.c) */
void check_proxies(struct tracer *t, const struct cell *cell, const struct origins *origins,
                   const struct access *now);

/* Releases the read of a bulk copy, which has this epoch, and its write, at an address; with `seen`, also to a
 * thread. */
void clock_copy(struct tracer *t, unsigned thread, uintptr_t address, bool seen, unsigned copy, uint32_t epoch,
                bool written);

/* A wgmma reads a cell: checks the access of one thread, and, with an epoch, records it as the wgmma's. */
void shadow_operand_access(struct tracer *t, struct region *region, const struct access *now, uint32_t epoch);
/* Releases at an address what has this epoch of a thread of a block: the reads of a wgmma, or a whole launch. To a
 * thread: the releases at an address so far. */
void clock_release(struct tracer *t, uintptr_t address, uint32_t block, unsigned thread, uint32_t epoch);
void clock_acquire(struct tracer *t, unsigned thread, uintptr_t address);

/* Tells of an access to global memory that may be before the end of an earlier launch, which has accessed the same
 * words. (early.c) */
void early_check(struct tracer *t, const struct access *now);

/* A thread's position in the kernel. */
uint32_t shadow_position(const struct tracer *t, unsigned thread);

/* Checks an access of a bulk copy to a word or a byte as one of the thread that starts it, and records it as the
 * copy's, in this epoch. */
void shadow_copy_access(struct tracer *t, struct region *region, const struct access *now, uint32_t epoch);

#endif
