/* What the checked build of a kernel tells the executor, and what becomes of it.
 *
 * The compiler puts a hook before every access to memory and at every basic block (hooks.c). A hook appends to the
 * log of its CUDA thread: the control items say where the thread went, the addresses what it asked for. At
 * barriers and at a block's end the logs of a warp's lanes are merged into requests, and those are costed
 * (trace.c). Before a thread synchronises with others its accesses pass through the shadow memory, which knows for
 * every word who wrote and read it last, and the clocks tell whether that was ordered (races.c).
 */
#ifndef SMEMKIT_TRACE_H
#define SMEMKIT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis.h"
#include "library.h"

enum {
    LOG_ITEMS = 2048, /* of a thread, before its warp has to be merged */
    MAX_FAULTS = 256, /* different ones, of a launch */
    MAX_CONTEXTS = 16384,
    CONTEXT_CACHE = 64,
    MESSAGE_MAX = 768,
    SHARED_SLOTS = 64, /* static __shared__ variables of a kernel */
};

/* A control item: the code's address relative to its library, and in the lowest bits what it is. */
enum { ITEM_BLOCK, ITEM_ACCESS, ITEM_ENTER, ITEM_LEAVE, ITEM_BITS = 2 };

/* An address in a log: 48 bits of address, then the logarithm of the size, what is done there, and where it is. */
enum { ADDRESS_BITS = 48, SIZE_SHIFT = 48, KIND_SHIFT = 52, SPACE_SHIFT = 56 };
enum access_kind { ACCESS_LOAD, ACCESS_STORE, ACCESS_ATOMIC, ACCESS_ATOMIC_STORE };
enum space { SPACE_STATIC, SPACE_DYNAMIC, SPACE_GLOBAL, SPACE_NONE };
enum { SPANS = 5, OBJECT_LISTS = 1024 };

/* Memory that a thread may touch. */
struct span {
    uintptr_t start;
    size_t bytes;
    uint64_t space; /* shifted */
};

/* How a function was reached: the call of it, and how the caller was reached. 0: it is the kernel. */
struct context {
    uint32_t parent, item;
    int depth;
};

/* One line of a kernel, as one worker has counted it. */
struct site {
    uint32_t item; /* 0: free */
    uint32_t context;
    uint8_t kind, space, size;
    uint32_t degree;
    uint64_t requests, wavefronts, conflicts, sectors, ideal_sectors;
    uint64_t lanes, ideal_requests; /* that asked, and the requests that whole warps would make of them */
    uint64_t round, round_lanes;    /* those between two barriers, which have not been put to whole warps yet */
    /* the request that was costed last; those that differ from it by a shift alone cost the same */
    uint32_t mask, phase;
    uint32_t steps[LANES];
    /* its different addresses: the first lane that has it, and all of them */
    unsigned group_count;
    uint8_t group_lane[LANES];
    uint32_t group_lanes[LANES];
    struct bank_cost cost;
    int cost_sectors, cost_ideal;
    /* the one with the most conflicts, or sectors */
    uint32_t example_mask, example_cost;
    uint64_t example[LANES];
    char variable[64]; /* that the example lies in, and where it starts */
    int argument;
    uint64_t origin;
};

enum fault_kind {
    KIND_RACE,
    KIND_BARRIER,
    KIND_OUT_OF_BOUNDS,
    KIND_UNINITIALISED,
    KIND_MISALIGNED,
    KIND_HANG,
    KIND_TRAP,
    KIND_SHUFFLE
};
enum hazard { HAZARD_NONE, HAZARD_RAW, HAZARD_WAR, HAZARD_WAW };

/* Where a fault's code is: an item of a log, or a file and a line. */
struct place {
    uint32_t item, context;
    const char *file;
    int line;
};

struct checked_fault {
    enum fault_kind kind;
    enum hazard hazard;
    bool warp_synchronous, async;
    enum access_kind access, other_access;
    struct place place, other;
    unsigned block[3], other_block[3];
    unsigned threads; /* how many of `thread` mean something */
    unsigned thread[2][3];
    enum space space;
    uint64_t offset; /* in the variable, in bytes */
    int size;
    uint64_t extent;   /* of the variable, in bytes; of a buffer, from where the argument points to its end */
    char variable[64]; /* of shared memory */
    unsigned element, dims[3], rank;
    int argument; /* of the launch, that points there; -1: none */
    bool before;  /* the address lies `offset` bytes before where the argument points */
    size_t lead;  /* bytes of the buffer before that */
    uint64_t count;
    char message[MESSAGE_MAX]; /* of the executor, where it has one */
};

/* Shadow of a piece of memory: see races.c. */
struct cell;
struct origins;
struct more_uses;
struct uses_chunk;
struct region {
    struct region *next; /* in the launch's list */
    uintptr_t start;
    size_t bytes, used; /* nothing above `used` has been touched yet */
    struct cell *cells; /* one for 1 << shift bytes */
    struct origins *origins;
    int shift;
    bool global;
};

struct seen;
struct clock_list {
    struct seen *items;
    int count, room;
};

/* What orders the accesses of one thread after those of others. */
struct thread_clock {
    uint32_t epoch;         /* of its accesses from now on */
    uint32_t arrived;       /* the last epoch before it came to a barrier of some threads */
    uint32_t fence[2];      /* its accesses up to this epoch are fenced, for the block and for the device */
    uint32_t fence_base[2]; /* and those of its block before this epoch */
    bool plain_since;       /* it made plain accesses since its last fence */
    bool fence_scope;       /* and that one was for the device */
    struct clock_list seen, pending;
};

/* The checker's part of a worker. The first fields are what the hooks use. */
struct tracer {
    uint32_t *control, *control_end;
    uint64_t *address;
    uintptr_t base; /* where the kernel's library is loaded */
    bool yield;     /* at every access */
    struct span spans[SPANS];
    struct span statics[SHARED_SLOTS]; /* the static __shared__ variables, by their slots in spans[0] */
    unsigned static_shift;

    struct worker *worker;
    struct trace *trace; /* the launch's */
    uint32_t *controls;  /* LOG_ITEMS for each thread */
    uint64_t *addresses;
    uint32_t *control_of[1024];
    uint64_t *address_of[1024]; /* where a thread's log goes on */
    uint16_t checked[1024];     /* control items that have been through the shadow memory */
    uint16_t checked_addresses[1024];
    uint32_t full[32];                            /* lanes that wait for room in their logs */
    uint32_t position[1024];                      /* control items of the interval that are gone from the log */
    uint32_t merged_context[1024], context[1024]; /* where the log begins, and where it has been checked up to */
    struct {
        uint32_t parent, item, context;
    } contexts[CONTEXT_CACHE]; /* that were entered last */
    uint32_t last[1024];       /* the last item that is gone from the log */

    struct site *sites;
    unsigned site_room, site_count;

    const char *dynamic_name; /* of the dynamic array, as its first declaration has it */
    size_t dynamic_element;
    struct region shared[2]; /* static, dynamic */
    struct region *recent;   /* global */
    struct more_uses *free_uses;

    /* clocks of the block's threads */
    uint32_t clock, base_epoch, interval;
    uint32_t block_number; /* from 1 */
    struct thread_clock *threads;
    uint32_t
        *known; /* (count, count): what thread u knows of thread t; where finer means than barriers are used */
    bool known_used, fences_used, seen_used, in_atomic;
    uint32_t published;     /* accesses of all threads before this epoch were fenced before the last barrier */
    struct clock_list seen; /* by the whole block, at its last barrier */

    uint64_t round; /* between two barriers of the block */
    uint64_t random;
    int schedule;
};

struct worker;
struct smemkit_launch;

/* ---- a checked launch ---- */

enum schedule { SCHEDULE_SERIAL, SCHEDULE_LOCKSTEP, SCHEDULE_RANDOM };

struct argument {
    uintptr_t pointer; /* to a buffer */
    int index;         /* of the kernel's parameters */
};

/* What has been found out about one launch. */
struct trace {
    struct trace *next;
    char kernel[256];
    struct library library;
    unsigned grid[3], block[3];
    size_t shared_bytes;
    uint64_t blocks, blocks_checked;
    uint64_t *order; /* blocks_checked of them; NULL: all */
    enum schedule schedule;
    uint64_t seed;
    struct site *sites; /* of all workers */
    unsigned site_room, site_count;
    struct checked_fault *faults;
    int fault_count;
    uint64_t fault_more;
    uint32_t guesses[64]; /* loads of a word that the thread then compares and swaps: no race with other atomics */
    int guess_count;
    struct argument arguments[64];
    int argument_count;
    struct context *contexts; /* what is below context_count does not change any more */
    _Atomic uint32_t context_count;
    bool out_of_memory;

    /* while it runs */
    const struct smemkit_launch *launch;
    uintptr_t frame; /* of the launching thread */
    struct region *regions;
    struct uses_chunk *uses;                   /* of words that many warps use */
    struct sync_object *objects[OBJECT_LISTS]; /* by address: what was released where */
};

/* What a checking host thread asks for, and gets. */
struct checking {
    enum schedule schedule;
    uint64_t seed;
    uint64_t blocks; /* how many of a launch; 0: all */
    bool all_blocks; /* of the next launch, whose blocks work together */
    uint64_t whole;  /* the rows of the table of whose launches all blocks are checked, as bits */
    struct trace *first, *last;
};

/* ---- what the hooks need ---- */

/* The workers' stacks lie in one piece of address space, so that code can tell from its stack pointer alone
 * whether it is a kernel's, and whose. */
static const uintptr_t STACK_REGION = (uintptr_t)512 << 20; /* what a worker's stacks fit into */
static const uintptr_t STACKS_BYTES = (uintptr_t)256 * ((uintptr_t)512 << 20);
static const uint64_t SPACE_UNKNOWN = UINT64_MAX;

/* The first bytes of a worker's region. */
struct stack_region {
    struct worker *worker;
    struct tracer *tracer; /* NULL where the block is not checked */
};

#pragma GCC visibility push(default)
extern char *smemkit_stacks;
/* The log of the running thread is full. */
void smemkit_trace_full(struct tracer *);
/* An access to somewhere else than the last ones: the space, shifted, or SPACE_UNKNOWN where it is nobody's
 * business. Does not return from what is a fault. */
uint64_t smemkit_trace_unusual(struct tracer *, uintptr_t address, unsigned bytes, enum access_kind,
                               uint32_t item);
/* Others run before this access, if the schedule says so. */
void smemkit_trace_yield(struct tracer *);
void smemkit_trace_bounds(struct tracer *, const char *file, int line, const char *type, int64_t index);
/* The C library's memmove and memset */
void *smemkit_trace_move(void *to, const void *from, size_t bytes);
void *smemkit_trace_fill(void *to, int byte, size_t bytes);
#pragma GCC visibility pop

/* An asynchronous copy: its bytes are read, and `to` is not to be touched before they have landed. Where it is. */
uint32_t trace_async(struct tracer *, void *to, const void *from, unsigned read, unsigned bytes, const void *code);

/* The __device__ variable that an address lies in: fills name, offset, extent and size of an element. */
bool trace_device_variable(uintptr_t address, struct checked_fault *);

/* A thread compares and swaps a word. The load before it, of which the swap makes sure, is told apart from others;
 * whether a fault is about such a load. */
void trace_compare(struct tracer *, unsigned thread, uintptr_t address);
bool trace_is_guess(const struct trace *, const struct checked_fault *);

/* Of the calling host thread; NULL where it does not check. */
struct checking **trace_checking(void);

/* Before and after a launch, by the thread that launches. NULL where there is no memory. */
struct trace *trace_begin(struct checking *, const struct smemkit_launch *);
void trace_end(struct trace *);
void trace_free(struct trace *);

/* The context of a function that is called at `item`, in a function that runs in `parent`. */
uint32_t trace_context(struct tracer *, uint32_t parent, uint32_t item);

/* In a forked child, where a thread that held a lock is no more. */
void trace_after_fork(void);
void races_after_fork(void);

/* By a worker: before its first block, around each, after the last. */
bool trace_enter(struct worker *, struct trace *);
void trace_leave(struct worker *);
void trace_block_begin(struct worker *);
void trace_block_end(struct worker *);

/* Another thread runs now. */
void trace_switch(struct tracer *, unsigned from, unsigned to);
/* The lanes of a warp that wait for room get it: nobody else of the warp can run. Returns those who can go on. */
uint32_t trace_make_room(struct tracer *, unsigned warp, uint32_t lanes);
/* A thread is about to synchronise with some others, and not with its whole block: its accesses so far are
 * checked. Those of threads that only meet at the block's barriers are checked when their warp's logs are merged.
 */
void trace_settle(struct tracer *, unsigned thread);
/* All logs of the block become requests: no lane of it can go on before others do. */
void trace_merge_block(struct tracer *);

/* A shared variable has got its place. */
void trace_shared(struct tracer *, unsigned slot);

/* The next of the block's random numbers. */
unsigned trace_random(struct tracer *);

/* Order: all threads of the block; the threads in `from` with those in `to`, both bit sets; see races.c. */
void clock_barrier(struct tracer *);
void clock_arrive(struct tracer *, unsigned thread);
void clock_join(struct tracer *, const uint64_t *from, const uint64_t *to);
void clock_fence(struct tracer *, unsigned thread, int scope);
/* Around an atomic, which is one step with what it releases and sees. */
void clock_atomic_begin(struct tracer *);
void clock_atomic(struct tracer *, unsigned thread, uintptr_t address, bool wrote, int order);
bool clocks_prepare(struct tracer *);
void clocks_block_begin(struct tracer *);
void clocks_dispose(struct tracer *);
void clocks_free_objects(struct trace *);

/* races.c: accesses through the shadow memory, of one thread or of one request */
void shadow_accesses(struct tracer *, unsigned thread, const uint32_t *items, unsigned count, unsigned position,
                     const uint64_t **address);
void shadow_request(struct tracer *, const struct site *, unsigned warp, const uint64_t *tagged,
                    unsigned position);
bool shadow_map(struct region *, uintptr_t start, size_t bytes, bool global);
void shadow_forget(struct region *, uintptr_t start, size_t bytes);
void shadow_free(struct region *);
/* An asynchronous copy to shared memory has been asked for, or has landed. */
void shadow_async(struct tracer *, unsigned thread, const void *to, unsigned bytes, uint32_t item, bool landed);
void shadow_free_all(struct trace *);

/* The fault of this kind at these places: with a count of 1 a new one, to be filled in; NULL where there are too
 * many. Takes the lock that trace_fault_done gives back. */
struct checked_fault *trace_fault(struct tracer *, enum fault_kind, struct place, struct place other, enum hazard);
void trace_fault_done(void);
/* A fault of the running thread, with the executor's words. */
void trace_fault_message(struct worker *, enum fault_kind, struct place, struct place other, const char *message,
                         bool thread);
/* What `address` is: fills variable, offset, extent, argument. */
void trace_name(struct tracer *, struct checked_fault *, uintptr_t address, enum space);
/* Where the running thread is: at `code`, where that is in the kernel's library, else at the last item of its log.
 */
struct place trace_here(const struct tracer *, const void *code);

#endif
