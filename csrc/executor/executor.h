/* The executor: runs CUDA kernels, compiled by the host's C++ compiler, on the CPU.
 *
 * The dialect's headers (include/) call it. One launch at a time uses the pool of worker threads, which
 * take its blocks one after another (pool.c). Each CUDA thread of a block is a fiber on one worker (block.c).
 * Nothing here knows Python.
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

/* Kernels may be in other libraries than the executor, so what they call is exported. */
#pragma GCC visibility push(default)

struct smemkit_launch {
    const char *kernel; /* its name in the launch: "matmul_tiled<T, TILE>" */
    unsigned grid[3], block[3];
    size_t shared_bytes;        /* dynamic shared memory per block */
    size_t shared_limit;        /* 48 KB, or what cudaFuncSetAttribute raised it to */
    int watched;                /* a block that runs longer than SMEMKIT_WATCHDOG is ended */
    void (*run)(void *closure); /* runs one CUDA thread from start to end */
    void *closure;
    /* The kernel's arguments, for the checker; none unless the build is checked. */
    unsigned argument_count;
    const void *const *arguments; /* addresses of the arguments' values */
    const size_t *argument_bytes;
    int cooperative;         /* its blocks wait for each other: they run together, each on a worker of its own */
    int host_cannot_write;   /* during the launch, in the memory of the kernel: a wait for the host never ends */
    unsigned *grid_arrivals; /* arrivals of blocks at grid-wide barriers; zeroed before blocks run */
    unsigned cluster[3];     /* blocks of a cluster in each dimension, which divides the grid; zeros: none */
};

/* Runs the grid and waits for it. Returns a cudaError_t, which smemkit_last_message() explains. Call it without
 * the GIL. */
int smemkit_run(const struct smemkit_launch *launch);

/* Lets this thread's next launch begin before the one that `earlier` runs, which returns a cudaError_t: with
 * programmatic stream serialisation. This thread calls `earlier` when all blocks that have begun wait for it, or
 * when the launch has ended; not if the launch fails before. */
void smemkit_overtake(int (*earlier)(void));

/* Message of this thread's last failed launch: "barrier divergence in …". */
const char *smemkit_last_message(void);

/* Clears this thread's last error, its message, and smemkit_ran(). */
void smemkit_forget(void);

/* Whether a launch of this thread has run blocks since smemkit_forget(). */
int smemkit_ran(void);

/* The state of cudaGetLastError and cudaPeekAtLastError, one per host thread. */
int smemkit_last_error(int clear);
int smemkit_set_error(int error);

/* ---- called by a kernel ---- */

/* PTX's barrier.cluster and the position of a block in its cluster (cluster.c). `map`: the same address in the
 * shared memory of the block of this rank. */
void smemkit_cluster_arrive(int aligned, int releases, const char *file, int line);
void smemkit_cluster_wait(int aligned, const char *file, int line);
unsigned smemkit_cluster_rank(void);
unsigned smemkit_cluster_dim(int axis);
void *smemkit_cluster_map(const void *address, unsigned rank, const char *file, int line);
unsigned smemkit_cluster_rank_of(const void *address);
/* As smemkit_is_shared, of all blocks of the cluster. */
int smemkit_is_cluster_shared(const void *address);

/* griddepcontrol.wait: until the launch before this one, which it may have overtaken, has ended. */
void smemkit_await_earlier(const char *file, int line);

/* __syncthreads_count: returns how many threads of the block gave a nonzero predicate. */
int smemkit_barrier(int predicate, const char *file, int line);

/* PTX's named barriers: bar.sync id, threads (wait != 0) and bar.arrive id, threads (wait == 0). A block has 16. A
 * barrier completes, and can be used again, when `threads` threads have arrived; all arrivals must name the same
 * number. 0 threads means the whole block. */
void smemkit_named_barrier(int id, unsigned threads, int wait, const char *file, int line);

/* A collective of the lanes in `mask`: waits until all of them that have not exited have arrived. SHUFFLE returns
 * the `value` of lane `source`, which must be among them; the other collectives return what their names say. */
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

/* Called by each atomic (`changed`: it wrote memory) and fence. From time to time it lets another thread run, so
 * that a spinning thread cannot hang its block. */
void smemkit_tick(int changed);

/* clock64 and clock, which are ticks too, so that a thread that waits for a time to pass lets others run. On host
 * threads, smemkit_clock is the C library's clock. */
long long smemkit_clock64(void);
clock_t smemkit_clock(void);

/* The path of a copy: through the L1 cache (cp.async.ca), past it (.cg), or past it with a number of bytes that
 * the compiler does not know, so that they may be zeros. */
enum smemkit_copy_path { SMEMKIT_THROUGH_L1, SMEMKIT_PAST_L1, SMEMKIT_PAST_L1_OR_ZERO };

/* cp.async: copies 4, 8 or 16 bytes for the calling thread; the last `zeros` bytes are filled with zeros. The
 * bytes arrive when the thread waits for the group that the next commit closes, or exits. See async.c. */
void smemkit_async_copy(void *to, const void *from, unsigned bytes, unsigned zeros, enum smemkit_copy_path path,
                        const void *code, const char *file, int line);
void smemkit_async_commit(void);
void smemkit_async_wait(unsigned groups); /* until at most this many groups are outstanding */

/* Whether the blocks of the running launch run together, so that they may wait for each other. */
int smemkit_runs_together(void);

/* Reports that the function around `code` has written past the end of a local array. Does not return. */
void smemkit_overrun(const void *code) __attribute__((noreturn));

/* __trap, and other errors that end a launch. Does not return when called by a kernel. */
void smemkit_trap(const char *what, const char *file, int line);

/* Address of the block's dynamic shared memory, which extern __shared__ arrays point to. */
void *smemkit_dynamic_shared(void);

/* A static __shared__ variable: its declaration, and its address in the running block. */
struct smemkit_shared {
    const char *name;
    size_t bytes, alignment, element_bytes;
    unsigned rank, dims[3]; /* further dimensions count as the element */
};
void *smemkit_static_shared(const struct smemkit_shared *);

/* ---- called by a kernel that was compiled for checking (SMEMKIT_CHECKED) ---- */

/* Called before an access that a function of the dialect makes for the kernel (__ldg, a half's +=). pc: an address
 * in the kernel's line. */
/* `how`: 0 a load, 1 a store, 2 a load of memory that the kernel promises not to write, 3 a store that begins or
 * ends an mbarrier */
void smemkit_checked_access(const volatile void *address, unsigned bytes, int how, const void *pc);

/* Called around every atomic. pc: an address in the kernel's line. order: 0 relaxed, 1 acquire, 2 release, 3 both,
 * plus 4 for compare-and-swap; 8 acquires what threads of the own block have released, 16 nothing, not even with a
 * later fence. smemkit_checked_try_again: in place of both, a failed wait that is known already. */
void smemkit_checked_atomic(const volatile void *address, unsigned bytes, int reads, const void *pc);
void smemkit_checked_atomic_done(const volatile void *address, unsigned bytes, int wrote, int order);
void smemkit_checked_try_again(const void *pc);
void smemkit_checked_fence(int scope);                    /* 1 block, 2 device, 3 system */
void smemkit_checked_proxy_fence(int shared, int global); /* fence.proxy.async for memory of these spaces */

/* Called at the declaration of an extern __shared__ array. */
void smemkit_checked_dynamic(const char *name, size_t element_bytes);

/* Registers a __device__ or __constant__ variable of a kernel's library, so that messages can name it. Reads of a
 * constant do not count as accesses to global memory. */
void smemkit_checked_global(const char *name, const void *address, size_t bytes, size_t element_bytes,
                            int constant);

/* ---- called by the host ---- */

/* Number of workers that run blocks. 0: one per core that this process may use. */
void smemkit_set_workers(int count);
int smemkit_workers(void);

/* Called every few milliseconds during a launch. A nonzero result ends the launch with cudaErrorUnknown (Ctrl-C).
 */
extern int (*smemkit_interrupted)(void);

/* For tests: makes the `countdown`-th launch from now fail; 0: none. With a signal, that signal is raised during
 * the launch, which fails if the signal's handler raises. Returns the remaining countdown of the previous call. */
long smemkit_fail_launch(long countdown, int signal);
/* Called before each launch. Returns a cudaError_t, which smemkit_last_message() explains, if the launch is to
 * fail. */
int smemkit_launch_failure(const char *kernel);

/* cudaMalloc and cudaFree: memory between guard pages (memory.c) */
void *smemkit_allocate(size_t bytes);
void smemkit_release(void *memory);

/* malloc, new, free and delete, of a kernel or of the host code beside it. A kernel's memory lies between guard
 * pages; it gets NULL where there is none, as on a GPU. caller: the return address in the kernel. */
void *smemkit_heap_allocate(size_t bytes);
void smemkit_heap_release(void *memory, const void *caller);
int smemkit_in_kernel(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
