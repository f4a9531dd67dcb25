/* The executor: runs CUDA kernels, compiled by the host's C++ compiler, on the CPU.
 *
 * This is what the dialect headers (csrc/cpu/include) call. One launch at a time uses the pool: its blocks are
 * spread over worker threads (pool.c); in a block every CUDA thread is a fiber on one worker (block.c). Nothing
 * here knows of Python.
 */
#ifndef SMEMKIT_EXECUTOR_H
#define SMEMKIT_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
#define SMEMKIT_THREAD_LOCAL thread_local
extern "C" {
#else
#define SMEMKIT_THREAD_LOCAL _Thread_local
#endif

/* Kernels may live in other libraries than the executor: what they call is exported. */
#pragma GCC visibility push(default)

struct smemkit_launch {
    const char *kernel; /* as the launch names it: "matmul_tiled<T, TILE>" */
    unsigned grid[3], block[3];
    size_t shared_bytes;        /* of dynamic shared memory */
    size_t shared_limit;        /* 48 KB, or what cudaFuncSetAttribute raised it to */
    int watched;                /* whether a block that takes longer than SMEMKIT_WATCHDOG allows is ended */
    void (*run)(void *closure); /* one CUDA thread, from its first statement to its last */
    void *closure;
    /* What the kernel was called with, for the checker; none in a build that is not checked. */
    unsigned argument_count;
    const void *const *arguments; /* where each argument's value lies */
    const size_t *argument_bytes;
    int closed; /* the host cannot reach the kernel's memory while it runs: a wait for the host is endless */
};

/* Runs the whole grid and waits for it. Returns a cudaError_t; smemkit_last_message() explains it. Must be
 * called without the GIL. */
int smemkit_run(const struct smemkit_launch *launch);

/* What went wrong in this thread's last launch that failed: "barrier divergence in …". */
const char *smemkit_last_message(void);

/* Forgets this thread's last error and message, and that it has run blocks. */
void smemkit_forget(void);

/* Whether blocks of this thread's launches have run since then. */
int smemkit_ran(void);

/* The error state behind cudaGetLastError and cudaPeekAtLastError, one a host thread. */
int smemkit_last_error(int clear);
int smemkit_set_error(int error);

/* ---- called by a kernel ---- */

/* __syncthreads_count: how many threads of the block passed a predicate that is not zero. */
int smemkit_barrier(int predicate, const char *file, int line);

/* PTX's named barriers: bar.sync id, threads (wait) and bar.arrive id, threads. A block has 16; one is complete,
 * and new again, when as many threads have come as all of them name. 0 threads: all of the block. */
void smemkit_named_barrier(int id, unsigned threads, int wait, const char *file, int line);

/* A collective of the lanes in `mask`, all of which wait until all that have not exited are there. The value
 * that comes back is, for SHUFFLE, the `value` of lane `source`, which must be among them; for the others, what
 * their name says. */
enum smemkit_collective {
    SMEMKIT_SYNC,
    SMEMKIT_SHUFFLE,
    SMEMKIT_BALLOT,
    SMEMKIT_MATCH,
    SMEMKIT_ADD,
    SMEMKIT_MIN,
    SMEMKIT_MAX,
    SMEMKIT_UMIN,
    SMEMKIT_UMAX,
    SMEMKIT_AND,
    SMEMKIT_OR,
    SMEMKIT_XOR
};
uint64_t smemkit_warp(enum smemkit_collective, uint32_t mask, uint64_t value, int source, const char *file,
                      int line);

/* __activemask: the lanes that arrive at this line before any of them leaves it. */
uint32_t smemkit_active_mask(const char *file, int line);

/* An atomic or a fence, and whether it changed memory: now and then lets another thread run, so that a spinning
 * thread cannot hang its block. */
void smemkit_tick(int changed);

/* clock64 and clock, which are ticks too: a thread that waits for a moment does not wait for ever. On the host's
 * threads smemkit_clock is the C library's clock. */
long long smemkit_clock64(void);
clock_t smemkit_clock(void);

/* cp.async: the calling thread's copy of 4, 8 or 16 bytes, of which the last `zeros` are not copied but zero. The
 * bytes move late, when the thread waits for the group that commit put the copy into, or ends. (async.c) */
void smemkit_async_copy(void *to, const void *from, unsigned bytes, unsigned zeros, const void *code,
                        const char *file, int line);
void smemkit_async_commit(void);
void smemkit_async_wait(unsigned groups); /* until at most so many of the last groups are outstanding */

/* The function that `code` is in has written past the end of a local array. Does not return. */
void smemkit_overrun(const void *code) __attribute__((noreturn));

/* __trap, and what else ends a launch. Does not return inside a kernel. */
void smemkit_trap(const char *what, const char *file, int line);

/* The block's dynamic shared memory; where it starts, and what extern __shared__ arrays point to. */
void *smemkit_dynamic_shared(void);

/* A static __shared__ variable: what its declaration says, and where the block has it. */
struct smemkit_shared {
    const char *name;
    size_t bytes, alignment, element_bytes;
    unsigned rank, dims[3]; /* what has more dimensions is an array, in three, of smaller arrays */
};
void *smemkit_static_shared(const struct smemkit_shared *);

/* ---- called by a kernel that was compiled for checking (SMEMKIT_CHECKED) ---- */

/* Before an access that one of the dialect's own functions makes for the kernel: __ldg, a half's +=. pc: in the
 * line of the kernel. */
void smemkit_checked_access(const volatile void *address, unsigned bytes, int write, const void *pc);

/* Around every atomic. pc: in the line of the kernel; order: 0 relaxed, 1 acquire, 2 release, 3 both,
 * and 4 more for one that compares. */
void smemkit_checked_atomic(const volatile void *address, unsigned bytes, int reads, const void *pc);
void smemkit_checked_atomic_done(const volatile void *address, unsigned bytes, int wrote, int order);
void smemkit_checked_fence(int scope); /* 1 block, 2 device, 3 system */

/* An extern __shared__ array, at its declaration */
void smemkit_checked_dynamic(const char *name, size_t element_bytes);

/* A variable of a kernel's library, of which messages say its name: __device__, or __constant__, and then reads of
 * it are no accesses to global memory. */
void smemkit_checked_global(const char *name, const void *address, size_t bytes, size_t element_bytes,
                            int constant);

/* ---- called by the host ---- */

/* How many workers run blocks; 0: one for each core that this process may use. */
void smemkit_set_workers(int count);
int smemkit_workers(void);

/* Asked every few milliseconds during a launch; nonzero ends the launch with cudaErrorUnknown (Ctrl-C). */
extern int (*smemkit_interrupted)(void);

/* For tests: the launch of this process that fails, counted from now; 0: none. With a signal, that comes while it
 * is launched, and it fails if the signal's handler raises. Returns what was left of the count before. */
long smemkit_fail_launch(long countdown, int signal);
/* To be asked before each launch: a cudaError_t, which smemkit_last_message() explains, where it is to fail. */
int smemkit_launch_failure(const char *kernel);

/* cudaMalloc and cudaFree: memory between guard pages (memory.c) */
void *smemkit_allocate(size_t bytes);
void smemkit_release(void *memory);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
