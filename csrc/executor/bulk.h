/* Bulk copies in flight, for the executor, its mbarriers and the observer: see bulk.c. */
#ifndef SMEMKIT_BULK_H
#define SMEMKIT_BULK_H

#include "block.h"
#include "ptx.h"

struct bulk {
    struct smemkit_bulk copy;
    struct smemkit_tensor tensor; /* the copy's, as it was at the start */
    const char *file;
    int line;
    unsigned thread; /* that started it */
    uint32_t group;  /* of a copy without an mbarrier: index of the commit of its thread that closes it */
    uint64_t phase;  /* of its mbarrier, in which its bytes have arrived */
    bool moved;      /* its bytes have been copied */
    uint32_t epoch;  /* the observer's number of its read; the next one is that of its write */
};

/* Whether the bytes come from registers: st.async and red.async, which are no copies of the async proxy. */
bool bulk_is_of_registers(const struct smemkit_bulk *);

/* A part of a copy: bytes of global and of shared memory, which are contiguous in both. The elements of a box
 * outside the tensor are in pieces with global == NULL. */
struct bulk_piece {
    char *global, *shared;
    size_t bytes;
};
typedef void (*bulk_piece_function)(void *context, const struct bulk_piece *);
/* Calls `function` for each piece of a copy. A copy within shared memory is a piece whose `global` is the source.
 */
void bulk_each_piece(const struct bulk *, bulk_piece_function, void *context);

/* Completes copies that arrive at an object whose phase only lacks bytes, until the phase is complete. False if
 * there are none. */
bool bulk_complete_for(struct worker *, void *object);
/* The running thread has seen that the phases of an object before the present one are complete, and so the copies
 * that arrived in them. */
void bulk_observed(struct worker *, void *object);

/* Whether the phase of an object has bytes to wait for, or more bytes than it expects. */
bool bulk_is_open(struct worker *, const void *object);
/* The mbarrier is initialised or invalidated: bytes of its earlier use are no longer expected. */
void bulk_forget_object(struct worker *, const void *object);
/* Appends " and 64 of 1088 bytes", if it has. */
void bulk_describe(const struct worker *, const void *object, char *text, size_t length);

/* bulk_exit: completes the copies of an exiting thread that no mbarrier waits for. bulk_finish: reports copies
 * that no thread has waited for at the block's end. bulk_forget: drops those of a block, and what its mbarriers
 * expect. bulk_dispose: frees their memory. */
void bulk_exit(struct worker *, unsigned thread);
void bulk_finish(struct worker *);
void bulk_forget(struct worker *);
void bulk_dispose(struct worker *);

#endif
