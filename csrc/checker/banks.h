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

/* What a copy's writes to shared memory cost: found with Nsight Compute's counters of 1,400 copies, of which
 * tests/checker/copy_truth.json has 450.
 *
 * - Through the L1 cache, the lanes of 128 bytes are served together. Two of them collide if they write to the
 * same banks, or read from the same place of a line of 128 bytes, even from the same address. A lane and those
 * that collide with it take a wavefront each; the lane with the most counts.
 * - Past it, a wavefront moves sectors of 32 bytes from one line to one row of 128 bytes of shared memory. It
 * moves whole sectors, sectors whose halves are exchanged, or the same half of each to the same half. The sectors
 * may be rotated, or in reverse order, but not mixed. (Where one source goes to several places this is only near.)
 */
struct copy_cost {
    int wavefronts;
    int degree; /* the most wavefronts of one group of lanes, through the L1 cache */
};
struct copy_cost copy_cost(const struct warp_copy *);

/* The sectors of global memory that a request accesses, and the fewest that could hold its bytes. */
int sector_count(const struct warp_access *);
int ideal_sector_count(const struct warp_access *);

#endif
