/* The multiplications of warpgroups in flight, for the executor and the observer: see wgmma.c. */
#ifndef SMEMKIT_WGMMA_H
#define SMEMKIT_WGMMA_H

#include "block.h"
#include "ptx.h"

enum {
    GROUP_WARPS = 4,
    GROUP_THREADS = 128,
    WGMMA_M = 64,
    WGMMA_BYTES = 32,
    WGMMA_MAX_N = 256,
    WGMMA_A_REGISTERS = 4
};

struct wgmma {
    struct smemkit_wgmma form; /* of its first lane; its pointers are not valid */
    const char *file;
    int line;
    unsigned first;               /* thread of the warpgroup */
    uint32_t commit[GROUP_WARPS]; /* number of the wgmma-group of each warp that it is in */
    unsigned waited;              /* bit i: warp i has waited for it */
    bool moved;                   /* its accumulators are written */
    uint32_t epoch;               /* the observer's number */
    void **d;                     /* (GROUP_THREADS, form.registers): addresses of the accumulators; NULL: none */
    bool array[GROUP_THREADS];    /* those of the thread are neighbours in memory, as in an array */
    void **a_at;                  /* (GROUP_THREADS, 4): of the registers of a, if it is in registers */
    uint32_t *a;                  /* (GROUP_THREADS, 4): their contents at the issue */
};

/* Calls `function` for each chunk of 16 bytes of an operand in shared memory, b or a: of a warp's part, or with
 * warp < 0 of the whole operand. */
typedef void (*wgmma_chunk_function)(void *context, char *chunk);
void wgmma_each_chunk(const struct worker *, const struct wgmma *, bool is_b, int warp, wgmma_chunk_function,
                      void *context);

/* wgmma_operands.c: the start of an operand in shared memory; NULL if the descriptor's address is in no array.
 * Executes a multiplication. */
char *wgmma_start(const struct worker *, const struct smemkit_wgmma *, bool is_b);
void wgmma_perform(struct worker *, struct wgmma *);

/* The multiplication in flight, from a thread's point of view, that uses a register of the thread at one of these
 * bytes; NULL if there is none. For a store, registers of a count as well. */
const struct wgmma *wgmma_register(const struct worker *, unsigned thread, const char *at, size_t bytes,
                                   bool store);

/* What setmaxnreg has done to a warp */
struct warp_registers {
    unsigned count, changes; /* registers per thread (0: not known), and how many setmaxnreg so far */
    const char *file;        /* of the last one */
    int line;
};

/* Those of all warps of the block. setmaxnreg_finish: the block ends; reports warpgroups in which some warps have
 * executed setmaxnreg and others have not, and more registers than a block can have. */
struct warp_registers *wgmma_registers(struct worker *);
void setmaxnreg_finish(struct worker *, const struct warp_registers *);

/* wgmma_exit: the running thread exits. wgmma_finish: the block ends. wgmma_forget: drops the multiplications of a
 * block. wgmma_dispose: frees their memory. */
void wgmma_exit(struct worker *);
void wgmma_finish(struct worker *);
void wgmma_forget(struct worker *);
void wgmma_dispose(struct worker *);

#endif
