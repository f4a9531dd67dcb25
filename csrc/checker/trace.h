/* Logs of a checked build, and what the checker derives from them.
 *
 * The compiler inserts a hook before every memory access and at every basic block (hooks.c). A hook appends to the
 * log of its CUDA thread: control items record where the thread went, addresses record what it accessed. At
 * barriers, and at a block's end, the logs of a warp's lanes are merged into requests, whose cost is counted
 * (trace.c). Before a thread synchronises with others, its accesses are checked against the shadow memory, which
 * holds the last writer and readers of every word; the clocks determine whether two accesses were ordered
 * (races.c).
 */
#ifndef SMEMKIT_TRACE_H
#define SMEMKIT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "banks.h"
#include "executor/library.h"
#include "executor/mbarrier.h"
#include "executor/observer.h"
#include "executor/stacks.h"

enum {
    MAX_POISONED = 16,     /* reads out of bounds after which a thread continues */
    MAX_POISONED_LOGS = 8, /* full logs after which it is terminated: poison may be a loop's bound */
    MAX_LOGS_BESIDE =
        256, /* full logs of another thread, after one has been terminated: poison may have reached it */
    MAX_POISONED_BARRIERS =
        1000,         /* of a block, after which it ends: the bound may be that of a loop of barriers */
    LOG_ITEMS = 2048, /* per thread; when it is full, the warp's logs are merged */
    MAX_PASSED_OVER = 8,
    MAX_FAULTS = 256, /* different ones per launch */
    MAX_CONTEXTS = 16384,
    CONTEXT_CACHE = 64,
    MESSAGE_MAX = 768,
};

/* A control item: the code's address relative to its library, shifted, and in the lowest bits what happened. */
enum { ITEM_BLOCK, ITEM_ACCESS, ITEM_ENTER, ITEM_LEAVE, ITEM_BITS = 2 };

/* An address in a log: 48 bits of address, the logarithm of the size, the kind of access, the memory space. */
enum { ADDRESS_BITS = 48, SIZE_SHIFT = 48, KIND_SHIFT = 52, SPACE_SHIFT = 56 };
/* ACCESS_READ_ONLY: a load of memory that nothing may write in this kernel, ld.global.nc. ACCESS_SOURCE is where
 * the store after it, that of an asynchronous copy, takes its bytes; it is not counted itself. ACCESS_OBJECT: a
 * store that begins or ends an mbarrier: not counted either, for the hardware has an instruction of its own for
 * it, which Nsight Compute counts as no store. From ACCESS_COPY on: asynchronous stores, by enum
 * smemkit_copy_path. */
enum access_kind {
    ACCESS_LOAD,
    ACCESS_STORE,
    ACCESS_ATOMIC,
    ACCESS_ATOMIC_STORE,
    ACCESS_READ_ONLY,
    ACCESS_SOURCE,
    ACCESS_OBJECT,
    ACCESS_COPY
};
enum space { SPACE_STATIC, SPACE_DYNAMIC, SPACE_GLOBAL, SPACE_NONE };
enum { SPANS = 5, OBJECT_LISTS = 1024 };

/* An address as logs have it. `space`: shifted by SPACE_SHIFT. */
static inline uint64_t tag_address(uintptr_t address, uint64_t space, unsigned bytes, unsigned kind)
{
    return (uint64_t)address | space | (uint64_t)kind << KIND_SHIFT | (uint64_t)__builtin_ctz(bytes) << SIZE_SHIFT;
}

static inline uint64_t address_of(uint64_t tagged)
{
    return tagged & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

/* Memory that a thread may access. */
struct span {
    uintptr_t start;
    size_t bytes;
    uint64_t space; /* enum space, shifted by SPACE_SHIFT */
};

/* A call stack: the call that reached a function, and the caller's context. Context 0 is the kernel itself. */
struct context {
    uint32_t parent, item;
    int depth;
};

/* Counts for one accessing instruction with its call stack, per worker and then for the launch. */
struct site {
    uint32_t item; /* 0: free slot */
    uint32_t context;
    uint8_t kind, space, size;
    uint32_t degree;
    uint64_t requests, wavefronts, conflicts, sectors, ideal_sectors;
    uint64_t lanes, ideal_requests; /* active lanes, and the requests that full warps of them would make */
    uint64_t round, round_lanes;    /* current barrier interval, and its active lanes */
    /* the last request; a request that only differs by a shift costs the same */
    uint32_t mask, phase;
    uint32_t steps[LANES], source_steps[LANES];
    /* its distinct addresses: the first lane of each, and all its lanes */
    unsigned group_count;
    uint8_t group_lane[LANES];
    uint32_t group_lanes[LANES];
    struct bank_cost cost;
    int cost_sectors, cost_ideal;
    /* the request with the most conflicts or sectors */
    uint32_t example_mask, example_cost;
    uint64_t example[LANES];
    char variable[64]; /* the array of the example, and its first address */
    int argument;
    uint64_t origin;
};

/* Kinds of faults with registers of a wgmma: an access before the wait, or a write without a fence after it. */
enum registers { REGISTERS_NONE, REGISTERS_IN_FLIGHT, REGISTERS_UNFENCED };
/* The fence that a fault of the proxies lacks */
enum proxy_fence { FENCE_NONE, FENCE_ASYNC, FENCE_MAP_RELEASE, FENCE_MAP_ACQUIRE };
enum hazard { HAZARD_NONE, HAZARD_RAW, HAZARD_WAR, HAZARD_WAW, HAZARD_PROXY };

/* Code location of a fault: an item of a log with its call stack, or a file and a line. */
struct code_location {
    uint32_t item, context;
    const char *file;
    int line;
    const struct trace *trace; /* of an access of an earlier launch of a chain: that launch's; NULL: this one's */
};

/* A wait for an mbarrier that a thread has passed, at a position of its barrier interval. */
struct passed_wait {
    struct mbarrier_pass pass; /* without file: none */
    uint32_t position;
    uint32_t tried;       /* the thread's position when the first try of the wait failed */
    uint32_t tried_epoch; /* its epoch at the last try of any wait */
};

struct checked_fault {
    enum fault_kind kind;
    enum hazard hazard;
    bool warp_synchronous, async;
    bool copy, other_copy;    /* which of the two accesses is that of an asynchronous copy */
    bool doubtful;            /* the ISA can be read in two ways */
    unsigned launches_before; /* the other access is of the launch so many before this one; 0: of the same */
    const struct trace *other_trace; /* that launch's, or NULL */
    bool incoherent;                 /* one of the two is a load of memory that nothing may write */
    bool unwaited, waited; /* of a read of what a copy writes: by a thread that has not waited for its own copy of
                              the same group; by one that has */
    struct mbarrier_pass pass; /* of a race: the mbarrier wait that the later thread has passed before it */
    bool multiplies, other_multiplies; /* of a wgmma */
    enum proxy_fence missing;
    enum registers registers;
    enum access_kind access, other_access;
    struct code_location location, other;
    unsigned block[3], other_block[3];
    unsigned threads; /* valid entries of `thread` */
    unsigned thread[2][3];
    enum space space;
    uint64_t offset; /* in bytes, in the variable or from the argument's address */
    int size;
    uint64_t reach;    /* bytes that the variable would need for all accesses past its end */
    uint64_t extent;   /* bytes of the variable, or from the argument's address to the buffer's end */
    char variable[64]; /* in shared memory */
    unsigned element, dims[3], rank;
    int argument;        /* the kernel's argument that points there; -1: none */
    bool before;         /* the access is `offset` bytes before the argument's address */
    size_t bytes_before; /* of the buffer, before the argument's address */
    uint64_t count;
    char message[MESSAGE_MAX]; /* from the executor, or empty */
};

/* Waits for mbarriers at one line: those that found the phase complete, and tries that did not. */
struct wait_count {
    const char *file; /* of the kernel's library, which outlasts the check */
    int line;
    uint64_t passed, idle;
};
struct wait_counts {
    struct wait_count *lines;
    int count, capacity;
};

/* Asynchronous copies that have been started and not been waited for. */
struct flights {
    uint64_t copies, bytes;
};

/* Shadow of a range of memory: see races.c. */
struct cell;
struct origins;
struct extra_uses;
struct uses_chunk;
struct region {
    struct region *next; /* in the launch's list */
    uintptr_t start;
    size_t bytes, used; /* nothing above `used` has been accessed yet */
    struct cell *cells; /* one per 1 << shift bytes */
    struct origins *origins;
    int shift;
    bool global;
};

struct seen;
struct ordered_pair;
struct clock_list {
    struct seen *items;
    int count, capacity;
};

/* The accesses of a thread up to these epochs are before a fence: fence.proxy.async for memory of one space, or
 * fence.proxy.tensormap. */
struct proxy_fences {
    uint32_t *epochs;
    int count, capacity;
};

/* The clock of one thread: which accesses of others it is ordered after. */
struct thread_clock {
    uint32_t epoch;         /* epoch of its next access */
    uint32_t arrived;       /* its last epoch before it arrived at __syncwarp or a named barrier */
    uint32_t fence[2];      /* its accesses up to this epoch are fenced, [0] for the block, [1] for the device */
    uint32_t fence_base[2]; /* as are those of its block before this epoch */
    bool plain_since;       /* it has made plain accesses since its last fence */
    bool fence_scope;       /* that fence was for the device */
    struct proxy_fences shared_fences, global_fences, map_releases;
    struct clock_list seen, pending;
};

/* The acquires of tensor maps by a block: proxies.c */
struct map_acquire;
struct map_acquires {
    struct map_acquire *items;
    int count, capacity;
    bool reported; /* the map of the copy that starts */
};

/* The checker's state of a worker. The hooks use the first fields. */
struct tracer {
    uint32_t *control, *control_end;
    uint64_t *address;
    uintptr_t base; /* where the kernel's library is loaded */
    bool yield;     /* at every access other threads may run */
    struct span spans[SPANS];
    struct span statics[SHARED_SLOTS]; /* static __shared__ variables, by slot in spans[STATIC] */
    unsigned static_shift;

    struct worker *worker;
    struct trace *trace; /* of the launch */
    uint32_t *controls;  /* LOG_ITEMS for each thread */
    uint64_t *addresses;
    uint32_t *control_of[1024];
    uint64_t *address_of[1024]; /* ends of the threads' logs */
    uint16_t checked[1024];     /* control items that the shadow memory has checked */
    uint16_t checked_addresses[1024];
    uint32_t position[1024]; /* merged control items of the interval */
    uint32_t merged_context[1024],
        context[1024]; /* call stacks at the log's start, and at its first unchecked item */
    struct {
        uint32_t parent, item, context;
    } contexts[CONTEXT_CACHE]; /* entered last */
    uint32_t last[1024];       /* last merged item */
    struct passed_wait passes[1024];
    uint8_t passed_over[32]; /* per warp: merges in a row that left the log of a lane full */

    struct site *sites;
    unsigned site_capacity, site_count;

    const char *dynamic_name; /* name of the dynamic array in its first declaration */
    size_t dynamic_element;
    struct region shared[2]; /* static, dynamic */
    struct region *recent;   /* global */
    struct extra_uses *free_uses;

    /* clocks of the block's threads */
    uint32_t clock, base_epoch, interval;
    uint32_t block_number; /* counted from 1 */
    struct thread_clock *threads;
    struct map_acquires map_acquires;
    /* (count, count): thread u is ordered after thread t's epochs below this; used by __syncwarp, named barriers
     */
    uint32_t *known_epochs;
    struct named_epochs *named;
    bool known_used, fences_used, seen_used, in_atomic;
    uint32_t published;           /* all threads' accesses before this epoch were fenced before the last barrier */
    struct ordered_pair *ordered; /* whether some pairs are ordered, by hash */
    uint64_t acquired;            /* grows whenever a thread acquires something; never 0 */
    struct clock_list seen;       /* what the whole block is ordered after since its last barrier */

    uint16_t poisoned[1024]; /* reads out of bounds of a thread, after which it continues with poison */
    uint16_t poisoned_logs[1024];
    struct code_location poison[1024]; /* the first such read of a thread that is poisoned */
    struct code_location ended_poison; /* that of the first thread that was terminated */
    bool block_poisoned;               /* whether the running block has a poisoned thread */
    unsigned poisoned_barriers;

    uint64_t sources[1024]; /* where the copy that a thread started last reads; 0: nowhere, it writes zeros */

    uint64_t round;    /* number of barrier intervals so far */
    uint64_t barriers; /* of whole blocks, that are complete */
    uint64_t random;
    int schedule;

    struct wait_counts waits;
    struct flights flying, most_flying; /* the block's bulk copies, now; and the most of all copies */
    /* copies of single threads, now, and the most; their sum does not depend on which thread runs first */
    struct flights of_thread[MAX_THREADS], most_of_thread[MAX_THREADS], of_threads;

    struct remote_uses *remotes; /* of the block's shared memory, by others of its cluster; NULL: none yet */
    unsigned copying;            /* 1 + the thread that starts a copy, whose accesses are tested; 0: none */
    uint16_t begun[1024];        /* bit i: a thread knows that block i of the cluster has begun */

    struct local_writes *locals; /* NULL before the first wgmma of the worker */
    bool locals_used;            /* by this block: accesses to threads' locals are checked */
    bool locals_by_coverage;     /* the library calls hooks for locals alone */
};

struct worker;
struct smemkit_launch;

/* ---- a checked launch ---- */

enum schedule { SCHEDULE_SERIAL, SCHEDULE_LOCKSTEP, SCHEDULE_RANDOM };

/* When asynchronous copies complete: at once, at the wait for them, or either. */
enum completion { COMPLETION_EARLY, COMPLETION_LATE, COMPLETION_RANDOM };

struct argument {
    uintptr_t pointer; /* into a buffer */
    int index;         /* of the kernel's parameter */
};

/* The results of one checked launch. */
struct trace {
    struct observation observed;
    struct trace *next;
    struct trace *earlier; /* the launch that this one may overtake; NULL: none */
    _Atomic bool awaited;  /* a thread has waited for it: griddepcontrol.wait */
    bool kept;             /* `regions` outlast the launch, for later ones that may overtake it */
    char kernel[256];
    struct library library;
    unsigned grid[3], block[3], cluster[3];
    size_t shared_bytes;
    uint64_t blocks; /* of the grid */
    enum schedule schedule;
    enum completion completion;
    uint64_t seed;
    struct site *sites; /* summed over workers */
    unsigned site_capacity, site_count;
    struct checked_fault *faults;
    int fault_count;
    uint64_t fault_more;
    uint64_t barriers; /* summed over workers */
    struct wait_counts waits;
    struct flights most_flying; /* of any block */
    _Atomic bool asynchronous;  /* an asynchronous copy was issued */
    uint32_t cas_loads[64];     /* items of loads before a compare-and-swap of the same word: they do not race with
                                   other atomics */
    int guess_count;
    struct argument arguments[64];
    int argument_count;
    struct context *contexts; /* entries below context_count do not change */
    _Atomic uint32_t context_count;

    /* while the launch runs */
    const struct smemkit_launch *launch;
    uintptr_t frame; /* frame address of the launching thread */
    struct region *regions;
    struct uses_chunk *uses;                   /* for words that many warps use */
    struct sync_object *objects[OBJECT_LISTS]; /* hashed by address */
};

/* Options and results of a host thread that checks. */
struct checking {
    enum schedule schedule;
    enum completion completion;
    uint64_t seed;
    uint64_t blocks;             /* blocks to check per launch; 0: all */
    bool all_blocks;             /* check all blocks of the next launch, because they cooperate */
    const char *all_blocks_rows; /* [i] != 0: check all blocks of launches of kernel row i; NULL: of none */
    bool overtakes;              /* the next launch may overtake the one before it */
    bool chained;                /* so may later ones: what each has accessed is kept */
    struct trace *first, *last;
};

/* ---- what the hooks need ---- */

static const uint64_t SPACE_UNKNOWN = UINT64_MAX;

#pragma GCC visibility push(default)
/* Called when the log of the running thread is full. */
void smemkit_trace_full(struct tracer *);

/* A control item at an address of the kernel's code */
static inline uint32_t item_of(const struct tracer *t, const void *code, unsigned what)
{
    return (uint32_t)(((uintptr_t)code - t->base) << ITEM_BITS | what);
}

static inline void log_item(struct tracer *t, uint32_t item)
{
    *t->control++ = item;
    if (t->control == t->control_end)
        smemkit_trace_full(t);
}
/* Whether an access is inside an array, for those that do not end the running thread if it is not. */
bool trace_is_in_bounds(struct tracer *, uintptr_t address, unsigned bytes);
/* Called for an access outside the recent spans. Returns the shifted space, or SPACE_UNKNOWN if the access is not
 * checked. Does not return from a fault. */
uint64_t smemkit_trace_slow_access(struct tracer *, uintptr_t address, unsigned bytes, enum access_kind,
                                   uint32_t item);
/* Called for an access to a thread's locals, if locals_used. */
void smemkit_trace_local(struct tracer *, uintptr_t address, unsigned bytes, enum access_kind, uint32_t item);
/* Lets other threads run before an access, if the schedule says so. */
void smemkit_trace_yield(struct tracer *);
void smemkit_trace_bounds(struct tracer *, const char *file, int line, const char *type, int64_t index);
/* The C library's memmove and memset, not instrumented */
void *smemkit_trace_move(void *to, const void *from, size_t bytes);
void *smemkit_trace_fill(void *to, int byte, size_t bytes);
#pragma GCC visibility pop

/* Checks an asynchronous copy: its source is read now, and `to` must not be accessed before completion. Returns
 * its item. */
uint32_t trace_async(struct tracer *, void *to, const void *from, unsigned read, unsigned bytes,
                     enum smemkit_copy_path, const void *code);
/* bulk.c: as in struct observer */
struct bulk;
uint32_t bulk_access(struct tracer *, const struct bulk *, const void *code);
void bulk_see(struct tracer *, const struct bulk *, bool written);
/* waits.c: a try of a wait for an mbarrier; a copy that is started, and waited for; adds a worker's counts */
void wait_tried(struct tracer *, const char *file, int line, bool passed);
void flight_begin(struct tracer *, const struct bulk *);
void flight_end(struct tracer *, const struct bulk *);
void thread_flight_begin(struct tracer *, unsigned thread, unsigned bytes);
void thread_flight_end(struct tracer *, unsigned thread, unsigned bytes);
void waits_join(struct trace *, const struct tracer *);
/* cluster.c: the tracer of the other block of the cluster whose shared memory has this address, or NULL; checks
 * that the running thread may access it there, and returns whether it may; around the block. */
struct tracer *remote_tracer(const struct tracer *, uintptr_t address);
bool remote_access(struct tracer *, struct tracer *remote, uintptr_t address, unsigned bytes,
                   struct code_location);
/* A copy that the running thread has started writes there, in this epoch: it may end after the thread's accesses.
 */
void remote_copy(struct tracer *, uintptr_t address, uint32_t epoch, struct code_location);
void remotes_begin(struct tracer *);
void remotes_have_begun(struct tracer *, unsigned thread); /* the thread has waited for the cluster's barrier */
void remotes_end(struct tracer *);
void remotes_dispose(struct tracer *);
/* wgmma.c: as in struct observer; around the worker's launch and block */
struct wgmma;
uint32_t wgmma_access(struct tracer *, const struct wgmma *);
void wgmma_see(struct tracer *, const struct wgmma *, unsigned warp);
void wgmma_fence(struct tracer *, unsigned warp);
void locals_begin(struct tracer *);
void locals_dispose(struct tracer *);

/* Describes the __device__ variable that contains `address`: name, offset, extent, element size. False if there is
 * none. */
bool trace_device_variable(uintptr_t address, struct checked_fault *);

/* The first read out of bounds of the running thread, if it has continued with poison, for which it may be
 * waiting; otherwise of a thread that was terminated, for which it may wait. All zeros if there is none. */
struct code_location trace_poison(const struct tracer *);

/* trace_compare: records the load before a compare-and-swap of the same word, which the swap validates.
 * trace_is_cas_load: whether a race is about such a load. */
void trace_compare(struct tracer *, unsigned thread, uintptr_t address);
bool trace_is_cas_load(const struct trace *, const struct checked_fault *);

/* Makes the checker the executor's observer: it checks the launches of threads whose scope asks for it. */
void checker_observe(void);

/* Called by the launching thread before and after a launch. NULL: out of memory. */
struct trace *trace_begin(struct checking *, const struct smemkit_launch *);
void trace_end(struct trace *);
void trace_free(struct trace *);

/* The context of a function that is called at `item` by a function with context `parent`. */
uint32_t trace_context(struct tracer *, uint32_t parent, uint32_t item);

/* Call it in a forked child process: a thread that held a lock does not exist there. */
void trace_after_fork(void);
void races_after_fork(void);

/* Called by a worker before its first block, around each block, and after the last. */
bool trace_enter(struct worker *, struct trace *);
void trace_leave(struct worker *);
void trace_block_begin(struct worker *);
void trace_block_end(struct worker *);

/* Switches the log to another thread. */
void trace_switch(struct tracer *, unsigned from, unsigned to);
/* Merges the logs of a warp none of whose lanes can run. Returns the lanes that have space again. */
uint32_t trace_drain_logs(struct tracer *, unsigned warp, uint32_t lanes);
/* Checks a thread's accesses so far, before it synchronises with some threads, but not with its whole block.
 * Accesses of threads that only synchronise at the block's barriers are checked when their warp's logs are merged.
 */
void trace_check_log(struct tracer *, unsigned thread);
/* How many items a thread has logged and checked in this barrier interval. */
static inline uint32_t trace_position(const struct tracer *t, unsigned thread)
{
    return t->position[thread] + t->checked[thread];
}

/* Logs an access of the running thread that is counted, and not checked for races. */
void trace_count(struct tracer *, uint32_t item, uint64_t tagged);
/* Merges all logs of the block, at a barrier of the block. */
void trace_merge_block(struct tracer *);

/* Called when a shared variable has been allocated. */
void trace_shared(struct tracer *, unsigned slot);

/* The next of the block's random numbers. */
unsigned trace_random(struct tracer *);

/* clock_barrier orders all threads of the block; clock_join orders the threads in `from` before those in `to` (bit
 * sets). See races.c. */
void clock_barrier(struct tracer *);
void clock_arrive(struct tracer *, unsigned thread);
void clock_join(struct tracer *, const uint64_t *from, const uint64_t *to);

/* A thread has arrived at a named barrier (after clock_arrive); a phase is complete; whether a thread is ordered
 * after the arrivals of these threads in the last complete phase. */
void clock_named_arrive(struct tracer *, unsigned thread, int id);
void clock_named_complete(struct tracer *, int id);
bool clock_follows(struct tracer *, unsigned thread, int id, const uint64_t *threads);
void clock_fence(struct tracer *, unsigned thread, int scope);
/* Called around an atomic, so that it is one step with its release and acquire. */
void clock_atomic_begin(struct tracer *);
void clock_atomic(struct tracer *, unsigned thread, uintptr_t address, bool wrote, int order);
/* The running thread has waited for the launch before this one. (early.c) */
void early_awaited(struct tracer *);
bool clocks_prepare(struct tracer *);
void clocks_block_begin(struct tracer *);
void clocks_dispose(struct tracer *);
void clocks_free_objects(struct trace *);

/* races.c: check and record the accesses of one thread, or of one request */
void shadow_accesses(struct tracer *, unsigned thread, const uint32_t *items, unsigned count, unsigned position,
                     const uint64_t **address);
void shadow_request(struct tracer *, const struct site *, unsigned warp, const uint64_t *tagged,
                    unsigned position);
bool shadow_map(struct region *, uintptr_t start, size_t bytes, bool global);
void shadow_forget(struct region *, uintptr_t start, size_t bytes);
void shadow_free(struct region *);
/* An asynchronous copy to shared memory has been issued, at this shadow_position(), or has completed. */
void shadow_async(struct tracer *, unsigned thread, const void *to, unsigned bytes, uint32_t item,
                  uint32_t position, bool completed);
void shadow_free_all(struct trace *);

/* The fault of this kind at these locations: with count 1 a new one, to be filled in; NULL if there are too many.
 * Takes the lock that trace_fault_done releases. */
struct checked_fault *trace_fault(struct tracer *, enum fault_kind, struct code_location,
                                  struct code_location other, enum hazard);
void trace_fault_done(void);
/* Records a fault of the running thread with a message of the executor. */
void trace_fault_message(struct worker *, enum fault_kind, struct code_location, struct code_location other,
                         const char *message, bool thread);
/* Describes `address`: fills variable, offset, extent, argument. */
void trace_name(struct tracer *, struct checked_fault *, uintptr_t address, enum space);
/* Location of the running thread: `code` if it is in the kernel's library, otherwise the last item of the thread's
 * log.
 */
struct code_location trace_here(const struct tracer *, const void *code);

#endif
