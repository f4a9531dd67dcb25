/* Bulk copies in flight, for the executor, its mbarriers and the observer: see bulk.c. */
#ifndef SMEMKIT_BULK_H
#define SMEMKIT_BULK_H

#include "block.h"
#include "ptx.h"

struct bulk {
    struct smemkit_bulk copy;
    const char *file;
    int line;
    unsigned thread; /* that started it */
    uint32_t group;  /* of a copy without an mbarrier: index of the commit of its thread that closes it */
    uint64_t phase;  /* of its mbarrier, in which its bytes have arrived */
    bool moved;      /* its bytes have been copied */
    bool read;       /* its thread has waited until its source was read */
    uint32_t epoch;  /* the observer's number of its read; the next one is that of its write */
};

/* The address and the length of what a copy reads and writes. */
struct bulk_piece {
    void *to;
    const void *from;
    size_t bytes;
};

/* Completes copies that arrive at an object whose phase only lacks bytes, until the phase is complete. False if
 * there are none. */
bool bulk_complete_for(struct worker *, void *object);
/* The running thread has seen that the phases of an object before the present one are complete, and so the copies
 * that arrived in them. */
void bulk_observed(struct worker *, void *object);

/* Whether the phase of an object has bytes to wait for, or bytes that nobody has expected. */
bool bulk_is_open(const struct worker *, const void *object);
/* Appends " and 64 of 1088 bytes", if it has. */
void bulk_describe(const struct worker *, const void *object, char *text, size_t length);

/* bulk_exit: completes the copies of an exiting thread that no mbarrier waits for. bulk_finish: tells of copies
 * that nobody has waited for at the block's end. bulk_forget: drops those of a block, and what its mbarriers
 * expect. bulk_dispose: frees their memory. */
void bulk_exit(struct worker *, unsigned thread);
void bulk_finish(struct worker *);
void bulk_forget(struct worker *);
void bulk_dispose(struct worker *);

#endif
