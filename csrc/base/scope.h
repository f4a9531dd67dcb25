/* What timed(), plan() and check() set for the calls that their thread makes inside them. It is the only state of
 * a thread that changes how a call runs. It is needed because timed(), plan() and check() take any Python
 * function, which makes the calls. */
#ifndef SMEMKIT_BASE_SCOPE_H
#define SMEMKIT_BASE_SCOPE_H

struct scope {
    struct timing *timing;     /* to which calls add their times; NULL outside timed() */
    struct recorder *recorder; /* which records calls instead of executing them; NULL outside plan() */
    struct checking *checking; /* of launches on the CPU device; NULL outside check() */
};

/* This thread's scope. */
const struct scope *current_scope(void);

/* Makes `inner` this thread's scope, and returns the previous one, which must be set again afterwards. */
struct scope scope_set(struct scope inner);

#endif
