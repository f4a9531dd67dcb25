/* One block: its threads as fibers, their barriers and warp collectives.
 *
 * A thread runs until it waits or exits; then the next ready one runs, in the order of the thread indices. If none
 * is ready and some have not exited, no thread can ever be released. That is a fault, and its message counts which
 * threads wait where. The threads of a kernel without barriers run one after another on the same stack.
 */
#define _GNU_SOURCE
#include "block.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

/* A stack has a guard page below it. It starts at one of 16 offsets in its topmost 4 KB, because stacks at
 * power-of-two distances would all map to the same few cache sets. */
enum {
    STACK_BYTES = 256 * 1024,
    STACK_COLOURS = 16,
    COLOUR_BYTES = 256,
    TICKS_PER_TURN = 32, /* ticks of a block between two switches to the next thread */
    COLLECTIVES_PER_TURN =
        509, /* collectives of a warp per turn; prime, so that each collective of a loop ends a turn at times */
    MAX_GUARDS = 16384,
};

/* For functions with arrays that a collective calls. Inlined, their arrays, with stale contents, would be part of
 * a waiting thread's stack, and no thread would ever seem to repeat itself. */
#define NOINLINE __attribute__((noinline))

SMEMKIT_THREAD_LOCAL struct worker *smemkit_worker;

SMEMKIT_INDEX smemkit_thread_index;
SMEMKIT_INDEX smemkit_block_index;
SMEMKIT_INDEX smemkit_block_dim;
SMEMKIT_INDEX smemkit_grid_dim;

/* ---- a worker's memory ---- */

/* Number of guard pages of all workers. */
static atomic_int guards;

static size_t stack_stride(const struct worker *w)
{
    return STACK_BYTES + w->page;
}

/* The worker of the running fiber, read from the start of its stack region. A thread-local variable would cost a
 * call in a shared library. */
static inline struct worker *own_worker(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    return ((const struct stack_region *)(here & ~(STACK_REGION - 1)))->worker;
}

/* Address space for stacks, one region per worker; reserved once per process and kept. */
char *smemkit_stacks;
static atomic_bool region_taken[MAX_WORKERS];

static void reserve_stacks(void)
{
    const size_t bytes = STACKS_BYTES + STACK_REGION;
    char *mapped = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped != MAP_FAILED)
        smemkit_stacks = mapped + (-(uintptr_t)mapped & (STACK_REGION - 1));
}

static char *map_region(void)
{
    static pthread_once_t reserved = PTHREAD_ONCE_INIT;

    pthread_once(&reserved, reserve_stacks);
    for (int i = 0; smemkit_stacks && i < MAX_WORKERS; i++) {
        char *region = smemkit_stacks + (uintptr_t)i * STACK_REGION;

        if (atomic_exchange(&region_taken[i], true))
            continue;
        if (mmap(region, STACK_REGION, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
            return region;
        region_taken[i] = false;
        break;
    }
    return NULL;
}

static void unmap_region(char *region)
{
    mmap(region, STACK_REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    region_taken[(region - smemkit_stacks) / (ptrdiff_t)STACK_REGION] = false;
}

bool worker_prepare(struct worker *w)
{
    bool ok;

    w->page = (size_t)sysconf(_SC_PAGESIZE);
    w->stacks = map_region();
    w->signal_stack = malloc(SIGNAL_STACK_BYTES);
    ok = shared_prepare(w) && w->stacks && w->signal_stack;
    if (ok)
        *(struct stack_region *)w->stacks = (struct stack_region){.worker = w};
    else
        worker_dispose(w);
    return ok;
}

void worker_dispose(struct worker *w)
{
    if (w->stacks) {
        fiber_forget_stacks(w->stacks, (w->guarded + 2) * stack_stride(w));
        unmap_region(w->stacks);
    }
    shared_dispose(w);
    atomic_fetch_sub(&guards, (int)w->guarded);
    free(w->signal_stack);
    async_dispose(w);
    w->stacks = NULL;
    w->signal_stack = NULL;
}

/* ---- messages ---- */

static bool same_line(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

static bool same_site(const struct waiting *a, const struct waiting *b)
{
    return a->reason == b->reason && same_line(a->file, a->line, b->file, b->line) &&
           (a->reason != WAIT_NAMED || a->source == b->source);
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

static void append_location(const struct worker *w, char *text, bool thread)
{
    append(text, " in kernel %s, block (%u, %u, %u)", w->launch->kernel, w->block.x, w->block.y, w->block.z);
    if (thread) {
        const struct index3 *t = &w->indices[w->current];

        append(text, ", thread (%u, %u, %u)", t->x, t->y, t->z);
    }
}

/* What a waiting thread waits for. */
static struct waiting wait_site(const struct worker *w, unsigned thread)
{
    struct waiting site = w->waiting[thread];

    if (site.reason == WAIT_AT_BARRIER) {
        site.file = w->barrier_file;
        site.line = w->barrier_line;
    }
    return site;
}

static bool is_waiting(const struct worker *w, unsigned thread)
{
    const uint32_t elsewhere = w->warp_exited[thread >> 5] | w->suspended[thread >> 5];

    return !bit(w->ready, thread) && !(elsewhere >> (thread & 31) & 1);
}

/* Appends "128 of 256 threads wait at k.cu:49, the rest have exited": threads grouped by what they wait for. */
static void append_waiters(const struct worker *w, char *text)
{
    unsigned counted = 0;
    const char *separator = ": ";

    for (unsigned i = 0; i < w->count; i++) {
        const struct waiting site = wait_site(w, i);
        unsigned here = 0, earlier = 0;

        for (unsigned j = 0; is_waiting(w, i) && j < w->count; j++) {
            const struct waiting other = wait_site(w, j);

            if (is_waiting(w, j) && same_site(&site, &other)) {
                earlier += j < i;
                here++;
            }
        }
        if (!here || earlier)
            continue;
        append(text, "%s%u of %u threads wait at %s:%d", separator, here, w->count, site.file, site.line);
        if (site.reason == WAIT_WARP)
            append(text, " for lanes of mask 0x%08x", (unsigned)site.mask);
        if (site.reason == WAIT_NAMED)
            append(text, " for barrier %d, to which %u of %u have come", site.source,
                   w->named[site.source].arrived, w->named[site.source].expected);
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
    fiber_switch(&nowhere, &w->worker_fiber);
    abort(); /* never resumed */
}

static void note_fault(struct worker *w, int error, const char *what, bool thread)
{
    w->fault.error = error;
    snprintf(w->fault.message, MESSAGE_BYTES, "%s", what);
    append_location(w, w->fault.message, thread);
}

static void explain(struct worker *w, int error, const char *what, bool thread)
{
    note_fault(w, error, what, thread);
    append_waiters(w, w->fault.message);
}

void worker_fail(struct worker *w, enum fault_kind kind, const char *what, const char *file, int line)
{
    note_fault(w, ERROR_LAUNCH_FAILURE, what, true);
    if (kind != KIND_SHUFFLE) /* waiting threads do not explain it */
        append_waiters(w, w->fault.message);
    if (w->tracer)
        smemkit_observer->fault(w, kind, w->fault.message, true, file, line, NULL, 0);
    worker_leave(w);
}

/* No thread can run. In a checked block without some threads, which a fault has terminated, the others may be
 * waiting for those. */
static void fail_waiting(struct worker *w) __attribute__((noreturn));
static void fail_waiting(struct worker *w)
{
    struct waiting first = {0}, other = {0};
    bool barrier = false;

    for (unsigned i = 0; i < w->count; i++) {
        const struct waiting site = wait_site(w, i);

        if (!is_waiting(w, i))
            continue;
        barrier |= site.reason <= WAIT_NAMED;
        if (!first.file)
            first = site;
        else if (!other.file && !same_line(site.file, site.line, first.file, first.line))
            other = site;
    }
    explain(w, ERROR_LAUNCH_FAILURE, barrier ? "barrier divergence" : "warp divergence", false);
    if (w->tracer && !w->terminated)
        smemkit_observer->fault(w, KIND_BARRIER, w->fault.message, false, first.file, first.line, other.file,
                                other.line);
    worker_leave(w);
}

/* ---- scheduling ---- */

static int next_ready(struct worker *w)
{
    unsigned words = (w->count + 63) / 64, from = w->current + 1, word;

    if (w->tracer)
        from = smemkit_observer->next_thread(w, false);
    word = from >> 6;

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

/* Call it when something has happened that other threads may wait for. */
static void note_change(struct worker *w)
{
    _Atomic uint64_t *changes = &w->repetition.changes; /* written by this worker alone */

    atomic_store_explicit(changes, atomic_load_explicit(changes, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void set_ready(struct worker *w, unsigned thread)
{
    note_change(w);
    w->ready[thread >> 6] |= UINT64_C(1) << (thread & 63);
}

static void clear_ready(struct worker *w, unsigned thread)
{
    w->ready[thread >> 6] &= ~(UINT64_C(1) << (thread & 63));
}

/* All threads of the block become ready: at its start, and when a barrier completes. */
static void set_all_ready(struct worker *w)
{
    unsigned whole = w->count >> 6, rest = w->count & 63;

    note_change(w);
    for (unsigned i = 0; i < whole; i++)
        w->ready[i] = ~UINT64_C(0);
    if (rest)
        w->ready[whole] = (UINT64_C(1) << rest) - 1;
}

static void switch_current(struct worker *w, unsigned thread)
{
    if (w->tracer)
        smemkit_observer->switch_thread(w, w->current, thread);
    w->current = thread;
    *w->thread_index = w->indices[thread];
}

static void run_threads(void *worker);

/* Adds the guard pages of stacks up to `number`, at their first use. Each costs the process two mappings, of which
 * Linux allows 65530: on a machine with many cores the last stacks have none. */
static void guard(struct worker *w, unsigned number)
{
    for (; w->guarded <= number; w->guarded++)
        if (atomic_fetch_add(&guards, 1) < MAX_GUARDS)
            mprotect(w->stacks + (w->guarded + 1) * stack_stride(w), w->page, PROT_NONE);
}

static char *stack_bottom(const struct worker *w, unsigned number)
{
    return w->stacks + (number + 1) * stack_stride(w) + w->page; /* the first slot holds the stack_region */
}

static char *stack_top(const struct worker *w, unsigned number)
{
    return stack_bottom(w, number) + STACK_BYTES - number % STACK_COLOURS * COLOUR_BYTES;
}

static void start_on_own_stack(struct worker *w, unsigned thread)
{
    unsigned number = w->free_stacks[--w->free_count];
    char *bottom = stack_bottom(w, number), *top = stack_top(w, number);

    if (number >= w->guarded)
        guard(w, number);
    w->stack_of[thread] = (uint16_t)number;
    w->started[thread >> 6] |= UINT64_C(1) << (thread & 63);
    fiber_prepare(&w->fibers[thread], bottom, top, run_threads, w);
}

/* Releases lanes that wait in __activemask once no lane of their warp can run: those at the lowest line. */
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

/* Resumes suspended lanes of a warp once none of its lanes can run. */
static void resume_lanes(struct worker *w, unsigned warp)
{
    const uint32_t able = (uint32_t)(w->ready[warp >> 1] >> (warp & 1) * 32), lanes = w->suspended[warp];
    uint32_t resumed;

    if (able || !lanes)
        return;
    resumed = smemkit_observer->resume(w, warp, lanes);
    w->suspended[warp] &= ~resumed;
    w->ready[warp >> 1] |= (uint64_t)resumed << (warp & 1) * 32;
}

/* Returns the thread to run next, or -1 if all have exited. If none can run, ends the block. */
static int choose_next(struct worker *w)
{
    int next;

    if (w->warp_converging[w->current >> 5])
        converge(w, w->current >> 5);
    if (w->tracer)
        resume_lanes(w, w->current >> 5);
    next = next_ready(w);
    if (next < 0 && w->exited < w->count)
        fail_waiting(w);
    return next;
}

/* Switches to the next ready thread, most often the neighbour. Returns when the calling thread runs again. */
static inline void yield_to_next(struct worker *w)
{
    unsigned me = w->current, next = me + 1;

    if (next >= w->count || !bit(w->ready, next) || w->warp_converging[me >> 5] || w->tracer)
        next = (unsigned)choose_next(w);
    if (next == me)
        return;
    if (!bit(w->started, next))
        start_on_own_stack(w, next);
    switch_current(w, next);
    fiber_fetch(&w->fibers[next + 1]);
    fiber_switch(&w->fibers[me], &w->fibers[next]);
}

/* ---- waits that cannot end ---- */

/* Hash of the running thread's registers, which setjmp stores on the stack, and of its stack. */
static __attribute__((noinline)) uint64_t thread_state(const struct worker *w)
{
    jmp_buf registers;
    const char *top = stack_top(w, w->stack_of[w->current]);

    memset(&registers, 0, sizeof registers);
    (void)setjmp(registers);
    return memory_hash(&registers, (size_t)(top - (const char *)&registers));
}

/* Hash of a warp whose lanes exchange values: of all its threads, where they wait, and what for. */
static uint64_t warp_state(const struct worker *w)
{
    const unsigned warp = w->current >> 5, first = warp * 32;
    const uint32_t started = (uint32_t)(w->started[warp >> 1] >> (warp & 1) * 32);
    uint64_t state = thread_state(w) + memory_hash(&w->waiting[first], 32 * sizeof *w->waiting);

    for (uint32_t lanes = started & ~w->warp_exited[warp]; lanes; lanes &= lanes - 1) {
        const unsigned thread = first + (unsigned)__builtin_ctz(lanes);
        const char *from = w->fibers[thread].sp;

        if (thread != w->current)
            state = state * 31 + memory_hash(&w->fibers[thread], sizeof w->fibers[thread]) +
                    memory_hash(from, (size_t)(stack_top(w, w->stack_of[thread]) - from));
    }
    return state * 31 + ((uint64_t)w->warp_waiting[warp] << 32 | w->warp_converging[warp]);
}

static void begin_round(struct repetition *r, unsigned count)
{
    r->searched = r->changes;
    memset(r->repeated, 0, sizeof r->repeated);
    memset(r->turns, 0, count * sizeof *r->turns);
}

/* Every runnable thread has repeated itself. The round counts unless shared memory has changed: plain stores are
 * not counted as changes. */
static void end_round(struct worker *w)
{
    struct repetition *r = &w->repetition;
    const uint64_t shared = shared_hash(w);

    if (shared != r->shared)
        note_change(w);
    else
        atomic_fetch_add(&r->rounds, 1);
    r->shared = shared;
    begin_round(r, w->count);
}

/* Call it before the running thread yields where it may be waiting for others; or, with `lanes`, when these lanes
 * of its warp complete a collective. In that case each lane has run since its previous turn. */
static void note_turn(struct worker *w, uint32_t lanes)
{
    struct repetition *r = &w->repetition;
    const unsigned me = lanes ? (w->current & ~31u) + (unsigned)__builtin_ctz(lanes) : w->current;
    const unsigned shift = me & 32;
    uint64_t state;

    if (r->changes != r->searched) {
        begin_round(r, w->count);
        return;
    }
    state = r->collectives[me >> 5] ? warp_state(w) : thread_state(w);
    if (r->turns[me] && state == r->states[me])
        r->repeated[me >> 6] |= lanes ? (uint64_t)lanes << shift : UINT64_C(1) << (me & 63);
    if ((r->turns[me] & (r->turns[me] + 1)) == 0)
        r->states[me] = state;
    r->turns[me]++;
    for (unsigned i = 0; i * 64 < w->count; i++) {
        const uint64_t suspended = w->suspended[2 * i] | (uint64_t)w->suspended[2 * i + 1] << 32;
        const uint64_t able = w->ready[i] | suspended; /* these will run, too */

        if (able & ~r->repeated[i])
            return;
    }
    end_round(w);
}

static bool complete_collective(struct worker *w, unsigned warp, uint32_t mask);

/* Removes the running thread from the block's schedule. */
static void note_exit(struct worker *w)
{
    const unsigned me = w->current, warp = me >> 5;

    note_change(w);
    w->exited++;
    w->warp_exited[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    for (uint32_t lanes = w->warp_waiting[warp]; lanes;
         lanes &= lanes - 1) /* those that waited only for this thread */
        complete_collective(w, warp, w->waiting[warp * 32 + (unsigned)__builtin_ctz(lanes)].mask);
}

/* Ends the running thread after its last statement. Returns if a new thread starts on the same stack. */
static void exit_thread(struct worker *w)
{
    unsigned me = w->current;
    struct fiber nowhere = {0};
    int next;

    if (w->copies_pending)
        async_finish(w, me);
    note_exit(w);
    next = choose_next(w);
    if (next >= 0 && !bit(w->started, (unsigned)next)) {
        w->stack_of[next] = w->stack_of[me];
        w->started[next >> 6] |= UINT64_C(1) << (next & 63);
        switch_current(w, (unsigned)next);
#ifdef SMEMKIT_ASAN
        w->fibers[next].stack_bottom = w->fibers[me].stack_bottom;
        w->fibers[next].stack_bytes = w->fibers[me].stack_bytes;
#endif
        return;
    }
    w->free_stacks[w->free_count++] = w->stack_of[me];
    if (next < 0)
        worker_leave(w); /* the block is done */
    switch_current(w, (unsigned)next);
    fiber_switch(&nowhere, &w->fibers[next]);
}

static void complete_barrier(struct worker *w);

void worker_terminate_thread(struct worker *w)
{
    const unsigned me = w->current;
    struct fiber nowhere = {0};
    int next;

    w->terminated++;
    note_exit(w);
    if (w->arrived && w->arrived + w->terminated == w->count && !w->divergent)
        complete_barrier(w);
    next = choose_next(w);
    if (next < 0)
        worker_leave(w);
    if (!bit(w->started, (unsigned)next))
        start_on_own_stack(w, (unsigned)next);
    w->free_stacks[w->free_count++] = w->stack_of[me]; /* it is not reused before this fiber is left */
    switch_current(w, (unsigned)next);
    fiber_switch(&nowhere, &w->fibers[next]);
    abort();
}

void worker_yield(struct worker *w)
{
    if (*w->abort)
        worker_leave(w);
    yield_to_next(w);
}

void worker_suspend(struct worker *w)
{
    const unsigned me = w->current;

    if (*w->abort)
        worker_leave(w);
    note_turn(w, 0);
    w->suspended[me >> 5] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    yield_to_next(w);
}

static void run_threads(void *worker)
{
    struct worker *w = worker;

    atomic_store_explicit(&w->in_block, true,
                          memory_order_relaxed); /* worker_fiber is saved: a signal handler can switch to it */
    for (;;) {
        w->launch->run(w->launch->closure);
        exit_thread(w);
    }
}

static void number_threads(struct worker *w, const unsigned dim[3])
{
    unsigned t = 0;

    if (memcmp(w->indices_dim, dim, sizeof w->indices_dim) == 0)
        return;
    for (unsigned z = 0; z < dim[2]; z++)
        for (unsigned y = 0; y < dim[1]; y++)
            for (unsigned x = 0; x < dim[0]; x++)
                w->indices[t++] = (struct index3){x, y, z};
    memcpy(w->indices_dim, dim, sizeof w->indices_dim);
}

static void reset(struct worker *w)
{
    memset(w->started, 0, sizeof w->started);
    memset(w->ready, 0, sizeof w->ready);
    set_all_ready(w);
    memset(w->warp_waiting, 0, sizeof w->warp_waiting);
    memset(w->warp_converging, 0, sizeof w->warp_converging);
    memset(w->warp_exited, 0, sizeof w->warp_exited);
    memset(w->suspended, 0, sizeof w->suspended);
    w->current = 0;
    w->exited = w->terminated = w->arrived = 0;
    w->passed = 0;
    w->divergent = 0;
    if (w->named_used)
        memset(w->named, 0, sizeof w->named);
    w->named_used = false;
    if (w->copies_pending)
        async_forget(w);
    w->ticks = 0;
    memset(w->repetition.collectives, 0, sizeof w->repetition.collectives);
    w->fault.error = ERROR_NONE;
    w->fault_signal = 0;
    if (w->free_count != MAX_THREADS) { /* at first, and after an abandoned block */
        for (int i = 0; i < MAX_THREADS; i++) {
            w->free_stacks[i] = (uint16_t)(MAX_THREADS - 1 - i);
            w->waiting[i].reason = WAIT_AT_BARRIER;
        }
        w->free_count = MAX_THREADS;
    }
}

/* Describes the signal that the handler recorded. */
static void explain_signal(struct worker *w)
{
    char where[160];

    w->fault.error = ERROR_LAUNCH_FAILURE;
    w->fault.message[0] = '\0';
    if (w->fault_signal == SIGFPE) {
        append(w->fault.message, "integer division by zero");
    } else if (w->fault_signal == SIGILL || w->fault_signal == SIGTRAP) {
        append(w->fault.message, "illegal instruction, as at the end of a function without its return");
    } else {
        const char *at = w->fault_address, *stack = w->stacks;

        w->fault.error = ERROR_ILLEGAL_ADDRESS;
        if (!shared_describe(w, at, where, sizeof where))
            memory_describe(at, where, sizeof where);
        if (!w->fault_address_known)
            append(w->fault.message, "misaligned or non-canonical address");
        else if (at >= stack && at < stack + STACK_REGION)
            append(w->fault.message, "stack overflow: a thread has %d KB for its locals and calls",
                   STACK_BYTES / 1024);
        else
            append(w->fault.message, "illegal %s: %s", w->fault_is_store ? "write" : "access", where);
    }
    append_location(w, w->fault.message, true);
    if (w->tracer) /* a checked build reports wild addresses before the access */
        smemkit_observer->fault_at_code(w, KIND_TRAP, w->fault.message, w->fault_code);
}

static void explain_abort(struct worker *w)
{
    if (*w->abort == ABORT_HANG || *w->abort == ABORT_DEADLOCK) {
        w->fault.error = ERROR_LAUNCH_TIMEOUT;
        snprintf(w->fault.message, MESSAGE_BYTES, *w->abort == ABORT_HANG ? "no end in sight" : "endless wait");
        append_location(w, w->fault.message, true);
        if (*w->abort == ABORT_HANG)
            append(
                w->fault.message,
                ": the watchdog ended the block while this thread ran; if the kernel is right and only slow, give "
                "it more seconds by SMEMKIT_WATCHDOG, or 0 for no limit");
        else
            append(w->fault.message, ": all threads that can run only read the same values again");
        if (*w->abort == ABORT_DEADLOCK && w->unstarted)
            append(w->fault.message, "; %llu blocks have not begun, since this device runs %d at once",
                   (unsigned long long)w->unstarted, smemkit_workers());
        append_waiters(w, w->fault.message);
        if (w->tracer)
            smemkit_observer->fault_at_code(w, KIND_HANG, w->fault.message, NULL);
    } else {
        w->fault.error = ERROR_UNKNOWN;
        snprintf(w->fault.message, MESSAGE_BYTES, "interrupted");
    }
}

/* False, with a fault, if the block has overwritten slack of its shared memory. The fault has no line, because it
 * is found at the end. */
static bool shared_is_intact(struct worker *w)
{
    char where[160];

    if (w->tracer || shared_intact(w, where, sizeof where)) /* a check tests each access */
        return true;
    w->fault.error = ERROR_ILLEGAL_ADDRESS;
    snprintf(w->fault.message, MESSAGE_BYTES, "illegal write: %s", where);
    append_location(w, w->fault.message, false);
    return false;
}

bool worker_run_block(struct worker *w, const struct smemkit_launch *launch, struct index3 block)
{
    unsigned first = 0;

    w->launch = launch;
    w->block = block;
    w->count = launch->block[0] * launch->block[1] * launch->block[2];
    number_threads(w, launch->block);
    w->thread_index = &smemkit_thread_index;
    smemkit_block_index = block;
    smemkit_block_dim = (struct index3){launch->block[0], launch->block[1], launch->block[2]};
    smemkit_grid_dim = (struct index3){launch->grid[0], launch->grid[1], launch->grid[2]};
    reset(w);
    w->repetition.shared = 0;
    if (w->tracer)
        smemkit_observer->block_begin(w);
    if (w->tracer)
        first = smemkit_observer->next_thread(w, true);
    switch_current(w, first);
    start_on_own_stack(w, first);
    fiber_switch(&w->worker_fiber, &w->fibers[first]);

    if (w->tracer)
        smemkit_observer->block_end(w);
    if (w->exited == w->count && !w->fault.error && shared_is_intact(w))
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

/* A thread has arrived at a different barrier than the first one: no thread will be released. */
static __attribute__((noinline)) void note_divergence(struct worker *w, const char *file, int line)
{
    w->waiting[w->current] = (struct waiting){.file = file, .line = line, .reason = WAIT_AT_OTHER_BARRIER};
    w->divergent++;
}

/* All threads have arrived: releases them. */
static void complete_barrier(struct worker *w)
{
    if (w->tracer)
        smemkit_observer->barrier(w);
    if (w->terminated) /* all but the terminated ones */
        for (unsigned i = 0; i < w->count; i++)
            if (!(w->warp_exited[i >> 5] >> (i & 31) & 1))
                set_ready(w, i);
    if (!w->terminated)
        set_all_ready(w);
    w->arrived = 0;
    w->barrier_result = w->passed;
    w->passed = 0;
}

int smemkit_barrier(int predicate, const char *file, int line)
{
    struct worker *w = own_worker();

    if (w->arrived == 0) {
        w->barrier_file = file;
        w->barrier_line = line;
    } else if (!same_line(file, line, w->barrier_file, w->barrier_line)) {
        note_divergence(w, file, line);
    }
    w->passed += predicate != 0;
    clear_ready(w, w->current);
    if (++w->arrived + w->terminated == w->count && !w->divergent)
        complete_barrier(w);
    yield_to_next(w);
    return w->barrier_result;
}

/* ---- named barriers ---- */

/* Lanes that the hardware counts for this thread's arrival. It counts whole warps, so the last thread of a block
 * also counts for the missing lanes of its warp. */
static unsigned arriving_lanes(const struct worker *w, unsigned thread)
{
    return thread + 1 == w->count ? 1 + -w->count % 32 : 1;
}

/* Returns named barrier `id`. Aborts the launch if the id or the number of threads is invalid, or differs from
 * that of earlier arrivals. */
static struct named_barrier *named_barrier(struct worker *w, int id, unsigned lanes, const char *file, int line)
{
    struct named_barrier *b = &w->named[id & (NAMED_BARRIERS - 1)];
    char what[MESSAGE_BYTES];

    if (id < 0 || id >= NAMED_BARRIERS)
        snprintf(what, sizeof what, "no barrier %d (a block has 0 to %d) at %.200s:%d", id, NAMED_BARRIERS - 1,
                 file, line);
    else if (lanes % 32)
        snprintf(what, sizeof what, "barrier %d for %u threads, which are no whole warps of 32, at %.200s:%d", id,
                 lanes, file, line);
    else if (lanes > (w->count + 31) / 32 * 32)
        snprintf(what, sizeof what, "barrier %d for %u threads of a block that has %u at %.200s:%d", id, lanes,
                 w->count, file, line);
    else if (id == 0 && w->arrived)
        snprintf(what, sizeof what,
                 "barrier 0 for %u threads at %.200s:%d, while others wait at it for the whole block at %.200s:%d",
                 lanes, file, line, w->barrier_file, w->barrier_line);
    else if (b->arrived && b->expected != lanes)
        snprintf(what, sizeof what, "barrier %d for %u threads at %.200s:%d, but for %u threads at %.200s:%d", id,
                 lanes, file, line, b->expected, b->file, b->line);
    else if (bit(b->arrivals, w->current))
        snprintf(
            what, sizeof what,
            "a second arrival at barrier %d at %.200s:%d, before the first has been answered: %u of %u have come",
            id, file, line, b->arrived, b->expected);
    else
        return b;
    worker_fail(w, KIND_BARRIER, what, file, line);
}

/* Completes a phase: joins the clocks of the arrived threads and releases the waiting ones. */
static void complete_named(struct worker *w, struct named_barrier *b)
{
    if (w->tracer)
        smemkit_observer->join(w, b->arrivals, b->waiting);
    note_change(w);
    for (int i = 0; i < READY_WORDS; i++)
        w->ready[i] |= b->waiting[i];
    memset(b, 0, sizeof *b);
}

void smemkit_named_barrier(int id, unsigned threads, int wait, const char *file, int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current, whole = (w->count + 31) / 32 * 32, lanes = threads ? threads : whole;
    struct named_barrier *b;

    if (id == 0 && wait && lanes == whole && !w->named[0].arrived) { /* the barrier of __syncthreads */
        smemkit_barrier(0, file, line);
        return;
    }
    b = named_barrier(w, id, lanes, file, line);
    if (!b->arrived) {
        b->expected = lanes;
        b->file = file;
        b->line = line;
        w->named_used = true;
    }
    if (w->tracer)
        smemkit_observer->arrive(w, me);
    b->arrived += arriving_lanes(w, me);
    b->arrivals[me >> 6] |= UINT64_C(1) << (me & 63);
    if (wait) {
        w->waiting[me] = (struct waiting){.file = file, .line = line, .reason = WAIT_NAMED, .source = id};
        b->waiting[me >> 6] |= UINT64_C(1) << (me & 63);
        clear_ready(w, me);
    }
    if (b->arrived >= b->expected)
        complete_named(w, b);
    else if (wait)
        yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
}

/* ---- warps, and the rest of what kernels call ---- */

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

/* Replaces the operand of each lane of `lanes` by the collective's result. */
static NOINLINE void exchange(struct waiting *warp, uint32_t lanes, enum smemkit_collective kind)
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

        if (kind == SMEMKIT_SHUFFLE) {
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

/* A lane shuffles from a lane that gives no value: undefined on a GPU. That aborts the launch; in a check it is a
 * fault, and the lane gets its own value. */
static NOINLINE void undefined_shuffle(struct worker *w, unsigned warp, unsigned lane)
{
    const struct waiting *reader = &w->waiting[warp * 32 + lane];
    const unsigned me = w->current, source = (unsigned)reader->source;
    char what[MESSAGE_BYTES];

    snprintf(what, sizeof what, "undefined shuffle at %.200s:%d: lane %u reads lane %u, which ", reader->file,
             reader->line, lane, source);
    if (!(reader->mask >> source & 1))
        append(what, "mask 0x%08x does not name", (unsigned)reader->mask);
    else if (warp * 32 + source >= w->count)
        append(what, "is none of the %u threads of the block", w->count);
    else
        append(what, "has exited");
    w->current = warp * 32 + lane; /* report the reading lane; the last one to arrive is running */
    if (!w->tracer)
        worker_fail(w, KIND_SHUFFLE, what, reader->file, reader->line);
    append_location(w, what, true);
    smemkit_observer->fault(w, KIND_SHUFFLE, what, true, reader->file, reader->line, NULL, 0);
    w->current = me;
}

/* Every lane of `lanes` must shuffle from one of them, or from one that a check has terminated. */
static void check_shuffle(struct worker *w, unsigned warp, uint32_t lanes)
{
    for (uint32_t rest = lanes; rest && !w->terminated; rest &= rest - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(rest);

        if (!(lanes >> w->waiting[warp * 32 + lane].source & 1))
            undefined_shuffle(w, warp, lane);
    }
}

static NOINLINE void join_lanes(struct worker *w, unsigned warp, uint32_t lanes)
{
    uint64_t set[READY_WORDS] = {0};

    set[warp >> 1] = (uint64_t)lanes << (warp & 1) * 32;
    smemkit_observer->join(w, set, set);
}

/* Completes the collective of `mask` if all its lanes that have not exited have arrived at the same one. Returns
 * whether it did. */
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
    if (first->collective == SMEMKIT_SHUFFLE)
        check_shuffle(w, warp, lanes);
    exchange(all, lanes, first->collective);
    if (w->tracer && first->collective == SMEMKIT_SYNC)
        join_lanes(w, warp, lanes);
    w->warp_waiting[warp] &= ~lanes;
    w->ready[warp >> 1] |= (uint64_t)lanes << (warp & 1) * 32;
    if (++w->repetition.collectives[warp] % COLLECTIVES_PER_TURN == 0) {
        if (*w->abort)
            worker_leave(w);
        note_turn(w, lanes);
    }
    return true;
}

static NOINLINE void refuse_mask(struct worker *w, uint32_t mask, const char *file, int line)
{
    char what[160];

    snprintf(what, sizeof what, "warp divergence at %s:%d: mask 0x%08x does not name the calling lane %u", file,
             line, (unsigned)mask, w->current & 31);
    worker_fail(w, KIND_BARRIER, what, file, line);
}

uint64_t smemkit_warp(enum smemkit_collective kind, uint32_t mask, uint64_t value, int source, const char *file,
                      int line)
{
    struct worker *w = own_worker();
    unsigned me = w->current, warp = me >> 5;
    struct waiting *mine = &w->waiting[me];

    *mine = (struct waiting){file, line, WAIT_WARP, kind, mask, source, value};
    if (w->tracer && kind == SMEMKIT_SYNC)
        smemkit_observer->arrive(w, me);
    if (!(mask >> (me & 31) & 1))
        refuse_mask(w, mask, file, line);
    w->warp_waiting[warp] |= UINT32_C(1) << (me & 31);
    clear_ready(w, me);
    if (!complete_collective(w, warp, mask))
        yield_to_next(w);
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
    yield_to_next(w);
    w->waiting[me].reason = WAIT_AT_BARRIER;
    return (uint32_t)w->waiting[me].value;
}

void smemkit_tick(int changed)
{
    struct worker *w = smemkit_worker;

    if (!w)
        return;
    if (changed)
        note_change(w);
    if (++w->ticks % TICKS_PER_TURN)
        return;
    if (*w->abort)
        worker_leave(w);
    note_turn(w, 0);
    yield_to_next(w);
}

long long smemkit_clock64(void)
{
    smemkit_tick(1);
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
#endif
}

clock_t smemkit_clock(void)
{
    return smemkit_worker ? (clock_t)smemkit_clock64() : clock();
}

void smemkit_trap(const char *what, const char *file, int line)
{
    struct worker *w = smemkit_worker;
    char text[MESSAGE_BYTES];

    if (!w)
        abort();
    snprintf(text, sizeof text, "%s at %s:%d", what, file, line);
    if (!w->tracer)
        worker_fail(w, KIND_TRAP, text, file, line);
    append_location(w, text, true); /* a check terminates only this thread */
    smemkit_observer->fault(w, KIND_TRAP, text, true, file, line, NULL, 0);
    worker_terminate_thread(w);
}

void smemkit_overrun(const void *code)
{
    struct worker *w = smemkit_worker;

    if (!w)
        abort();
    if (!w->tracer) {
        explain(w, ERROR_ILLEGAL_ADDRESS, "illegal write: past the end of a local array", true);
        worker_leave(w);
    }
    smemkit_observer->fault_at_code(w, KIND_OUT_OF_BOUNDS,
                                    "has written past the end of a local array of the function that ends here",
                                    (const char *)code - 1);
    worker_terminate_thread(w);
}

void *smemkit_dynamic_shared(void)
{
    return own_worker()->shared.dynamic.start;
}

void *smemkit_static_shared(const struct smemkit_shared *variable)
{
    struct worker *w = own_worker();

    for (unsigned i = 0; i < w->shared.count; i++)
        if (w->shared.slots[i].variable == variable)
            return w->shared.slots[i].start;
    return shared_allocate(w, variable);
}
