/* The blocks of one cluster, which run together: see cluster.c. */
#ifndef SMEMKIT_CLUSTER_H
#define SMEMKIT_CLUSTER_H

#include "block.h"

enum { MAX_CLUSTER = 16 };

struct cluster {
    unsigned size, dims[3];
    struct index3 number;                /* of the cluster in the grid */
    struct worker *members[MAX_CLUSTER]; /* by rank */
    bool ended[MAX_CLUSTER];             /* their blocks */
    unsigned arrived, live;              /* threads at the barrier; and those that have not exited */
    uint32_t phase;                      /* of the barrier */
};

/* Runs the cluster of this number on a worker. On failure returns false and fills worker->fault. */
bool cluster_run(struct worker *, const struct smemkit_launch *, uint64_t number);
uint64_t cluster_count(const struct smemkit_launch *); /* of the grid */
bool cluster_is_wanted(const struct smemkit_launch *);
/* How many workers may run clusters with the stacks of this many blocks: each needs those of a whole one. */
int cluster_workers(const struct smemkit_launch *, int stacks);
/* If not, says why. */
bool cluster_is_possible(const struct smemkit_launch *, char *why, size_t length);
/* Maps the stacks and the shared memory of further members. False if there is no memory for them. */
bool cluster_prepare(struct worker *, const struct smemkit_launch *);
/* Disposes of the members of an idle worker that the launch does not need. */
void cluster_trim(struct worker *, const struct smemkit_launch *);
void cluster_dispose(struct worker *);
/* The observer enters and leaves the further members, around the worker's blocks of the launch. */
bool cluster_observe(struct worker *, const struct smemkit_launch *, struct observation *);
bool cluster_restore(struct worker *);

/* Called by a fiber: lets the other blocks run. `stalled`: no thread of this block can run until another block
 * releases one. Returns false if no block can ever do that. */
bool cluster_switch(struct worker *, bool stalled);
/* The running thread exits. */
void cluster_exit(struct worker *);

/* The cluster of a worker's block, NULL if it is of none. */
struct cluster *cluster_of(const struct worker *);
/* The worker whose shared memory has this address: the worker itself, or another member of its cluster, or NULL.
 */
struct worker *cluster_owner(struct worker *, const void *address);

#endif
