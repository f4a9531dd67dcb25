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
extern "C" {
#define SMEMKIT_THREAD_LOCAL thread_local
#else
#define SMEMKIT_THREAD_LOCAL _Thread_local
#endif

struct smemkit_launch {
    const char *kernel; /* as the launch names it: "matmul_tiled<T, TILE>" */
    unsigned grid[3], block[3];
    size_t shared_bytes;        /* of dynamic shared memory */
    size_t shared_limit;        /* 48 KB, or what cudaFuncSetAttribute raised it to */
    void (*run)(void *closure); /* one CUDA thread, from its first statement to its last */
    void *closure;
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

/* __trap, and what else ends a launch. Does not return inside a kernel. */
void smemkit_trap(const char *what, const char *file, int line);

/* The block's dynamic shared memory; where it starts, and what extern __shared__ arrays point to. */
void *smemkit_dynamic_shared(void);

/* ---- called by the host ---- */

/* How many workers run blocks; 0: one for each core that this process may use. */
void smemkit_set_workers(int count);
int smemkit_workers(void);

/* Asked every few milliseconds during a launch; nonzero ends the launch with cudaErrorUnknown (Ctrl-C). */
extern int (*smemkit_interrupted)(void);

/* cudaMalloc and cudaFree: memory between guard pages (memory.c) */
void *smemkit_allocate(size_t bytes);
void smemkit_release(void *memory);

#ifdef __cplusplus
}
#endif

#endif
