/* What one access of a warp costs: pure functions of its addresses, with nothing of the executor or of Python in
 * them. The rule for shared memory is the hardware's own, as its counters show it (tests/bank_truth.json). */
#ifndef SMEMKIT_ANALYSIS_H
#define SMEMKIT_ANALYSIS_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 32, MAX_BANKS = 32, SECTOR_BYTES = 32 };

/* One request: what the lanes of a warp ask for at once. */
struct warp_access {
    bool store;
    int size;                  /* bytes a lane: 1, 2, 4, 8, 16 */
    uint32_t mask;             /* the active lanes */
    uint64_t addresses[LANES]; /* in bytes, each a multiple of `size` */
};

struct bank_cost {
    int wavefronts;       /* passes of shared memory */
    int conflicts;        /* of those, how many more than without conflicts */
    int degree;           /* the most words that one bank has to deliver to one group of lanes: n in "n-way" */
    int lanes;            /* how many consecutive lanes are served together */
    int groups;           /* groups of lanes that are served one after the other, with an active lane in them */
    int words[MAX_BANKS]; /* that each bank delivers, all groups together */
};

/* For `banks` banks, a power of two up to MAX_BANKS, of `width` bytes each, 4 or 8. */
struct bank_cost bank_cost(const struct warp_access *, int banks, int width);

/* Blocks of 32 bytes of global memory that a request touches, and the fewest that could hold as many bytes. */
int sector_count(const struct warp_access *);
int ideal_sector_count(const struct warp_access *);

#endif
