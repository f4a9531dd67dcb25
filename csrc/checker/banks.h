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

/* The sectors of global memory that a request accesses, and the fewest that could hold its bytes. */
int sector_count(const struct warp_access *);
int ideal_sector_count(const struct warp_access *);

#endif
