/* One block: its threads as fibers, their barriers and warp collectives.
 *
 * A thread runs until it waits or ends; then the next ready one, in the order of the indices, goes on. When none
 * is ready and not all have exited, nobody can ever release anybody: that is a fault, and the message counts
 * who waits where. Threads of a kernel without a barrier run one after another on one stack.
 */
#define _GNU_SOURCE
#include "block.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

/* A stack has a guard page below it and starts at one of 16 places in its topmost 4 KB: at distances of a power
 * of two, all stacks would meet in the same few sets of the cache. */
enum {
    STACK_REGION = 512 << 20, /* what a worker's stacks fit into, and start at a multiple of */
    STACK_BYTES = 256 * 1024,
    STACK_COLOURS = 16,
    COLOUR_BYTES = 256,
    TICKS_PER_TURN = 32,        /* atomics in a row before another thread gets its turn */
    SHARED_MAPPED = 256 * 1024, /* MAX_SHARED_BYTES, up to whole pages of any size */
    MAX_GUARDS = 16384,
};

SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

/* The built-in variables of the running thread; the dialect declares them as threadIdx, … */
SMEMKIT_THREAD_LOCAL struct index3 smemkit_thread_index;
SMEMKIT_THREAD_LOCAL struct index3 smemkit_block_index;
SMEMKIT_THREAD_LOCAL struct index3 smemkit_block_dim;
SMEMKIT_THREAD_LOCAL struct index3 smemkit_grid_dim;

/* ---- a worker's memory ---- */

/* Guard pages of all workers in the process. */
static atomic_int guards;

static size_t stack_stride(const struct worker *w)
{
    return STACK_BYTES + w->page;
}

/* The worker whose fiber this is: its address lies at the start of the region of the stacks. That is quicker than
 * asking for a thread-local variable, which in a shared library is a call. */
static inline struct worker *own_worker(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    return *(struct worker **)(here & ~((uintptr_t)STACK_REGION - 1));
}

/* STACK_REGION bytes of address space at a multiple of STACK_REGION */
static char *map_region(void)
{
    size_t twice = 2 * (size_t)STACK_REGION;
    char *mapped = mmap(NULL, twice, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t skip;

    if (mapped == MAP_FAILED)
        return NULL;
    skip = -(uintptr_t)mapped & ((size_t)STACK_REGION - 1);
    if (skip)
        munmap(mapped, skip);
    munmap(mapped + skip + STACK_REGION, twice - skip - STACK_REGION);
    return mapped + skip;
}

bool worker_prepare(struct worker *w)
{
    bool ok;

    w->page = (size_t)sysconf(_SC_PAGESIZE);
    w->stacks = map_region();
    w->shared = mmap(NULL, SHARED_MAPPED + w->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    w->signal_stack = malloc(SIGNAL_STACK_BYTES);
    ok = w->stacks && w->shared != MAP_FAILED && w->signal_stack &&
         mprotect(w->shared + SHARED_MAPPED, w->page, PROT_NONE) == 0;
    if (ok)
        *(struct worker **)w->stacks = w;
    else
        worker_dispose(w);
    return ok;
}

void worker_dispose(struct worker *w)
{
    if (w->stacks) {
        fiber_forget_stacks(w->stacks, (w->guarded + 2) * stack_stride(w));
        munmap(w->stacks, STACK_REGION);
    }
    if (w->shared && w->shared != MAP_FAILED)
        munmap(w->shared, SHARED_MAPPED + w->page);
    atomic_fetch_sub(&guards, (int)w->guarded);
    free(w->signal_stack);
    w->stacks = w->shared = NULL;
    w->signal_stack = NULL;
}

/* ---- messages ---- */

static bool same_line(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

static bool same_site(const struct waiting *a, const struct waiting *b)
{
    return a->reason == b->reason && same_line(a->file, a->line, b->file, b->line);
}

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, MESSAGE_BYTES - used, format, arguments);
    va_end(arguments);
}

static bool bit(const uint64_t *set, unsigned i)
{
    return set[i >> 6] >> (i & 63) & 1;
}

static void append_place(const struct worker *w, char *text, bool thread)
{
    append(text, " in kernel %s, block (%u, %u, %u)", w->launch->kernel, w->block.x, w->block.y, w->block.z);
    if (thread) {
        const struct index3 *t = &w->indices[w->current];

        append(text, ", thread (%u, %u, %u)", t->x, t->y, t->z);
    }
}

/* Where a thread that is not ready waits. */
static struct waiting site_of(const struct worker *w, unsigned thread)
{
    struct waiting site = w->waiting[thread];

    if (site.reason == WAIT_AT_BARRIER) {
        site.file = w->barrier_file;
        site.line = w->barrier_line;
    }
    return site;
}

static bool waits(const struct worker *w, unsigned thread)
{
    return !bit(w->ready, thread) && !(w->warp_exited[thread >> 5] >> (thread & 31) & 1);
}

/* "128 of 256 threads wait at line 49, the rest have exited": who waits where, by site. */
static void append_waiters(const struct worker *w, char *text)
{
    unsigned counted = 0;
    const char *separator = ": ";

    for (unsigned i = 0; i < w->count; i++) {
        const struct waiting site = site_of(w, i);
        unsigned here = 0, earlier = 0;

        for (unsigned j = 0; waits(w, i) && j < w->count; j++) {
            const struct waiting other = site_of(w, j);

            if (waits(w, j) && same_site(&site, &other)) {
                earlier += j < i;
                here++;
            }
        }
        if (!here || earlier)
            continue;
        append(text, "%s%u of %u threads wait at %s:%d", separator, here, w->count, site.file, site.line);
        if (site.reason == WAIT_WARP)
            append(text, " for lanes of mask 0x%08x", (unsigned)site.mask);
        separator = ", ";
        counted += here;
    }
    if (w->exited && w->exited + counted == w->count)
        append(text, "%sthe rest have exited", separator);
    else if (w->exited)
        append(text, "%s%u have exited", separator, w->exited);
}

void worker_leave(struct worker *w)
{
    struct fiber nowhere = {0};

    atomic_store_explicit(&w->in_block, false, memory_order_relaxed);
    fiber_switch(&nowhere, &w->home);
    abort(); /* nobody comes back here */
}

static void fail(struct worker *w, int error, const char *what, bool thread) __attribute__((noreturn));
static void fail(struct worker *w, int error, const char *what, bool thread)
{
    w->fault.error = error;
    snprintf(w->fault.message, MESSAGE_BYTES, "%s", what);
    append_place(w, w->fault.message, thread);
    append_waiters(w, w->fault.message);
    worker_leave(w);
}

static void fail_waiting(struct worker *w) __attribute__((noreturn));
static void fail_waiting(struct worker *w)
{
    bool barrier = false;

    for (unsigned i = 0; i < w->count; i++)
        barrier |= waits(w, i) && w->waiting[i].reason <= WAIT_AT_ANOTHER;
    fail(w, ERROR_LAUNCH_FAILURE, barrier ? "barrier divergence" : "warp divergence", false);
}

/* ---- scheduling ---- */

static int next_ready(const struct worker *w)
{
    unsigned words = (w->count + 63) / 64, from = w->current + 1, word = from >> 6;

    if (from < w->count) {
        uint64_t bits = w->ready[word] & ~UINT64_C(0) << (from & 63);

        while (!bits && ++word < words)
            bits = w->ready[word];
        if (bits)
            return (int)(word * 64 + (unsigned)__builtin_ctzll(bits));
    }
    for (word = 0; word < words; word++)
        if (w->ready[word])
            return (int)(word * 64 + (unsigned)__builtin_ctzll(w->ready[word]));
    return -1;
}

static void set_ready(struct worker *w, unsigned thread)
{
    w->ready[thread >> 6] |= UINT64_C(1) << (thread & 63);
}

static void clear_ready(struct worker *w, unsigned thread)
{
    w->ready[thread >> 6] &= ~(UINT64_C(1) << (thread & 63));
}

/* All threads of the block can run: at its start, and when a barrier is complete. */
static void set_all_ready(struct worker *w)
{
    unsigned whole = w->count >> 6, rest = w->count & 63;

    for (unsigned i = 0; i < whole; i++)
        w->ready[i] = ~UINT64_C(0);
    if (rest)
        w->ready[whole] = (UINT64_C(1) << rest) - 1;
}

static void become(struct worker *w, unsigned thread)
{
    w->current = thread;
    *w->thread_index = w->indices[thread];
}

static void run_threads(void *worker);

/* The page below a stack, when it is used for the first time. Each costs the process two mappings, of which Linux
 * allows 65530: on a machine with many cores the last stacks do without. */
static void guard(struct worker *w, unsigned number)
{
    for (; w->guarded <= number; w->guarded++)
        if (atomic_fetch_add(&guards, 1) < MAX_GUARDS)
            mprotect(w->stacks + (w->guarded + 1) * stack_stride(w), w->page, PROT_NONE);
}

static void start_on_own_stack(struct worker *w, unsigned thread)
{
    unsigned number = w->free_stacks[--w->free_count];
    char *bottom = w->stacks + (number + 1) * stack_stride(w) + w->page; /* the first place holds the worker */
    char *top = bottom + STACK_BYTES - number % STACK_COLOURS * COLOUR_BYTES;

    if (number >= w->guarded)
        guard(w, number);
    w->stack_of[thread] = (uint16_t)number;
    w->started[thread >> 6] |= UINT64_C(1) << (thread & 63);
    fiber_prepare(&w->fibers[thread], bottom, top, run_threads, w);
}

/* Releases the lanes that stand in __activemask once no lane of their warp can run. */
static void converge(struct worker *w, unsigned warp)
{
    uint32_t able = (uint32_t)(w->ready[warp >> 1] >> (warp & 1) * 32), group = 0;
    const struct waiting *first = NULL;

    if (able || !w->warp_converging[warp])
        return;
    for (unsigned lane = 0; lane < 32; lane++) {
        const struct waiting *at = &w->waiting[warp * 32 + lane];

        if (w->warp_converging[warp] >> lane & 1 && (!first || at->line < first->line))
            first = at;
    }
    for (unsigned lane = 0; lane < 32; lane++)
        if (w->warp_converging[warp] >> lane & 1 && same_site(first, &w->waiting[warp * 32 + lane]))
            group |= UINT32_C(1) << lane;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (group >> lane & 1) {
            w->waiting[warp * 32 + lane].value = group;
            set_ready(w, warp * 32 + lane);
        }
    }
    w->warp_converging[warp] &= ~group;
}

/* Whom to run next; does not return where nobody can and somebody should. */
static int choose(struct worker *w)
{
    int next;

    if (w->warp_converging[w->current >> 5])
        converge(w, w->current >> 5);
    next = next_ready(w);
    if (next < 0 && w->exited < w->count)
        fail_waiting(w);
    return next;
}

/* The running thread gives way; returns when it is its turn again. Most often its neighbour is next. */
static inline void give_way(struct worker *w)
{
    unsigned me = w->current, next = me + 1;

    if (next >= w->count || !bit(w->ready, next) || w->warp_converging[me >> 5])
        next = (unsigned)choose(w);
    if (next == me)
        return;
    if (!bit(w->started, next))
        start_on_own_stack(w, next);
    become(w, next);
    fiber_fetch(&w->fibers[next + 1]);
    fiber_switch(&w->fibers[me], &w->fibers[next]);
}

static bool complete_collective(struct worker *w, unsigned warp, uint32_t mask);

/* The running thread has ended. Returns where another begins on the same stack. */
static void end_thread(struct worker *w)
{
    unsigned me = w->current, warp = me >> 5;
    struct fiber nowhere = {0};
    int next;

    w->exited++;
    w->warp_exited[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    for (uint32_t lanes = w->warp_waiting[warp]; lanes; lanes &= lanes - 1) /* those who waited for nobody else */
        complete_collective(w, warp, w->waiting[warp * 32 + (unsigned)__builtin_ctz(lanes)].mask);

    next = choose(w);
    if (next >= 0 && !bit(w->started, (unsigned)next)) {
        w->stack_of[next] = w->stack_of[me];
        w->started[next >> 6] |= UINT64_C(1) << (next & 63);
        become(w, (unsigned)next);
#ifdef SMEMKIT_ASAN
        w->fibers[next].stack_bottom = w->fibers[me].stack_bottom;
        w->fibers[next].stack_bytes = w->fibers[me].stack_bytes;
#endif
        return;
    }
    w->free_stacks[w->free_count++] = w->stack_of[me];
    if (next < 0)
        worker_leave(w); /* the block is done */
    become(w, (unsigned)next);
    fiber_switch(&nowhere, &w->fibers[next]);
}

static void run_threads(void *worker)
{
    struct worker *w = worker;

    atomic_store_explicit(&w->in_block, true, memory_order_relaxed); /* `home` is saved: a signal can go there */
    for (;;) {
        w->launch->run(w->launch->closure);
        end_thread(w);
    }
}

static void number_threads(struct worker *w, const unsigned dim[3])
{
    unsigned t = 0;

    if (memcmp(w->indices_of, dim, sizeof w->indices_of) == 0)
        return;
    for (unsigned z = 0; z < dim[2]; z++)
        for (unsigned y = 0; y < dim[1]; y++)
            for (unsigned x = 0; x < dim[0]; x++)
                w->indices[t++] = (struct index3){x, y, z};
    memcpy(w->indices_of, dim, sizeof w->indices_of);
}

static void reset(struct worker *w)
{
    memset(w->started, 0, sizeof w->started);
    memset(w->ready, 0, sizeof w->ready);
    set_all_ready(w);
    memset(w->warp_waiting, 0, sizeof w->warp_waiting);
    memset(w->warp_converging, 0, sizeof w->warp_converging);
    memset(w->warp_exited, 0, sizeof w->warp_exited);
    w->exited = w->arrived = 0;
    w->passed = 0;
    w->strays = 0;
    w->ticks = 0;
    w->fault.error = ERROR_NONE;
    w->fault_signal = 0;
    if (w->free_count != MAX_THREADS) { /* at first, and after a block that was abandoned */
        for (int i = 0; i < MAX_THREADS; i++) {
            w->free_stacks[i] = (uint16_t)(MAX_THREADS - 1 - i);
            w->waiting[i].reason = WAIT_AT_BARRIER;
        }
        w->free_count = MAX_THREADS;
    }
}

/* What the signal handler noted, in words. */
static void explain_signal(struct worker *w)
{
    char where[160];

    w->fault.error = ERROR_LAUNCH_FAILURE;
    w->fault.message[0] = '\0';
    if (w->fault_signal == SIGFPE) {
        append(w->fault.message, "integer division by zero");
    } else if (w->fault_signal == SIGILL || w->fault_signal == SIGTRAP) {
        append(w->fault.message, "illegal instruction");
    } else {
        const char *at = w->fault_address, *stack = w->stacks;

        w->fault.error = ERROR_ILLEGAL_ADDRESS;
        memory_describe(at, where, sizeof where);
        if (!w->fault_address_known)
            append(w->fault.message, "misaligned or non-canonical address");
        else if (at >= stack && at < stack + STACK_REGION)
            append(w->fault.message, "stack overflow: a thread has %d KB for its locals and calls",
                   STACK_BYTES / 1024);
        else if (at >= w->shared && at < w->shared + SHARED_MAPPED + w->page)
            append(w->fault.message, "access past the end of the dynamic shared memory (%zu bytes)",
                   w->launch->shared_bytes);
        else
            append(w->fault.message, "illegal %s: %s", w->fault_is_store ? "write" : "access", where);
    }
    append_place(w, w->fault.message, true);
}

static void explain_abort(struct worker *w)
{
    if (*w->abort == ABORT_HANG) {
        w->fault.error = ERROR_LAUNCH_TIMEOUT;
        snprintf(w->fault.message, MESSAGE_BYTES, "endless wait");
        append_place(w, w->fault.message, true);
        append(w->fault.message, ": it was ended by the watchdog (SMEMKIT_WATCHDOG) while this thread ran");
        append_waiters(w, w->fault.message);
    } else {
        w->fault.error = ERROR_UNKNOWN;
        snprintf(w->fault.message, MESSAGE_BYTES, "interrupted");
    }
}

static char *shared_start(const struct worker *w)
{
    return w->shared + SHARED_MAPPED - (w->launch->shared_bytes + 127) / 128 * 128;
}

bool worker_run_block(struct worker *w, const struct smemkit_launch *launch, struct index3 block)
{
    w->launch = launch;
    w->block = block;
    w->count = launch->block[0] * launch->block[1] * launch->block[2];
    number_threads(w, launch->block);
    w->thread_index = &smemkit_thread_index;
    smemkit_block_index = block;
    smemkit_block_dim = (struct index3){launch->block[0], launch->block[1], launch->block[2]};
    smemkit_grid_dim = (struct index3){launch->grid[0], launch->grid[1], launch->grid[2]};
    reset(w);
    become(w, 0);
    start_on_own_stack(w, 0);
    fiber_switch(&w->home, &w->fibers[0]);

    if (w->exited == w->count && !w->fault.error)
        return true;
    w->free_count = 0;
    if (!w->fault.error) {
        if (w->fault_signal)
            explain_signal(w);
        else
            explain_abort(w);
    }
    return false;
}

/* ---- what kernels call ---- */

/* A thread stands at another line than those before it: nobody will be released. */
static __attribute__((noinline)) void stray(struct worker *w, const char *file, int line)
{
    w->waiting[w->current] = (struct waiting){.file = file, .line = line, .reason = WAIT_AT_ANOTHER};
    w->strays++;
}

int smemkit_barrier(int predicate, const char *file, int line)
{
    struct worker *w = own_worker();

    if (w->arrived == 0) {
        w->barrier_file = file;
        w->barrier_line = line;
    } else if (!same_line(file, line, w->barrier_file, w->barrier_line)) {
        stray(w, file, line);
    }
    w->passed += predicate != 0;
    clear_ready(w, w->current);
    if (++w->arrived == w->count && !w->strays) {
        set_all_ready(w);
        w->arrived = 0;
        w->barrier_result = w->passed;
        w->passed = 0;
    }
    give_way(w);
    return w->barrier_result;
}

static uint32_t present_lanes(const struct worker *w, unsigned warp)
{
    unsigned lanes = w->count - warp * 32;

    return (lanes >= 32 ? ~UINT32_C(0) : (UINT32_C(1) << lanes) - 1) & ~w->warp_exited[warp];
}

static uint64_t combine(enum smemkit_collective kind, uint64_t a, uint64_t b)
{
    switch (kind) {
    case SMEMKIT_ADD:
        return (uint32_t)(a + b);
    case SMEMKIT_MIN:
        return (int32_t)a < (int32_t)b ? a : b;
    case SMEMKIT_MAX:
        return (int32_t)a > (int32_t)b ? a : b;
    case SMEMKIT_UMIN:
        return a < b ? a : b;
    case SMEMKIT_UMAX:
        return a > b ? a : b;
    case SMEMKIT_AND:
        return a & b;
    case SMEMKIT_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* What each lane of `lanes` gets for what all of them brought. */
static void exchange(struct waiting *warp, uint32_t lanes, enum smemkit_collective kind)
{
    uint64_t brought[32], all = 0;
    bool first = true;

    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);

        brought[lane] = warp[lane].value;
        if (kind == SMEMKIT_BALLOT)
            all |= (uint64_t)(brought[lane] != 0) << lane;
        else
            all = first ? brought[lane] : combine(kind, all, brought[lane]);
        first = false;
    }
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest), source = warp[lane].source;

        if (kind == SMEMKIT_SHUFFLE) { /* from a lane that takes no part, CUDA promises nothing: its own value */
            if (lanes >> source & 1)
                warp[lane].value = brought[source];
        } else if (kind == SMEMKIT_MATCH) {
            warp[lane].value = 0;
            for (uint32_t others = lanes; others; others &= others - 1) {
                int other = __builtin_ctz(others);

                warp[lane].value |= (uint64_t)(brought[other] == brought[lane]) << other;
            }
        } else if (kind != SMEMKIT_SYNC) {
            warp[lane].value = all;
        }
    }
}

/* Lets the lanes of `mask` go if all that have not exited have come, for the same thing. */
static bool complete_collective(struct worker *w, unsigned warp, uint32_t mask)
{
    uint32_t present = present_lanes(w, warp), lanes = mask & present;
    struct waiting *all = &w->waiting[warp * 32], *first;

    if (!lanes || (w->warp_waiting[warp] & lanes) != lanes)
        return false;
    first = &all[__builtin_ctz(lanes)];
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        const struct waiting *lane = &all[__builtin_ctz(rest)];

        if ((lane->mask & present) != lanes || lane->collective != first->collective)
            return false;
        if (first->collective != SMEMKIT_SYNC && !same_site(lane, first))
            return false;
    }
    exchange(all, lanes, first->collective);
    w->warp_waiting[warp] &= ~lanes;
    w->ready[warp >> 1] |= (uint64_t)lanes << (warp & 1) * 32;
    return true;
}

uint64_t smemkit_warp(enum smemkit_collective kind, uint32_t mask, uint64_t value, int source, const char *file,
                      int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current, warp = me >> 5;
    struct waiting *mine = &w->waiting[me];

    *mine = (struct waiting){file, line, WAIT_WARP, kind, mask, source, value};
    if (!(mask >> (me & 31) & 1)) {
        char what[160];

        snprintf(what, sizeof what, "warp divergence at %s:%d: mask 0x%08x does not name the calling lane %u",
                 file, line, (unsigned)mask, me & 31);
        fail(w, ERROR_LAUNCH_FAILURE, what, true);
    }
    w->warp_waiting[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    if (!complete_collective(w, warp, mask))
        give_way(w);
    mine->reason = WAIT_AT_BARRIER;
    return mine->value;
}

uint32_t smemkit_active_mask(const char *file, int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current;

    w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_CONVERGENCE};
    w->warp_converging[me >> 5] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    give_way(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
    return (uint32_t)w->waiting[me].value;
}

void smemkit_tick(void)
{
    struct worker *w = smemkit_worker;

    if (!w || ++w->ticks % TICKS_PER_TURN)
        return;
    if (*w->abort)
        worker_leave(w);
    give_way(w);
}

void smemkit_trap(const char *what, const char *file, int line)
{
    struct worker *w = smemkit_worker;
    char text[256];

    if (!w)
        abort();
    snprintf(text, sizeof text, "%s at %s:%d", what, file, line);
    fail(w, ERROR_LAUNCH_FAILURE, text, true);
}

void *smemkit_dynamic_shared(void)
{
    return shared_start(own_worker());
}
