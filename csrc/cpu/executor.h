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
    void (*run)(void *closure); /* one CUDA thread, from its first statement to its last */
    void *closure;
    /* What the kernel was called with, for the checker; none in a build that is not checked. */
    unsigned argument_count;
    const void *const *arguments; /* where each argument's value lies */
    const size_t *argument_bytes;
};

/* Runs the whole grid and waits for it. Returns a cudaError_t; smemkit_last_message() explains it. Must be
 * called without the GIL. */
int smemkit_run(const struct smemkit_launch *launch);

/* What went wrong in this thread's last launch that failed: "barrier divergence in …". */
const char *smemkit_last_message(void);

/* Forgets this thread's last error and message. */
void smemkit_forget(void);

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
 * that comes back is, for SHUFFLE, the `value` of lane `source`; for the others, what their name says. */
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

/* An atomic or a fence: now and then lets another thread run, so that a spinning thread cannot hang its block. */
void smemkit_tick(void);

/* cp.async: the calling thread's copy of 4, 8 or 16 bytes, of which the last `zeros` are not copied but zero. The
 * bytes move late, when the thread waits for the group that commit put the copy into, or ends. (async.c) */
void smemkit_async_copy(void *to, const void *from, unsigned bytes, unsigned zeros, const void *code,
                        const char *file, int line);
void smemkit_async_commit(void);
void smemkit_async_wait(unsigned groups); /* until at most so many of the last groups are outstanding */

/* __trap, and what else ends a launch. Does not return inside a kernel. */
void smemkit_trap(const char *what, const char *file, int line);

/* The block's dynamic shared memory; where it starts, and what extern __shared__ arrays point to. */
void *smemkit_dynamic_shared(void);

/* ---- called by a kernel that was compiled for checking (SMEMKIT_CHECKED) ---- */

/* Before an access that one of the dialect's own functions makes for the kernel: __ldg, a half's +=. pc: in the
 * line of the kernel. */
void smemkit_checked_access(const volatile void *address, unsigned bytes, int write, const void *pc);

/* Around every atomic. pc: in the line of the kernel; order: 0 relaxed, 1 acquire, 2 release, 3 both,
 * and 4 more for one that compares. */
void smemkit_checked_atomic(const volatile void *address, unsigned bytes, int reads, const void *pc);
void smemkit_checked_atomic_done(const volatile void *address, unsigned bytes, int wrote, int order);
void smemkit_checked_fence(int scope); /* 1 block, 2 device, 3 system */

/* A __shared__ variable at its declaration: its elements, and its extent in each of up to 3 dimensions. The
 * dynamic array has bytes 0: it takes what the launch gave. */
void smemkit_checked_shared(const char *name, const void *address, size_t bytes, size_t element_bytes, int ndim,
                            const unsigned *dims);

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

/* cudaMalloc and cudaFree: memory between guard pages (memory.c) */
void *smemkit_allocate(size_t bytes);
void smemkit_release(void *memory);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
