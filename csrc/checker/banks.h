/* The cost of one access of a warp: pure functions of its addresses, independent of the executor and of Python.
 * The rule for shared memory is the hardware's own, as its counters show (tests/bank_truth.json). */
#ifndef SMEMKIT_BANKS_H
#define SMEMKIT_BANKS_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 32, MAX_BANKS = 32, SECTOR_BYTES = 32 };

/* One request: the accesses of a warp's lanes in one instruction. */
struct warp_access {
    bool store;
    int size;                  /* bytes per lane: 1, 2, 4, 8, 16 */
    uint32_t mask;             /* the active lanes */
    uint64_t addresses[LANES]; /* in bytes, each a multiple of `size` */
};

struct bank_cost {
    int wavefronts;       /* passes of shared memory */
    int conflicts;        /* wavefronts beyond those that a conflict-free request takes */
    int degree;           /* the most words of one bank for one group of lanes: n in "n-way" */
    int lanes;            /* how many consecutive lanes are served together */
    int groups;           /* groups of lanes with an active lane, served one after the other */
    int words[MAX_BANKS]; /* words that each bank delivers, over all groups */
};

/* For `banks` banks, a power of two up to MAX_BANKS, of `width` bytes each, 4 or 8. */
struct bank_cost bank_cost(const struct warp_access *, int banks, int width);

/* One cp.async of a warp. */
struct warp_copy {
    bool past_l1;                    /* cp.async.cg, of 16 bytes */
    int size;                        /* bytes per lane: 4, 8, 16 */
    uint32_t mask;                   /* the active lanes */
    uint64_t from[LANES], to[LANES]; /* in bytes; from 0: a lane that reads nothing and writes zeros */
};

/* What a copy's writes to shared memory cost. Found by Nsight Compute's counters for 1,000 copies
 * (tests/copy_truth.json):
 *
 * - Through the L1 cache, the lanes of 128 bytes are served together. Two of them collide if they read from the
 * same place of a line of 128 bytes, or write to the same banks: the most lanes that collide with one, and it,
 * take a wavefront each.
 * - Past it, a wavefront moves sectors of 32 bytes of one line to one row of 128 bytes of shared memory. All of
 * them have the same halves, which go to the same halves, and keep their order up to rotation, or reverse it. */
struct copy_cost {
    int wavefronts;
    int degree; /* the most wavefronts of one group of lanes, through the L1 cache */
};
struct copy_cost copy_cost(const struct warp_copy *);

/* The sectors of global memory that a request accesses, and the fewest that could hold its bytes. */
int sector_count(const struct warp_access *);
int ideal_sector_count(const struct warp_access *);

#endif
